"""The engine process: born, killed, born again, and gone with the gateway."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import socket
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

from engine import messages as engine
from engine import worker
from gateway import engines
from gateway.config import EngineArguments, GatewayConfig
from gateway.journal import Journal
from gateway.process import EngineFailed
from gateway.server import Server

from .house import FAKE, MSGPACK, Peer, asynchronous, gateway, http, peer, until


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "BACK_OFF", (0.01,))


@asynchronous
async def test_an_engine_that_crashes_by_itself_is_replaced() -> None:
    """The utterance that kills engines fails; who comes meanwhile waits."""
    async with gateway() as server, peer(server) as client:
        for _ in range(2):
            await client.speak("u", "#crash", end=True)
            error, done = (await client.until("done"))[-2:]
            assert (error["code"], error["retry_ms"] > 0) == ("engine_failed", True)
            assert done["reason"] == "error"
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
async def test_an_engine_that_hangs_is_killed_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "LOOK_SECONDS", 0.1)
    async with gateway() as server, peer(server) as client:
        for speaking in (True, False):  # a command alone is owed a word
            hung = child(server)
            if speaking:
                await client.speak("u", "word " * 50, end=True, pace="fast")
                await client.until("audio")
            os.kill(hung, signal.SIGSTOP)
            if not speaking:
                await client.speak("u", "word " * 50, end=True, pace="fast")
            seen = await client.until("done")
            assert seen[-1]["reason"] == "eos"
            assert not [m for m in seen if m["type"] == "error"]
            assert child(server) != hung
            assert gone(hung)


@asynchronous
async def test_an_engine_that_owes_nothing_may_be_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an utterance; and one that waits for text is reported of all the time."""
    monkeypatch.setattr(engines, "LOOK_SECONDS", 0.05)
    async with gateway() as server, peer(server) as client:
        for text in (None, "no more comes "):
            if text:
                await client.speak("u", text)
                await client.until("audio", seq=2)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(2 * engines.LOOK_SECONDS * engines.LOOKS):
                    await client.until("error")
        assert server.metrics.restarts._value.get() == 0


def test_the_worker_reports_after_each_command_and_while_an_utterance_waits() -> None:
    """What the gateway's patience counts on."""

    class Waiting:
        ran, busy = False, True

        def step(self, commands: list[engine.Command]) -> list[engine.Event]:
            return []

        def status(self) -> engine.Status:
            return engine.Status(1, 0, 8, 1, 0.0, 0, 0)

    ours, theirs = socket.socketpair()
    serving = threading.Thread(target=worker.serve, args=(Waiting(), theirs))
    serving.start()
    with theirs, ours, ours.makefile("rb") as stream:
        for command in (engine.End(1), None, engine.Played(1, 0), None):
            if command:
                ours.sendall(engine.pack([command]))
            size = int.from_bytes(stream.read(engine.HEADER), "big")
            assert engine.unpack(stream.read(size)) == [Waiting().status()]
        ours.shutdown(socket.SHUT_WR)
        serving.join()


@asynchronous
async def test_ready_is_503_while_there_is_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "BACK_OFF", (60.0,))
    async with gateway() as server, peer(server) as client:
        os.kill(child(server), signal.SIGKILL)
        await until(lambda: not server.load.ready)
        assert (await http(server, "GET", "/health/ready"))[0] == 503
        assert (await http(server, "GET", "/health/live"))[0] == 200
        assert (await http(server, "GET", "/v1/capabilities"))[0] == 200
        await client.speak("v", "hello", end=True)
        assert await client.alive()  # it waits
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
async def test_the_engine_ends_with_the_gateway_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    async with gateway() as server:
        pid = child(server)
        assert os.listdir(tmp_path) == []  # its socket is gone: a killed gateway leaves none
        server.engines._process.kill()
        await until(lambda: child(server) != pid and server.load.ready)
        assert os.listdir(tmp_path) == []
        pid = child(server)
    assert gone(pid)


@asynchronous
async def test_a_fault_of_the_gateways_own_is_survived(monkeypatch: pytest.MonkeyPatch) -> None:
    right, faults = Journal.event, iter([IndexError("pop from an empty list")])

    def event(journal: Journal, event: Any) -> bool:
        for fault in faults:
            raise fault
        return right(journal, event)

    monkeypatch.setattr(Journal, "event", event)
    async with gateway() as server, peer(server) as client:
        pid = child(server)
        await client.speak("u1", "three short words", end=True)
        seen = await client.until("done", utterance="u1")
        assert seen[-1]["reason"] == "eos"
        assert child(server) != pid


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
