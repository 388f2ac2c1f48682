"""The whole house at once: `vivavoce say`, the gateway, the engine, the embedded voice."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import uuid
from array import array
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from gateway.config import GatewayConfig
from gateway.server import Server
from gateway.wav import HEADER
from tests.gateway.house import ROOT

FRAME_BYTES = 2 * 1_920
SECOND_BYTES = 2 * 24_000
VOICE = "A calm older man with a low and dry voice."
PATIENCE = 110.0
SENTENCE = "The harbour was quiet that morning, and the boats lay still on the grey water. "
WORDS = (SENTENCE * 20).split()  # 15 s of writing; a start of Python on a busy machine takes two


@asynccontextmanager
async def house() -> AsyncIterator[Server]:
    server = Server(GatewayConfig(port=0, drain_seconds=0.0))
    server.bind()
    try:
        await server.start()
        yield server
    finally:
        await server.stop()


async def say(*arguments: str, stdin: int = DEVNULL, **environment: str) -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway", "say", "--voice", VOICE, *arguments,
        stdin=stdin, stdout=PIPE, stderr=PIPE, cwd=ROOT, env=os.environ | environment,
    )  # fmt: skip


def url(server: Server) -> str:
    return f"ws://127.0.0.1:{server.port}/v1/speech"


def loudness(pcm: bytes) -> float:
    """RMS of s16le samples."""
    samples = array("h", pcm)
    return float((sum(s * s for s in samples) / max(1, len(samples))) ** 0.5)


def test_a_pipe_that_writes_a_word_every_50_ms_is_heard_before_its_last_word() -> None:
    async def scene() -> None:
        async with house() as server:
            process = await say("--stdin", "--out", "-", "--url", url(server), stdin=PIPE)
            assert process.stdin
            assert process.stdout
            written = 0

            async def write() -> None:
                nonlocal written
                assert process.stdin
                for word in WORDS:
                    process.stdin.write(word.encode() + b" ")
                    await process.stdin.drain()
                    written += 1
                    await asyncio.sleep(0.05)

            writer = asyncio.create_task(write())
            head = await process.stdout.readexactly(HEADER + FRAME_BYTES)
            assert written < len(WORDS), "the first audio came after the last word"
            more = await process.stdout.readexactly(2 * FRAME_BYTES)
            writer.cancel()
            process.send_signal(signal.SIGINT)
            assert await process.wait() == 130
        assert head.startswith(b"RIFF")
        assert any(head[HEADER:] + more)

    asyncio.run(asyncio.wait_for(scene(), PATIENCE))


def test_one_seed_is_one_audio_and_another_is_another() -> None:
    async def scene() -> None:
        async with house() as server:

            async def spoken(seed: str) -> bytes:
                arguments = ("Yes, of course.", "--seed", seed, "--out", "-")
                process = await say(*arguments, "--url", url(server))
                out, told = await process.communicate()
                assert process.returncode == 0, told.decode()
                return out

            first = await spoken("5")
            again, other = await asyncio.gather(spoken("5"), spoken("6"))  # now in company
            assert first == again
            assert first != other

    asyncio.run(asyncio.wait_for(scene(), PATIENCE))


def test_say_alone_speaks_and_leaves_no_process(tmp_path: Path) -> None:
    out = tmp_path / "x.wav"
    mark = uuid.uuid4().hex

    async def scene() -> None:
        process = await say("Good evening.", "--out", str(out), SAY_MARK=mark)
        _, told = await process.communicate()
        assert process.returncode == 0, told.decode()

    asyncio.run(asyncio.wait_for(scene(), PATIENCE))
    pcm = out.read_bytes()[HEADER:]
    assert 0.3 * SECOND_BYTES < len(pcm) < 8 * SECOND_BYTES
    assert loudness(pcm) > 100
    assert not [path for path in Path("/proc").glob("[0-9]*/environ") if mark in environment(path)]


def environment(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:  # ended since, or another user's
        return ""


def test_a_model_that_is_not_there_is_told_in_one_message(tmp_path: Path) -> None:
    async def scene() -> None:
        missing = str(tmp_path / "no-such-model")
        process = await say("Hello.", "--model", missing, "--out", str(tmp_path / "x.wav"))
        _, told = await process.communicate()
        assert process.returncode == 2
        assert missing in told.decode()
        assert "Traceback" not in told.decode()

    asyncio.run(asyncio.wait_for(scene(), PATIENCE))
    assert not (tmp_path / "x.wav").exists()
