"""Slow readers, floods of text, and memory that stays where it is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway import connection
from gateway.config import Limits
from gateway.utterance import Utterance

from .house import JSON, asynchronous, audio_of, gateway, peer, until

SLOW: dict[str, Any] = {"max_queue": 1, "ping_interval": None}  # reads nothing ahead
LONG = "word " * 2_000  # 6,000 frames, 23 MB


@asynchronous
async def test_a_slow_reader_holds_the_engine_and_gets_every_sample() -> None:
    limits = Limits(outbox_high=64_000, outbox_low=16_000, stall_seconds=60)
    async with gateway(step=0.0, limits=limits) as server, peer(server, **SLOW) as client:
        await client.speak("u", LONG, end=True, pace="fast", max_seconds=400)
        await client.until("audio")
        (served,) = server.connections
        session = served.session
        assert session
        client.socket.transport.pause_reading()
        await until(lambda: session.outbox.held)
        made = session.live["u"].frames
        await engine_is_still(session.live["u"])
        assert session.live["u"].frames - made < 50  # what was under way
        assert session.outbox.bytes < 64_000 + 50 * 4_000
        client.socket.transport.resume_reading()
        seen = await client.until("done")
        audio = audio_of(seen, "u")
        assert [a["start"] for a in audio] == [1920 * i for i in range(1, 5000)]
        assert seen[-1]["reason"] == "length"


@asynchronous
async def test_a_reader_that_reads_nothing_loses_the_utterance_and_not_the_memory() -> None:
    limits = Limits(outbox_high=64_000, outbox_low=16_000, stall_seconds=0.3)
    async with gateway(step=0.0, limits=limits) as server, peer(server, **SLOW) as client:
        await client.speak("u", LONG, end=True, pace="fast")
        await client.until("audio")
        (served,) = server.connections
        assert served.session
        client.socket.transport.pause_reading()
        await server.engines.idle.wait()
        assert served.session.outbox.bytes < 16_000
        client.socket.transport.resume_reading()
        error, done = (await client.until("done"))[-2:]
        assert (error["code"], error["limit"]) == ("slow_client", "stall_seconds")
        assert done["reason"] == "error"
        assert await client.alive()


@asynchronous
async def test_the_last_audio_and_done_come_before_the_close() -> None:
    """Under back-pressure too: the drain ends while much of the audio still waits."""
    async with gateway(step=0.0, drain_seconds=60) as server, peer(server, **SLOW) as client:
        await client.speak("u", "word " * 1_000, end=True, pace="fast")
        await client.until("audio")
        client.socket.transport.pause_reading()
        (served,) = server.connections
        assert served.session
        await until(lambda: served.session.outbox.held)
        draining = asyncio.create_task(server.drain())
        client.socket.transport.resume_reading()
        code, seen = await client.closed()
        await draining
        assert (code, seen[-1]["type"], seen[-1]["reason"]) == (1012, "done", "eos")
        assert len(audio_of(seen, "u")) == 2_999  # and the one before


@asynchronous
async def test_the_drain_waits_for_a_slow_reader_when_the_engine_is_done() -> None:
    limits = Limits(outbox_high=100_000_000, stall_seconds=120)
    async with gateway(step=0.0, drain_seconds=60, limits=limits) as server:
        async with peer(server, **SLOW) as client:
            names = [f"u{i}" for i in range(4)]
            f32 = {"encoding": "pcm_f32le"}
            for name in names:
                await client.speak(name, "word " * 300, end=True, pace="fast", format=f32)
            await client.until("audio")
            client.socket.transport.pause_reading()
            await server.engines.idle.wait()
            (served,) = server.connections
            assert served.session
            assert served.session.outbox
            draining = asyncio.create_task(server.drain())
            done, _ = await asyncio.wait({draining}, timeout=0.5)
            assert not done
            client.socket.transport.resume_reading()
            code, seen = await client.closed()
            await draining
        assert code == 1012
        assert {m["utterance"] for m in seen if m["type"] == "done"} == set(names)
        assert sum(len(audio_of(seen, name)) for name in names) == 4 * 900 - 1


@asynchronous
async def test_a_stop_without_a_drain_leaves_no_utterance_without_its_done() -> None:
    async with gateway() as server, peer(server) as client:
        await client.speak("u", LONG)
        await client.until("audio")
        stopping = asyncio.create_task(server.stop())
        code, seen = await client.closed()
        await stopping
        error, done = seen[-2:]
        assert (error["code"], done["reason"], code) == ("draining", "error", 1012)


@asynchronous
async def test_a_client_that_never_reads_its_last_words_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "CLOSE_SECONDS", 0.1)
    async with gateway(step=0.0) as server, peer(server, **SLOW) as client:
        await client.speak("u", LONG, end=True, pace="fast")
        await client.until("audio")
        client.socket.transport.pause_reading()
        (served,) = server.connections
        await until(lambda: served.session is not None and served.session.outbox.held)
        await client.send(type="hello")  # too late: fatal
        await served.wait_closed()
        client.socket.transport.abort()


@asynchronous
async def test_a_held_connection_does_not_hold_its_neighbour() -> None:
    limits = Limits(outbox_high=64_000, outbox_low=16_000, stall_seconds=60)
    async with (
        gateway(step=0.0, limits=limits) as server,
        peer(server, **SLOW) as slow,
        peer(server) as quick,
    ):
        await slow.speak("u", LONG, end=True, pace="fast")
        await slow.until("audio")
        slow.socket.transport.pause_reading()
        await quick.speak("u", "and so we speak", end=True)
        assert (await quick.until("done"))[-1]["reason"] == "eos"
        slow.socket.transport.abort()


@asynchronous
async def test_text_beyond_the_limit_waits_in_the_socket() -> None:
    """Ten thousand deltas at once: read as fast as they are spoken, none lost, none refused."""
    limits = Limits(messages_per_second=1_000_000, pending_text_chars=100)
    text = "ab " * 300
    async with gateway(step=0.0, limits=limits) as server, peer(server, JSON) as client:
        await client.speak("u", pace="fast")
        for letter in text:
            await client.send(type="text", utterance="u", text=letter)
        await client.send(type="end", utterance="u")
        (served,) = server.connections
        assert served.session
        most = 0
        while (message := await client.next())["type"] != "done":
            live = served.session.live.get("u")
            most = max(most, live.pending_chars if live else 0)
        assert (message["reason"], message["samples"]) == ("eos", 900 * 1920)
        assert 20 < most <= 101


async def engine_is_still(utterance: Utterance) -> None:
    """Wait until no frame comes any more."""
    before = -1
    while before != utterance.frames:
        before = utterance.frames
        for _ in range(2_000):
            await asyncio.sleep(0)
