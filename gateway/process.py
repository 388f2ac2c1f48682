"""The engine as a child process: start it on a private Unix socket, hear its last words, end it."""

from __future__ import annotations

import asyncio
import logging
import shutil
import sys
import tempfile
from asyncio import StreamReader, StreamWriter
from asyncio.subprocess import Process
from collections import deque
from contextlib import suppress
from pathlib import Path

from engine import messages as engine

from .config import GatewayConfig

log = logging.getLogger("vivavoce.engine")

BUFFER = 1 << 20  # bytes of events read ahead; beyond it the engine waits
STOP_SECONDS = 3.0  # for an engine to end by itself, then again once it was asked to


class EngineFailed(Exception):
    """The engine ended before it spoke a frame. `words`: its last lines, shown already."""

    def __init__(self, text: str, words: str = "") -> None:
        super().__init__(f"{text}: {words}" if words else text)
        self.text = text
        self.words = words


class EngineProcess:
    """One child after another, each on a socket whose folder only its owner may enter, and which is
    gone once the child has greeted: whatever ends this process leaves nothing behind.
    """

    def __init__(self, config: GatewayConfig) -> None:
        self.config = config
        self._streams: asyncio.Queue[tuple[StreamReader, StreamWriter]] = asyncio.Queue(1)
        self._folder: Path | None = None
        self._server: asyncio.Server | None = None
        self._process: Process | None = None
        self._greeted = False
        self._last_words: deque[str] = deque(maxlen=20)

    @property
    def pid(self) -> int:
        """0: none was started."""
        return self._process.pid if self._process else 0

    async def launch(self) -> tuple[engine.Ready, StreamReader, StreamWriter]:
        """A fresh engine that has spoken a frame. Raises EngineFailed when it ends before."""
        path = await self._listen()
        self._last_words.clear()
        self._greeted = False
        # A session of its own: Ctrl-C in the terminal is the gateway's to answer.
        self._process = process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-u",
            *self.config.worker,
            "--socket",
            str(path),
            *self.config.engine.arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        log.info("engine process %d started", process.pid)
        assert process.stderr
        words = asyncio.create_task(self._relay(process.stderr))
        ended = asyncio.create_task(process.wait())
        greeting = asyncio.create_task(self._greeting())
        await asyncio.wait({ended, greeting}, return_when=asyncio.FIRST_COMPLETED)
        if greeting.done() and not greeting.exception():
            self.forget()
            return greeting.result()
        greeting.cancel()
        await self.end()
        await asyncio.wait({ended, words, greeting}, timeout=STOP_SECONDS)
        failure = None if greeting.cancelled() else greeting.exception()
        if isinstance(failure, EngineFailed):
            raise failure
        text = f"the engine ended with status {process.returncode} before it spoke"
        raise EngineFailed(text, "\n".join(self._last_words))

    async def end(self) -> None:
        """Wait for a child whose socket is closed by now; then ask, then insist."""
        process = self._process
        patient = (None,) if self._greeted else ()
        for insist in (*patient, Process.terminate, Process.kill):
            if process is None or process.returncode is not None:
                return
            if insist:
                with suppress(ProcessLookupError):
                    insist(process)
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), STOP_SECONDS)

    def kill(self) -> None:
        if self._process:
            with suppress(ProcessLookupError):
                self._process.kill()

    def forget(self) -> None:
        """Remove the socket and its folder."""
        if self._server:
            self._server.close()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._server = self._folder = None

    async def _listen(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="vivavoce-"))
            path = str(self._folder / "engine.sock")
            self._server = await asyncio.start_unix_server(self._connected, path, limit=BUFFER)
        return self._folder / "engine.sock"

    async def _connected(self, reader: StreamReader, writer: StreamWriter) -> None:
        if self._streams.full():
            writer.close()
        else:
            self._streams.put_nowait((reader, writer))

    async def _greeting(self) -> tuple[engine.Ready, StreamReader, StreamWriter]:
        reader, writer = await self._streams.get()
        ready = (await read_batch(reader))[0]
        if not isinstance(ready, engine.Ready):
            raise EngineFailed(f"the engine began with {type(ready).__name__} where Ready was due")
        self._greeted = True
        return ready, reader, writer

    async def _relay(self, stderr: StreamReader) -> None:
        """Show the engine's own lines as they come."""
        while line := await _line(stderr):
            text = line.decode(errors="replace").rstrip()
            if text:
                self._last_words.append(text)
                log.info("%s", text)


async def read_batch(reader: StreamReader) -> list[engine.Message]:
    """The next batch; ValueError where it is none, IncompleteReadError at the stream's end."""
    size = int.from_bytes(await reader.readexactly(engine.HEADER), "big")
    if size > engine.MAX_BATCH:
        raise ValueError(f"a batch of {size} bytes")
    return engine.unpack(await reader.readexactly(size))


async def _line(stream: StreamReader) -> bytes:
    """One line; a progress bar's endless one comes in pieces."""
    try:
        return await stream.readuntil(b"\n")
    except asyncio.IncompleteReadError as error:
        return error.partial
    except asyncio.LimitOverrunError as error:
        return await stream.readexactly(error.consumed)
