"""`vivavoce serve` as its user meets it: a process, its output, its signals, its exit status."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

from engine import worker
from gateway.config import Limits

from .house import MSGPACK, ROOT, Peer, asynchronous


@dataclass
class Serving:
    process: asyncio.subprocess.Process
    lines: list[str] = field(default_factory=list)

    async def line(self, pattern: str) -> re.Match[str]:
        """The next line of the log that matches."""
        assert self.process.stderr
        while text := (await self.process.stderr.readline()).decode():
            self.lines.append(text)
            if found := re.search(pattern, text):
                return found
        raise AssertionError(f"no line like {pattern} in {self.lines}")

    async def status(self) -> int:
        assert self.process.stderr
        self.lines += (await self.process.stderr.read()).decode().splitlines(keepends=True)
        return await self.process.wait()


@asynccontextmanager
async def serving(*arguments: str, port: int = 0, **environment: str) -> AsyncIterator[Serving]:
    command = ["-m", "gateway", "serve", "--worker", "tests.gateway.fake_engine"]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        *arguments,
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env=os.environ | {"PORT": str(port)} | environment,
    )
    try:
        yield Serving(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@asynccontextmanager
async def speaking(port: int) -> AsyncIterator[Peer]:
    """A client in the middle of an utterance that would go on for long."""
    url = f"ws://127.0.0.1:{port}/v1/speech"
    async with connect(url, subprotocols=[MSGPACK], proxy=None) as ws:  # type: ignore[list-item]
        client = Peer(ws)
        await client.speak("u", "Geheimnis " * 500, voice={"design": "Flüstern"})
        await client.until("audio")
        yield client


READY = r"ready: open http://localhost:(\d+)/"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@asynchronous
async def test_a_signal_drains_and_ends_with_0(number: int) -> None:
    async with serving("--drain-seconds", "10") as served:
        port = int((await served.line(READY))[1])
        engine = int(re.findall(r"engine process (\d+) started", "".join(served.lines))[0])
        async with speaking(port) as client:
            served.process.send_signal(number)
            await served.line("draining 1 live")
            await client.speak("late", "x")
            error = (await client.until("error"))[-1]
            assert (error["code"], error["utterance"]) == ("draining", "late")
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /health/ready HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b" 503 " in await reader.readline()
            writer.close()
            await client.send(type="flush", utterance="u")
            await client.send(type="cancel", utterance="u")
            await client.until("done")
            code, _ = await client.closed()
            assert code == 1012
        assert await served.status() == 0
        with pytest.raises(ProcessLookupError):
            os.kill(engine, 0)


@asynchronous
async def test_the_drain_has_an_end() -> None:
    async with serving("--drain-seconds", "0.2") as served:
        port = int((await served.line(READY))[1])
        async with speaking(port) as client:
            served.process.send_signal(signal.SIGTERM)
            code, seen = await client.closed()
            error, done = seen[-2:]
            assert (error["code"], done["reason"], code) == ("draining", "error", 1012)
        assert await served.status() == 0


@asynchronous
async def test_a_second_signal_does_not_wait() -> None:
    async with serving("--drain-seconds", "1000") as served:
        port = int((await served.line(READY))[1])
        async with speaking(port) as client:
            served.process.send_signal(signal.SIGINT)
            await served.line("draining")
            served.process.send_signal(signal.SIGINT)
            code, seen = await client.closed()
            error, done = seen[-2:]
            assert (error["code"], done["reason"], code) == ("draining", "error", 1012)
        assert await served.status() == 0


@asynchronous
async def test_a_signal_while_the_engine_loads_ends_at_once() -> None:
    async with serving("--model", "silent") as served:  # never says a word
        await served.line("engine process")
        served.process.send_signal(signal.SIGTERM)
        assert await served.status() == 0


@asynchronous
async def test_a_port_in_use_is_told_before_the_engine_loads() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with serving(port=port) as served:
            assert await served.status() == 1
            log = "".join(served.lines)
            assert f"port {port}: Address already in use" in log
            assert "engine" not in log
            assert "Traceback" not in log


@asynchronous
async def test_a_model_that_cannot_be_loaded_ends_with_2() -> None:
    async with serving("--model", "missing") as served:
        assert await served.status() == 2
        log = "".join(served.lines)
        assert "there is no checkpoint at missing" in log
        assert "Traceback" not in log


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--host", "no.such.host.invalid"], 1, "cannot listen on no.such.host.invalid"),
        (["--host", "a..b"], 1, "cannot listen on a..b"),
        (["--device", "tpu"], 2, "auto, cpu or cuda"),
        (["--drain-seconds", "inf"], 2, "--drain-seconds"),
        (["--drain-seconds", "nan"], 2, "--drain-seconds"),
        (["--worker", "engine.worker", "--model", "-x"], 2, "-x is no folder"),
        (["--worker", "engine.worker", "--slots", "10000000"], 2, "more memory than cpu has"),
    ],
)
@asynchronous
async def test_what_cannot_be_served_is_said(arguments: list[str], status: int, words: str) -> None:
    async with serving(*arguments) as served:
        assert await served.status() == status
        log = "".join(served.lines)
        assert words in log
        for poor in ("Traceback", "Unknown error", "usage: engine.worker"):
            assert poor not in log


def test_cuda_where_there_is_none_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker.torch.cuda, "is_available", lambda: False)
    with pytest.raises(worker.Unfit, match="no CUDA device"):
        worker.begin(worker.EngineConfig(device="cuda"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "holds no key"),
        (b"# the page's\n\n", "holds no key"),
        (b"secret\xff", "UTF-8"),
        (b"sha256:xyz", "64 hex digits"),
    ],
)
@asynchronous
async def test_a_key_file_without_a_key_keeps_the_house_shut(
    content: bytes, words: str, tmp_path: Path
) -> None:
    (tmp_path / "keys").write_bytes(content)
    async with serving("--keys", str(tmp_path / "keys")) as served:
        assert await served.status() == 2
        log = "".join(served.lines)
        assert words in log
        assert "Traceback" not in log
        assert "engine process" not in log


@pytest.mark.parametrize("keys", [",", " ", "#"])
@asynchronous
async def test_a_list_of_keys_without_a_key_keeps_the_house_shut(keys: str) -> None:
    async with serving(VIVAVOCE_KEYS=keys) as served:
        assert await served.status() == 2
        assert "VIVAVOCE_KEYS holds no key" in "".join(served.lines)


@asynchronous
async def test_limits_are_set_by_name_and_wrong_ones_refused() -> None:
    async with serving("--limit", "utterances=2") as served:
        port = int((await served.line(READY))[1])
        url = f"ws://127.0.0.1:{port}/v1/speech?format=json"
        async with connect(url, proxy=None) as ws:
            assert json.loads(await ws.recv())["limits"]["utterances"] == 2
    for wrong in ("utterance=2", "utterances", "utterances=0", "outbox_low=999999"):
        async with serving("--limit", wrong) as served:
            assert await served.status() == 2
            assert "engine process" not in "".join(served.lines)


@pytest.mark.parametrize("value", ["inf", "1e400", "nan", "-1", "0", "soon", ""])
def test_a_limit_is_a_number_that_json_can_say(value: str) -> None:
    for name in ("idle_seconds", "utterances"):
        with pytest.raises(ValueError, match=f"^{name} must be"):
            Limits.of([f"{name}={value}"])


@asynchronous
async def test_the_engine_dies_with_a_gateway_that_is_killed() -> None:
    async with serving() as served:
        await served.line(READY)
        engine = int(re.findall(r"engine process (\d+) started", "".join(served.lines))[0])
        pidfd = os.pidfd_open(engine)
        ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(pidfd, ended.set)
        served.process.kill()
        await ended.wait()
        asyncio.get_running_loop().remove_reader(pidfd)
        os.close(pidfd)


@pytest.mark.parametrize("log_format", ["text", "json"])
@asynchronous
async def test_no_log_line_holds_what_was_said(log_format: str) -> None:
    async with serving("--log-format", log_format) as served:
        port = int((await served.line(READY))[1])
        async with speaking(port) as client:
            await client.send(type="sing", song="Geheimnis")
            await client.until("error")
            await client.send(type="speak", utterance="Geheimnis", voice="Flüstern")
            await client.until("error")
        served.process.send_signal(signal.SIGTERM)
        assert await served.status() == 0
        log = "".join(served.lines)
        assert "session" in log
        assert "Geheimnis" not in log
        assert "stern" not in log
        if log_format == "json":
            assert all(
                {"time", "level", "logger", "message"} <= json.loads(x).keys() for x in served.lines
            )


@asynchronous
async def test_an_open_address_without_keys_is_warned_of() -> None:
    async with serving("--host", "0.0.0.0") as served:
        await served.line("without keys")
    async with serving("--host", "0.0.0.0", VIVAVOCE_KEYS="one,two") as served:
        await served.line(READY)
        assert "without keys" not in "".join(served.lines)
