"""The one door to the engine: commands in, events to their clients, a new one when it dies."""

from __future__ import annotations

import asyncio
import logging
import time
from asyncio import StreamReader, StreamWriter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from engine import messages as engine

from .admission import Load
from .config import GatewayConfig
from .journal import Journal
from .line import Queued
from .metrics import Metrics, Pace
from .process import EngineFailed, EngineProcess, read_batch
from .records import Continued
from .revival import Revival, Voices

log = logging.getLogger("vivavoce.engine")

BACK_OFF = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)  # seconds to the next start, after each death in a row
HEALTHY_SECONDS = 60.0  # alive that long, and the row begins anew
LOOK_SECONDS = 1.0  # between looks at whether the engine still talks
ANNOUNCE_SECONDS = 0.25  # between words to those who wait for a slot
LOOKS = 30  # in a row without a word where one is due: it hangs


class Client(Protocol):
    """Where an utterance's events go. `pump` is called once after a batch."""

    @property
    def share(self) -> str: ...  # with whom it takes turns in the line
    def receive_event(self, event: engine.Event | Queued | Continued, now: float) -> None: ...
    def pump(self) -> None: ...


@dataclass(slots=True)
class _Route:
    client: Client
    journal: Journal
    pace: Pace = field(default_factory=Pace)
    lost_at: float = 0.0  # its engine died; 0: it speaks
    outage: float = 0.0  # seconds without an engine
    queue: float = 0.0  # seconds in the engine's own line
    place: int = 0  # in the line, as the client was told


