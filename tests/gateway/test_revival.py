"""What a dead engine had goes on in the next one, and nobody hears more than a pause."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from engine import messages as engine
from gateway import engines
from gateway.config import EngineArguments, GatewayConfig
from gateway.journal import Journal
from gateway.process import EngineFailed
from gateway.server import Server
from tests.engine.tiny import write_checkpoint

from .house import asynchronous, audio_of, gateway, http, peer, until
from .test_engines import child

WORDS = "word " * 60


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "BACK_OFF", (0.01,))


def whole(seen: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """The audio of an utterance of which nothing is lost, twice, or refused."""
    mine = [m for m in seen if m.get("utterance") == name]
    audio = audio_of(seen, name)
    assert [m["seq"] for m in audio] == list(range(len(audio)))
    assert [m["start"] for m in audio] == [1920 * n for n in range(len(audio))]
    assert [
        m["type"] for m in mine if m["type"] not in ("audio", "progress", "queued", "journal")
    ] == [
        "started",
        "done",
    ]
    assert mine[-1]["samples"] == 1920 * len(audio)
    return audio


@asynchronous
async def test_a_killed_engine_is_a_pause_for_all_it_had() -> None:
    async with gateway() as server, peer(server) as one, peer(server) as two:
        async with asyncio.TaskGroup() as group:
            for client, name in ((one, "a"), (one, "b"), (two, "c")):
                await client.speak(name, WORDS, end=True, pace="fast", journal=True)
            seen = await one.until("audio", utterance="b", seq=3)
            os.kill(child(server), signal.SIGKILL)
            rest = group.create_task(one.until("done"))
            others = group.create_task(two.until("done"))
        seen += rest.result() + await one.until("done")
        for name, heard in (("a", seen), ("b", seen), ("c", others.result())):
            audio = whole(heard, name)
            assert len(audio) == 180
            assert [m["codes"] for m in audio] == [n.to_bytes(2, "little") * 16 for n in range(180)]
            done = next(m for m in heard if m["type"] == "done" and m["utterance"] == name)
            assert (done["reason"], done["engine_wait_ms"] > 10) == ("eos", True)
        assert server.metrics.restarts._value.get() == 1
        assert server.metrics.revived._value.get() == 3


@asynchronous
async def test_text_flush_end_and_a_new_speak_during_the_outage_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engines, "BACK_OFF", (0.5,))
    async with gateway() as server, peer(server) as client:
        await client.speak("a", "one two three ", pace="fast")
        await client.until("audio", seq=2)
        os.kill(child(server), signal.SIGKILL)
        await until(lambda: not server.load.ready)
        assert (await http(server, "GET", "/health/ready"))[0] == 503
        await client.send(type="text", utterance="a", text="four five ")
        await client.send(type="flush", utterance="a")
        await client.send(type="text", utterance="a", text="six")
        await client.send(type="end", utterance="a")
        await client.speak("b", "new words", end=True)
        await client.speak("c", "not for long", end=True)
        await client.send(type="cancel", utterance="c")
        assert (await client.until("done"))[-1]["reason"] == "cancelled"
        assert not server.load.ready
        seen = await client.until("done") + await client.until("done")
        done = {m["utterance"]: (m["reason"], m["samples"]) for m in seen if m["type"] == "done"}
        assert done == {"a": ("eos", 18 * 1920), "b": ("eos", 6 * 1920)}
        assert [m["flush"] for m in seen if m["type"] == "flushed"] == [1]


@asynchronous
async def test_an_utterance_that_kills_engines_fails_and_the_others_go_on() -> None:
    async with gateway() as server, peer(server) as client, peer(server) as bad:
        for name in ("a", "b"):
            await client.speak(name, WORDS, end=True, pace="fast")
        seen = await client.until("audio", utterance="b", seq=3)
        await bad.speak("poison", "#crash", end=True)
        error, done = (await bad.until("done"))[-2:]
        assert (error["code"], done["reason"]) == ("engine_failed", "error")
        seen += await client.until("done") + await client.until("done")
        for name in ("a", "b"):
            assert len(whole(seen, name)) == 180


@asynchronous
async def test_a_crash_loop_ends_in_engine_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with gateway() as server, peer(server) as client:

        async def fail() -> None:
            raise EngineFailed("no engine today")

        monkeypatch.setattr(server.engines._process, "launch", fail)
        await client.speak("a", WORDS, end=True, pace="fast")
        await client.until("audio")
        os.kill(child(server), signal.SIGKILL)
        error, done = (await client.until("done"))[-2:]
        assert (error["code"], done["reason"]) == ("engine_failed", "error")
        assert (await http(server, "GET", "/health/ready"))[0] == 503
        await client.speak("b", "later", end=True)
        assert (await client.until("error"))[-1]["code"] == "busy"


@pytest.mark.parametrize("frames", [3, 40])
def test_a_real_engine_goes_on_sample_for_sample(tmp_path: Path, frames: int) -> None:
    """Killed in mid-speech: the same bytes as the unbroken run."""
    write_checkpoint(tmp_path, seed=1)
    text = "Hello there, my friend. How are you today? I am well, thank you for asking. " * 3

    async def spoken(server: Server, kill: int) -> bytes:
        async with peer(server) as client:
            speak = {"end": True, "pace": "fast", "seed": 7, "max_seconds": 8}
            await client.speak("a", text, **speak)
            seen = await client.until("audio", seq=kill) if kill else []
            if kill:
                os.kill(child(server), signal.SIGKILL)
            seen += await client.until("done")
            return b"".join(m["pcm"] for m in whole(seen, "a"))

    async def both() -> None:
        model = EngineArguments(model=str(tmp_path), device="cpu", slots=2)
        server = Server(GatewayConfig(port=0, engine=model, drain_seconds=0))
        server.bind()
        try:
            async with asyncio.timeout(180):
                await server.start()
                assert await spoken(server, 0) == await spoken(server, frames)
        finally:
            await server.stop()

    asyncio.run(both())


def test_a_journal_keeps_text_flushes_and_settled_places_in_order() -> None:
    journal = Journal(engine.Speak(1, "v", 7, text="One mo"))
    journal.command(engine.Flush(1, 1))
    journal.command(engine.Text(1, "ment"))
    journal.command(engine.Text(1, " more"))
    journal.command(engine.End(1))
    journal.event(engine.Settled(1, 10))
    journal.event(engine.Flushed(1, 1, 3))
    resume = journal.resume()
    assert resume.said == ["One mo", 1, "ment", engine.SETTLED, " more", engine.ENDED]
    assert resume.answered == 1
    (speak,) = journal.revival()
    body = engine.pack([speak])[engine.HEADER :]
    (back,) = engine.unpack(body)
    assert isinstance(back, engine.Speak)
    assert back.resume == resume
