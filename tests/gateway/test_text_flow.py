"""Text that comes faster than it is spoken: the reading stops, and nothing else does."""

from __future__ import annotations

import pytest

from engine import messages as engine
from gateway.config import Limits

from .house import asynchronous, audio_of, gateway, peer
from .test_session import Table, frame, opened

PROSE = "and so it goes on and on, word by word, as they come; "


@pytest.mark.parametrize("filler", [" ", ".", "x"])
@asynchronous
async def test_text_that_cannot_be_fed_blocks_neither_ping_nor_cancel(filler: str) -> None:
    """Spaces, dots, and a word that has no end yet."""
    limits = Limits(pending_text_chars=100, text_seconds=5)
    async with gateway(limits=limits) as server, peer(server) as client:
        await client.until("ready")
        await client.speak("u")
        await client.until("started")
        for _ in range(3):
            await client.send(type="text", utterance="u", text=filler * 50)
        await client.send(type="ping", id=1)
        assert [m["type"] for m in await client.until("pong")] == ["pong"]
        await client.send(type="cancel", utterance="u")
        (done,) = await client.until("done")
        assert done["reason"] == "cancelled"


@asynchronous
async def test_text_that_waits_for_us_is_not_missed() -> None:
    limits = Limits(pending_text_chars=100, text_seconds=0.5)
    async with gateway(limits=limits, step=0.02) as server, peer(server) as client:
        await client.speak("u", pace="fast")
        for _ in range(6):
            await client.send(type="text", utterance="u", text=PROSE)
        await client.send(type="text", utterance="u", text="LAST.")
        await client.send(type="end", utterance="u")
        seen = await client.until("done")
        assert all(m["type"] != "error" for m in seen)
        assert seen[-1]["reason"] == "eos"
        assert len(audio_of(seen, "u")) == 3 * len((PROSE * 6 + "LAST.").split())


def test_text_seconds_run_only_while_the_client_is_read() -> None:
    table = Table(Limits(pending_text_chars=10, text_seconds=5))
    opened(table, text="twelve chars")
    for number in range(20):
        table.event(frame(number))
        assert table.tick(0.5) == []
    table.event(engine.Progress(1, 5, 20))
    assert table.tick(4.9) == []
    assert table.tick(0.2)[0]["code"] == "text_timeout"


def test_text_seconds_stand_while_messages_lie_unread() -> None:
    """Above messages_per_second, say."""
    table = Table(Limits(text_seconds=5))
    opened(table, text="some words")
    table.now += 10
    table.session.tick(table.now, listening=False)
    assert table.heard() == []
    assert table.tick(5.1)[0]["code"] == "text_timeout"


def test_only_text_that_is_being_fed_stops_the_reading() -> None:
    table = Table(Limits(pending_text_chars=10))
    opened(table, text=" " * 12, clean="off")
    table.tick(0.9)
    assert not table.session.may_read
    table.tick(0.2)
    assert table.session.may_read
    table.say("text", utterance="u", text="words ")
    assert table.session.may_read
    table.event(frame(0))
    assert not table.session.may_read


def test_an_utterance_that_speaks_does_not_bar_its_neighbours_text() -> None:
    table = Table(Limits(pending_text_chars=10))
    opened(table, text="one two")
    table.speak("v", text=" " * 12)
    for number in range(5):
        table.event(frame(number))
        table.tick(0.5)
    assert table.session.may_read


def test_a_client_that_reads_on_is_not_idle() -> None:
    table = Table(Limits(idle_seconds=60))
    opened(table, end=True)
    for number in range(3):
        table.session.receive_event(frame(number), table.now)
    table.session.receive_event(engine.Finished(1, "eos", 3, 1, 0.0, 0.0), table.now)
    messages = table.session.messages_to_send
    for kind in ("audio", "audio", "audio", "done"):
        table.now += 50
        table.session.tick(table.now)
        assert next(messages(table.now))["type"] == kind
    assert table.tick(61)[0]["code"] == "idle_timeout"
