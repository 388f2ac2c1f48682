"""The one door to the engine: commands in, events to their clients, a new one when it dies."""

from __future__ import annotations

import asyncio
import logging
import time
from asyncio import StreamReader, StreamWriter
from contextlib import suppress
from typing import Protocol

from engine import messages as engine

from .admission import Load
from .config import GatewayConfig
from .metrics import Metrics
from .process import EngineFailed, EngineProcess, read_batch

log = logging.getLogger("vivavoce.engine")

BACK_OFF = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)  # seconds to the next start, after each death in a row
HEALTHY_SECONDS = 60.0  # alive that long, and the row begins anew


class Client(Protocol):
    """Where an utterance's events go. `pump` is called once after a batch."""

    def receive_event(self, event: engine.Event, now: float) -> None: ...
    def pump(self) -> None: ...


class _Route:
    __slots__ = ("audio_at", "client")

    def __init__(self, client: Client) -> None:
        self.client = client
        self.audio_at = 0.0


class Engines:
    """One engine; several take their place here, behind the same verbs."""

    def __init__(self, config: GatewayConfig, load: Load, metrics: Metrics) -> None:
        self.load = load
        self.metrics = metrics
        self.idle = asyncio.Event()  # no utterance lives
        self.idle.set()
        self._queue = config.queue
        self._process = EngineProcess(config)
        self._routes: dict[int, _Route] = {}
        self._outgoing: list[engine.Command] = []
        self._writer: StreamWriter | None = None
        self._life: asyncio.Task[None] | None = None

    async def start(self) -> engine.Ready:
        """Return once a frame ran through the pipeline. Raises EngineFailed when it ends before."""
        ready, reader, writer = await self._process.launch()
        self._take(ready, writer)
        self._life = asyncio.create_task(self._live(reader), name="engine")
        return ready

    async def stop(self) -> None:
        self.load.ready = False
        if self._life:
            self._life.cancel()
            with suppress(asyncio.CancelledError):
                await self._life
        if self._writer:
            self._writer.close()
        await self._process.end()
        self._process.forget()

    def send(self, client: Client, commands: list[engine.Command]) -> None:
        """Queue commands of `client`; all of one turn of the loop travel as one batch."""
        if not commands:
            return
        for command in commands:
            if isinstance(command, engine.Speak):
                self._routes[command.utterance] = _Route(client)
            elif isinstance(command, engine.Cancel):
                self._routes.pop(command.utterance, None)
        self._count()
        if not self._outgoing:
            asyncio.get_running_loop().call_soon(self._flush)
        self._outgoing += commands

    def _flush(self) -> None:
        commands, self._outgoing = self._outgoing, []
        if self._writer and not self._writer.is_closing():
            self._writer.write(engine.pack(commands))

    def _count(self) -> None:
        self.load.live = len(self._routes)
        if self._routes:
            self.idle.clear()
        else:
            self.idle.set()

    # The life of one engine after another

    def _take(self, ready: engine.Ready, writer: StreamWriter) -> None:
        self._writer = writer
        self.load.slots = ready.slots
        self.load.queue = self._queue
        self.load.ready = True
        log.info("engine ready: %s, %d slots on %s", ready.kind, ready.slots, ready.device)

    async def _live(self, reader: StreamReader) -> None:
        deaths = 0
        while True:
            since = time.monotonic()
            await self._route(reader)
            self._fail_all()
            deaths = 1 if time.monotonic() - since > HEALTHY_SECONDS else deaths + 1
            await self._process.end()
            reader, deaths = await self._revive(deaths)

    async def _revive(self, deaths: int) -> tuple[StreamReader, int]:
        while True:
            pause = BACK_OFF[min(deaths, len(BACK_OFF)) - 1]
            log.warning("engine ended (%d in a row); starting again in %.1f s", deaths, pause)
            await asyncio.sleep(pause)
            self.metrics.restarts.inc()
            try:
                ready, reader, writer = await self._process.launch()
            except EngineFailed as failure:
                log.error("%s", failure.text)
                deaths += 1
            else:
                self._take(ready, writer)
                return reader, deaths

    async def _route(self, reader: StreamReader) -> None:
        """Bring batches of events to their clients until the engine's stream ends."""
        try:
            while True:
                self._deliver(await read_batch(reader), time.monotonic())
        except (asyncio.IncompleteReadError, ConnectionError, ValueError) as error:
            log.error("the engine's stream ended: %s", type(error).__name__)

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
                self._count()
            route.client.receive_event(event, now)  # type: ignore[arg-type]
            touched[route.client] = None
        for client in touched:
            client.pump()

    def _fail_all(self) -> None:
        """Tell every live utterance that its engine is gone."""
        self.load.ready = False
        if self._writer:
            self._writer.close()
        self._writer = None
        lost, self._routes = self._routes, {}
        self._count()
        for ident, route in lost.items():
            failed = engine.Failed(
                ident, "engine_failed", "the engine ended; a new one is starting"
            )
            route.client.receive_event(failed, time.monotonic())
        for client in {route.client: None for route in lost.values()}:
            client.pump()
