"""The one door to the engine process: start it, route between it and the connections, start it again when it dies.

The engine is a child that connects to a Unix socket in a private folder and ends when that socket closes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import sys
import tempfile
import time
from asyncio.subprocess import Process
from collections import deque
from pathlib import Path
from typing import Protocol

from engine import messages as engine

from .admission import Load
from .config import GatewayConfig
from .metrics import Metrics

log = logging.getLogger("vivavoce.engine")

BACK_OFF = (
    0.5,
    1.0,
    2.0,
    5.0,
    10.0,
    30.0,
)  # seconds before the next start, after each death in a row
HEALTHY_SECONDS = 60.0  # alive that long, and the row begins anew
STOP_SECONDS = 3.0  # for an engine to end by itself


class Client(Protocol):
    """Where an utterance's events go. `pump` is called once after a batch."""

    def receive_event(self, event: engine.Event, now: float) -> None: ...
    def pump(self) -> None: ...


class EngineFailed(Exception):
    """The engine ended before it spoke a frame; the message is its own last words."""


class _Route:
    __slots__ = ("audio_at", "client")

    def __init__(self, client: Client) -> None:
        self.client = client
        self.audio_at = 0.0


class Engines:
    """One engine now; several on several GPUs take their place here, behind the same three verbs."""

    def __init__(self, config: GatewayConfig, load: Load, metrics: Metrics) -> None:
        self.config = config
        self.load = load
        self.metrics = metrics
        self.ready: engine.Ready | None = None  # of the engine now running, or of the last one
        self._routes: dict[int, _Route] = {}
        self._outgoing: list[engine.Command] = []
        self._writer: asyncio.StreamWriter | None = None
        self._process: Process | None = None
        self._streams: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
        self._folder: Path | None = None
        self._watch: asyncio.Task[None] | None = None
        self._last_words: deque[str] = deque(maxlen=20)
        self._stopping = False

    async def start(self) -> engine.Ready:
        """Return once a frame ran through the engine's whole pipeline. Raises EngineFailed when it ends before."""
        self._folder = Path(tempfile.mkdtemp(prefix="vivavoce-"))  # only its owner may enter
        self._streams = asyncio.Queue(1)
        path = str(self._folder / "engine.sock")
        self._server = await asyncio.start_unix_server(self._connected, path)
        reader = await self._launch()
        self._watch = asyncio.create_task(self._run(reader), name="engine")
        assert self.ready
        return self.ready

    async def stop(self) -> None:
        """End the engine: close its socket, then ask, then insist."""
        self._stopping = True
        self.load.ready = False
        if self._writer:
            self._writer.close()
        await self._end_process()
        if self._watch:
            self._watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watch
        if self._folder:
            self._server.close()
            shutil.rmtree(self._folder, ignore_errors=True)

    def send(self, client: Client, commands: list[engine.Command]) -> None:
        """Queue commands of `client`; all of one turn of the loop travel as one batch."""
        if not commands:
            return
        for command in commands:
            if isinstance(command, engine.Speak):
                self._routes[command.utterance] = _Route(client)
            elif isinstance(command, engine.Cancel):
                self._routes.pop(command.utterance, None)
        self.load.live = len(self._routes)
        if not self._outgoing:
            asyncio.get_running_loop().call_soon(self._flush)
        self._outgoing += commands

    def _flush(self) -> None:
        commands, self._outgoing = self._outgoing, []
        if self._writer and not self._writer.is_closing():
            self._writer.write(engine.pack(list(commands)))

    # The process

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._streams.full():
            writer.close()
            return
        self._streams.put_nowait((reader, writer))

    async def _launch(self) -> asyncio.StreamReader:
        assert self._folder
        self._last_words.clear()
        command = [*self.config.worker, "--socket", str(self._folder / "engine.sock")]
        # A session of its own: Ctrl-C in the terminal is the gateway's to answer, the engine drains with it.
        self._process = process = await asyncio.create_subprocess_exec(
            sys.executable,
            *command,
            *self.config.engine.arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
        log.info("engine process %d started", process.pid)
        assert process.stderr
        words = asyncio.create_task(self._listen(process.stderr))
        ended = asyncio.create_task(process.wait())
        streams = asyncio.create_task(self._greet())
        await asyncio.wait({ended, streams}, return_when=asyncio.FIRST_COMPLETED)
        if streams.done() and not streams.exception():
            return streams.result()
        streams.cancel()
        await self._end_process()
        await asyncio.wait({ended, words}, timeout=STOP_SECONDS)
        last = "\n".join(self._last_words) or "it said nothing"
        raise EngineFailed(
            f"the engine ended with status {process.returncode} before it spoke: {last}"
        )

    async def _greet(self) -> asyncio.StreamReader:
        """The engine's stream, once its Ready has come. What follows Ready in its batch is load, which comes again."""
        reader, writer = await self._streams.get()
        batch = await _read_batch(reader)
        ready = batch[0]
        if not isinstance(ready, engine.Ready):
            raise EngineFailed(f"the engine began with {type(ready).__name__} where Ready was due")
        self._writer = writer
        self.ready = ready
        self.load.slots = ready.slots
        self.load.queue = self.config.queue
        self.load.ready = True
        log.info("engine ready: %s, %d slots on %s", ready.kind, ready.slots, ready.device)
        return reader

    async def _listen(self, stderr: asyncio.StreamReader) -> None:
        """Show the engine's own lines as they come."""
        while line := await _line(stderr):
            text = line.decode(errors="replace").rstrip()
            if text:
                self._last_words.append(text)
                log.info("%s", text)

    async def _end_process(self) -> None:
        process = self._process
        if process is None:
            return
        for end in (lambda: None, process.terminate, process.kill):
            if process.returncode is not None:
                return
            with contextlib.suppress(ProcessLookupError):
                end()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), STOP_SECONDS)

    # The life of one engine after another

    async def _run(self, reader: asyncio.StreamReader) -> None:
        deaths = 0
        while not self._stopping:
            since = time.monotonic()
            await self._route(reader)
            if self._stopping:
                return
            self._fail_all()
            deaths = 1 if time.monotonic() - since > HEALTHY_SECONDS else deaths + 1
            await self._end_process()
            reader, deaths = await self._revive(deaths)

    async def _revive(self, deaths: int) -> tuple[asyncio.StreamReader, int]:
        while True:
            pause = BACK_OFF[min(deaths, len(BACK_OFF)) - 1]
            log.warning("engine ended (%d in a row); starting again in %.1f s", deaths, pause)
            await asyncio.sleep(pause)
            self.metrics.restarts.inc()
            try:
                return await self._launch(), deaths
            except EngineFailed as failure:
                log.error("%s", failure)
                deaths += 1

    async def _route(self, reader: asyncio.StreamReader) -> None:
        """Bring batches of events to their clients until the engine's stream ends."""
        try:
            while True:
                self._deliver(await _read_batch(reader), time.monotonic())
        except (asyncio.IncompleteReadError, ConnectionError, ValueError) as error:
            if not self._stopping:
                log.error("engine stream ended: %s", type(error).__name__)

    def _deliver(self, batch: list[engine.Message], now: float) -> None:
        """One wake per client and batch, however many events it holds."""
        touched: dict[Client, None] = {}
        routes = self._routes
        for event in batch:
            if isinstance(event, engine.Status):
                self.metrics.engine_status(event)
                continue
            route = routes.get(event.utterance)  # type: ignore[union-attr]
            if route is None:  # cancelled since
                continue
            if isinstance(event, engine.Audio):
                if route.audio_at:
                    self.metrics.frame_gap.observe(now - route.audio_at)
                route.audio_at = now
            elif isinstance(event, engine.Finished | engine.Failed):
                del routes[event.utterance]
                self.load.live = len(routes)
            route.client.receive_event(event, now)  # type: ignore[arg-type]
            touched[route.client] = None
        for client in touched:
            client.pump()

    def _fail_all(self) -> None:
        """Tell every live utterance that its engine is gone. (The journal's place: here they will be rebuilt.)"""
        self.load.ready = False
        self._writer = None
        now = time.monotonic()
        lost, self._routes = self._routes, {}
        self.load.live = 0
        for ident, route in lost.items():
            failed = engine.Failed(
                ident, "engine_failed", "the engine ended; a fresh one is starting"
            )
            route.client.receive_event(failed, now)
        for client in {route.client: None for route in lost.values()}:
            client.pump()


async def _read_batch(reader: asyncio.StreamReader) -> list[engine.Message]:
    size = int.from_bytes(await reader.readexactly(engine.HEADER), "big")
    if size > engine.MAX_BATCH:
        raise ValueError(f"a batch of {size} bytes")
    return engine.unpack(await reader.readexactly(size))


async def _line(stream: asyncio.StreamReader) -> bytes:
    """One line; a progress bar's endless one comes in pieces."""
    try:
        return await stream.readuntil(b"\n")
    except asyncio.IncompleteReadError as error:
        return error.partial
    except asyncio.LimitOverrunError as error:
        return await stream.readexactly(error.consumed)