class Engines:
    """One engine; several take their place here, behind the same verbs."""

    def __init__(self, config: GatewayConfig, load: Load, metrics: Metrics) -> None:
        self.load = load
        self.metrics = metrics
        self.idle = asyncio.Event()  # no utterance lives
        self.idle.set()
        self._line = load.line
        self._line.queue = config.queue
        self._announcing = False
        self._process = EngineProcess(config)
        self._routes: dict[int, _Route] = {}
        self._outgoing: list[engine.Command] = []
        self._writer: StreamWriter | None = None
        self._life: asyncio.Task[None] | None = None
        self._asked = False  # commands went out that no Status has followed yet
        self._silent = 0  # looks since its last word
        self._voices = Voices()
        self._revival = Revival()

    async def start(self) -> engine.Ready:
        """Return once a frame ran through the pipeline. Raises EngineFailed when it ends before."""
        ready, reader, writer = await self._process.launch()
        self._take(ready, writer)
        self._life = asyncio.create_task(self._live(reader), name="engine")
        return ready

    async def stop(self) -> None:
        self.load.ready = self.load.reviving = False
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
        now = time.monotonic()
        for i, command in enumerate(commands):
            ident = command.utterance
            if isinstance(command, engine.Speak):
                if self._line.full and (ousted := self._line.yields(client.share)):
                    self._oust(ousted, now)
                commands[i] = speak = self._with_voice(command, client, now)
                self._routes[ident] = _Route(client, Journal(speak))
            elif isinstance(command, engine.Cancel):
                if route := self._routes.pop(ident, None):
                    self._voices.keep(ident, route.journal.voice())
                if self._revival.left(ident):
                    self._go_on()
            elif ident in self._routes:
                self._routes[ident].journal.command(command)
        self._command(self._line.pass_on(commands, client.share, now))
        self._count()

    def _command(self, commands: list[engine.Command]) -> None:
        if commands and not self._outgoing:
            asyncio.get_running_loop().call_soon(self._flush)
        self._outgoing += commands

    def _flush(self) -> None:
        commands, self._outgoing = self._outgoing, []
        if self._writer and not self._writer.is_closing():
            self._asked = True
            self._writer.write(engine.pack(commands))

    def _with_voice(self, speak: engine.Speak, client: Client, now: float) -> engine.Speak:
        """With the voice that goes on, of which the client hears too."""
        route = self._routes.get(speak.continues)  # one that still speaks
        voice = route.journal.voice() if route else self._voices.of(speak.continues)
        if voice:
            client.receive_event(Continued(speak.utterance, voice.text, voice.codes), now)
        return replace(speak, voice=voice or speak.voice, continues=0)

    def _oust(self, utterance: int, now: float) -> None:
        """The newest waiter of the greatest share makes room for one of a smaller share."""
        self._line.leave(utterance, now)
        text = "the line is full, and one with fewer live utterances came"
        failed = engine.Failed(utterance, "busy", text)
        client = self._routes.pop(utterance).client
        client.receive_event(failed, now)
        asyncio.get_running_loop().call_soon(client.pump)

    def _announce(self) -> None:
        """Tell everybody in the line of a new place."""
        self._announcing = False
        now = time.monotonic()
        touched: dict[Client, None] = {}
        for utterance, place in self._line.places().items():
            if (route := self._routes.get(utterance)) and route.place != place:
                route.place = place
                route.client.receive_event(Queued(utterance, place), now)
                touched[route.client] = None
        for client in touched:
            client.pump()

    def _count(self) -> None:
        """Utterances came or went: slots may be free, and places in the line change."""
        if self._writer:
            self._command(self._line.release(time.monotonic()))
        if self._line.stands and not self._announcing:
            self._announcing = True
            asyncio.get_running_loop().call_later(ANNOUNCE_SECONDS, self._announce)
        self.load.live = len(self._routes)
        (self.idle.clear if self._routes else self.idle.set)()

    # The life of one engine after another

    def _take(self, ready: engine.Ready, writer: StreamWriter) -> None:
        self._writer = writer
        self.load.slots = self._line.slots = ready.slots
        self.load.queue = self._line.queue
        self.load.ready = self.load.reviving = True
        self.metrics.engine_ready(ready, self._process.pid)
        self._asked, self._silent = False, 0
        self._outgoing.clear()  # the journals have it
        self._go_on()
        self._count()
        log.info("engine ready: %s, %d slots on %s", ready.kind, ready.slots, ready.device)

    async def _live(self, reader: StreamReader) -> None:
        deaths = 0
        while True:
            since = time.monotonic()
            watch = asyncio.create_task(self._watch(), name="watch")
            try:
                await self._route(reader)
            finally:
                watch.cancel()
            self._lose_all()
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
                self._revival.unborn()
                self._give_up(self._revival.lost if self._revival.hopeless else [])
            else:
                self._take(ready, writer)
                return reader, deaths

    async def _route(self, reader: StreamReader) -> None:
        """Bring batches of events to their clients until the engine's stream ends."""
        try:
            while True:
                self._deliver(await read_batch(reader), time.monotonic())
        except Exception as error:  # a fault of ours too: a fresh engine, and nobody waits for ever
            log.error("the engine's stream ended: %s", type(error).__name__)

    async def _watch(self) -> None:
        """Kill an engine that hangs. Looks are counted, not seconds: a gateway that was itself
        stopped for a while has not heard what was said meanwhile.
        """
        while self._silent < LOOKS:
            await asyncio.sleep(LOOK_SECONDS)
            due = self._asked or self._routes
            self._silent = self._silent + 1 if due else 0
        log.error("the engine has said nothing for %d s: it is killed", LOOKS * LOOK_SECONDS)
        self._process.kill()
        if self._writer:  # its stream ends here, whenever the process does
            self._writer.transport.abort()

    def _deliver(self, batch: list[engine.Message], now: float) -> None:
        """One wake per client and batch, however many events it holds."""
        touched: dict[Client, None] = {}
        routes = self._routes
        self._silent = 0
        for event in batch:
            if isinstance(event, engine.Status):
                self._asked = False
                self.metrics.engine_status(event)
                continue
            route = routes.get(event.utterance)  # type: ignore[union-attr]
            if route is None or not route.journal.event(event):  # type: ignore[arg-type]
                continue  # cancelled since, or known to the client
            if isinstance(event, engine.Audio):
                self.metrics.frame(route.pace, now)
                self._progress(event.utterance, route, now)
            elif isinstance(event, engine.Started):
                route.queue = event.queue
                event = replace(event, queue=event.queue + self._line.waited(event.utterance))
            elif isinstance(event, engine.Finished | engine.Failed):
                self._progress(event.utterance, route, now)
                if isinstance(event, engine.Finished):
                    self._voices.keep(event.utterance, route.journal.voice(event.reason))
                    if route.outage:
                        event = replace(event, engine_wait=route.queue + route.outage)
                del routes[event.utterance]
                self._line.leave(event.utterance, now)
                self._count()
            route.client.receive_event(event, now)  # type: ignore[arg-type]
            touched[route.client] = None
        for client in touched:
            client.pump()

    def _progress(self, utterance: int, route: _Route, now: float) -> None:
        """A frame or an end: the engine works."""
        if route.lost_at:
            route.outage += now - route.lost_at
            route.lost_at = 0.0
        if self._revival.worked(utterance):
            self._go_on()

    def _lose_all(self) -> None:
        """The engine is gone. What it had goes on in the next one, but for what kills engines."""
        self.load.ready = False
        if self._writer:
            self._writer.close()
        self._writer = None
        now = time.monotonic()
        lost = {i: r for i, r in self._routes.items() if not self._line.waits(i)}
        for route in lost.values():
            route.lost_at = route.lost_at or now
        self._give_up(self._revival.died({i: route.journal for i, route in lost.items()}))

    def _go_on(self) -> None:
        """Tell the engine of those that the one before it had."""
        for journal in self._revival.due({i: r.journal for i, r in self._routes.items()}):
            self.metrics.revived.inc()
            self._command(journal.revival())

    def _give_up(self, utterances: list[int]) -> None:
        """Fail these, and let nobody in while there is no hope."""
        self.load.reviving = not self._revival.hopeless
        now, text = time.monotonic(), "engines died again and again while they spoke this utterance"
        gone = {i: self._routes.pop(i) for i in utterances if i in self._routes}
        for ident, route in gone.items():
            self._line.leave(ident, now)
            route.client.receive_event(engine.Failed(ident, "engine_failed", text), now)
        self._count()
        for client in {route.client: None for route in gone.values()}:
            client.pump()
