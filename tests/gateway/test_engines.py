"""The engine process: born, killed, born again, and gone with the gateway."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal

import pytest

from gateway import engines
from gateway.config import EngineArguments, GatewayConfig
from gateway.process import EngineFailed
from gateway.server import Server

from .house import FAKE, MSGPACK, Peer, asynchronous, gateway, http, peer, until


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "BACK_OFF", (0.01,))


@asynchronous
async def test_an_engine_killed_in_mid_speech_fails_its_utterances_and_is_replaced() -> None:
    async with gateway() as server, peer(server) as client, peer(server) as other:
        await client.speak("a", "word " * 50)
        await client.speak("b", "word " * 50)
        await other.speak("c", "word " * 50)
        await client.until("audio", utterance="b")
        await other.until("audio")
        os.kill(child(server), signal.SIGKILL)
        seen = await client.until("done") + await client.until("done")
        for name in ("a", "b"):
            error, done = [m for m in seen if m["type"] != "audio" and m["utterance"] == name][-2:]
            assert (error["code"], error["fatal"]) == ("engine_failed", False)
            assert done["reason"] == "error"
        assert (await other.until("done"))[-1]["reason"] == "error"
        await spoken(client)
        assert server.metrics.restarts._value.get() == 1


@asynchronous
async def test_an_engine_that_crashes_by_itself_is_replaced() -> None:
    async with gateway() as server, peer(server) as client:
        for _ in range(3):
            await client.speak("u", "#crash", end=True)
            assert (await client.until("done"))[-1]["reason"] == "error"
            await spoken(client)


async def spoken(client: Peer) -> None:
    """Try again as `retry_ms` asks until an utterance is spoken to its end."""
    for number in itertools.count():
        await client.speak(f"try {number}", "two words", end=True)
        answer = await client.next()
        if answer["type"] == "started":
            assert (await client.until("done"))[-1]["reason"] == "eos"
            return
        assert (answer["code"], answer["retry_ms"] > 0) == ("busy", True)


@asynchronous
async def test_ready_is_503_while_there_is_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "BACK_OFF", (60.0,))
    async with gateway() as server, peer(server) as client:
        await client.speak("u", "#crash", end=True)
        await client.until("error", code="engine_failed")
        assert (await http(server, "GET", "/health/ready"))[0] == 503
        assert (await http(server, "GET", "/health/live"))[0] == 200
        assert (await http(server, "GET", "/v1/capabilities"))[0] == 200
        await client.speak("v", "hello", end=True)
        assert (await client.until("error"))[-1]["code"] == "busy"
        async with peer(server) as late:
            assert (await late.next())["type"] == "ready"


@asynchronous
async def test_before_the_engine_is_ready_http_answers_and_sockets_are_put_off() -> None:
    silent = EngineArguments(model="silent")
    server = Server(GatewayConfig(port=0, worker=FAKE, engine=silent, drain_seconds=0))
    server.bind()
    starting = asyncio.create_task(server.start())
    await until(lambda: server.engines._process._process is not None)
    assert (await http(server, "GET", "/health/live"))[0] == 200
    status, headers, _ = await http(server, "GET", "/health/ready")
    assert (status, headers["retry-after"]) == (503, "1")
    assert (await http(server, "GET", "/v1/capabilities"))[0] == 503
    async with peer(server, MSGPACK) as client:
        code, (error,) = await client.closed()
        assert (code, error["code"], error["retry_ms"] > 0) == (1013, "busy", True)
    pid = child(server)
    starting.cancel()
    await asyncio.wait({starting})
    await server.stop()
    assert gone(pid)


@asynchronous
async def test_an_engine_that_cannot_load_says_why() -> None:
    arguments = EngineArguments(model="missing")
    server = Server(GatewayConfig(port=0, worker=FAKE, engine=arguments))
    server.bind()
    with pytest.raises(EngineFailed, match=r"(?s)status 2.*no checkpoint at missing"):
        await server.start()
    await server.stop()


@asynchronous
async def test_the_engine_ends_with_the_gateway_and_leaves_nothing() -> None:
    async with gateway() as server:
        pid = child(server)
        folder = server.engines._process._folder
        assert folder
        assert folder.stat().st_mode & 0o077 == 0
    assert gone(pid)
    assert not folder.exists()


def child(server: Server) -> int:
    process = server.engines._process._process
    assert process
    return process.pid


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False
