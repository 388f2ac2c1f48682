"""The client library goes on by itself where a connection broke."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.client import Client, SpeechError, connect
from gateway.config import EngineArguments, GatewayConfig
from gateway.keys import grants
from gateway.listener import REPLAYS
from gateway.notes import Notes
from gateway.server import Server
from tests.engine.tiny import write_checkpoint
from tests.gateway.house import asynchronous, gateway, until

from .test_client import FRAME, LONG, MAN, back_again, lose, starved, url

TEXT = "Hello there, my friend. How are you today? I am well, thank you for asking. "


def test_a_cut_in_mid_speech_changes_no_sample(tmp_path: Path) -> None:
    """Twice, with text that comes while there is no connection, on a real engine."""
    write_checkpoint(tmp_path, seed=1)

    async def spoken(server: Server, cuts: set[int]) -> bytes:
        heard, fields = b"", {"seed": 7, "pace": "fast", "max_seconds": 8}
        async with connect(url(server)) as client:
            utterance = await client.speak(MAN, TEXT * 3, **fields)
            at = 0
            async for audio in utterance:
                assert audio.start == at
                at += audio.samples
                heard += audio
                if at // FRAME in cuts:
                    await lose(server)
            assert (await utterance.done()).samples == at
        return heard

    async def both() -> None:
        model = EngineArguments(model=str(tmp_path), device="cpu", slots=2)
        server = Server(GatewayConfig(port=0, engine=model, drain_seconds=0))
        server.bind()
        try:
            async with asyncio.timeout(120):
                await server.start()
                assert await spoken(server, set()) == await spoken(server, {4, 60})
        finally:
            await server.stop()

    asyncio.run(both())


@asynchronous
async def test_text_flushes_and_the_end_said_without_a_connection_are_not_lost() -> None:
    async with gateway() as server, connect(url(server)) as client:
        more = asyncio.Event()
        fed = await client.speak(MAN, starved("one two ", more, "three"))
        own = await client.speak(MAN)
        await own.send("one moment ")
        flush = await own.flush()
        await own.flushed(flush)
        await lose(server)
        more.set()
        await own.send("please ")
        again = await own.flush()
        assert await own.flushed(again) == 9 * FRAME
        await own.end()
        assert [a.start for a in [a async for a in own]] == [n * FRAME for n in range(9)]
        assert [a.start for a in [a async for a in fed]] == [n * FRAME for n in range(9)]


@asynchronous
async def test_it_goes_on_at_a_server_that_comes_back() -> None:
    async with gateway() as server:
        client = Client(url(server))
        await client.open()
        utterance = await client.speak(MAN, LONG, pace="fast")
        await anext(utterance)
        await lose(server)
    async with back_again(server.port):
        starts = [audio.start for audio in [audio async for audio in utterance]]
        assert starts == [n * FRAME for n in range(1, 600)]
        await client.close()


@asynchronous
async def test_it_can_be_turned_off() -> None:
    async with gateway() as server, connect(url(server), resume=False) as client:
        utterance = await client.speak(MAN, LONG)
        await anext(utterance)
        await lose(server)
        with pytest.raises(SpeechError, match="connection_lost"):
            await utterance.done()


@asynchronous
async def test_a_cancel_while_it_is_away_ends_it() -> None:
    async with gateway() as server, connect(url(server)) as client:
        utterance = await client.speak(MAN, LONG)
        await anext(utterance)
        await lose(server)
        await utterance.cancel()
        assert (await utterance.done()).reason == "cancelled"
        assert server.load.live <= 1


@asynchronous
async def test_a_full_server_is_tried_again_and_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A key that another client has used up meanwhile."""
    keys = grants(["k chars_per_minute=1100"])
    async with gateway(keys=keys) as server, connect(url(server), token="k") as client:
        utterance = await client.speak(MAN, "word " * 180)
        other = await client.speak(MAN, "word " * 60)
        await other.cancel()
        await anext(utterance)
        slept: list[float] = []
        sleep = asyncio.sleep

        async def soon(seconds: float) -> None:
            slept.append(seconds)
            await sleep(min(seconds, 0.02))

        monkeypatch.setattr("gateway.listener.asyncio.sleep", soon)
        await lose(server)
        with pytest.raises(SpeechError) as refused:
            await utterance.done()
        assert refused.value.code == "rate_limited"
        assert len([s for s in slept if 1 < s < 15]) == REPLAYS - 1


@asynchronous
async def test_a_line_that_breaks_again_and_again_is_given_up() -> None:
    async with gateway() as server, connect(url(server)) as client:
        utterance = await client.speak(MAN)
        await utterance.send("one two ")
        for _ in range(3):
            await anext(utterance)
        for _ in range(REPLAYS + 1):  # it waits for text: no sound comes between them
            connections = set(server.connections)
            await lose(server)
            await until(lambda old=connections: utterance.over or bool(server.connections - old))  # type: ignore[misc]
            await asyncio.sleep(0.1)
        with pytest.raises(SpeechError, match="connection_lost"):
            await utterance.done()


def test_what_no_message_can_hold_is_not_kept() -> None:
    notes = Notes(10_000, 8_000)
    notes.say({"type": "speak", "utterance": "u", "text": "x" * 20_000, "end": True})
    notes.hear({"type": "started", "seed": 5})
    for seq in range(100):
        notes.hear({"type": "audio", "seq": seq, "codes": bytes(32)})
    notes.say({"type": "flush", "utterance": "u"})
    speak, *rest = notes.again()
    assert (speak["resume"]["seed"], speak["resume"]["seq"]) == (5, 100)
    assert "text" not in speak
    whole = speak["resume"]["text"] + rest[0]["text"]
    assert (len(whole), set(whole), rest[0]["text"][:1]) == (20_000, {"x"}, "x")
    assert 4_000 < len(speak["resume"]["text"]) <= 8_000
    assert [m["type"] for m in rest] == ["text", "end", "flush"]
    for seq in range(100, 400):
        notes.hear({"type": "audio", "seq": seq, "codes": bytes(32)})
    assert not notes.whole
