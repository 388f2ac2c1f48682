"""One WebSocket: what the session says goes out, what comes in goes to the session.

Writes are made at once while the socket takes them, and again when it has drained: no task per
writer, no wake per frame.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import Any

from websockets.asyncio.server import Server, ServerConnection
from websockets.exceptions import ConnectionClosed, InvalidMessage
from websockets.frames import CloseCode
from websockets.protocol import Event, State
from websockets.server import ServerProtocol

from engine import messages as engine

from .addresses import Addresses
from .chronicle import note_commands, note_end
from .engines import Engines
from .errors import INTERNAL, Refusal
from .frames import framed
from .intake import Allowance, Intake
from .logs import place
from .metrics import Metrics
from .protocol import encode
from .session import Session
from .utterance import Event as Told

log = logging.getLogger("vivavoce.connection")

CLOSE_SECONDS = 10.0  # for a client to read the last words
_CODES = {
    CloseCode.PROTOCOL_ERROR: "bad_message",
    CloseCode.INVALID_DATA: "bad_message",
    CloseCode.MESSAGE_TOO_BIG: "too_large",
}


class Connection(ServerConnection):
    """A server connection that carries a session once `attach` gave it one."""

    engines: Engines
    metrics: Metrics
    session: Session | None = None

    def __init__(
        self,
        protocol: ServerProtocol,
        server: Server,
        *,
        addresses: Addresses,
        frames_per_second: int,
        **options: Any,
    ) -> None:
        super().__init__(protocol, server, **options)
        self._frames_per_second = frames_per_second
        self.address = ""  # that counts; "" until a proxy has said whose it is
        self._addresses = addresses
        self._peer = ""
        self._readable = asyncio.Event()
        self._closer: asyncio.Task[None] | None = None
        self._pumping = False
        self._heard_at = self._pinged_at = time.monotonic()
        self._closing_at = 0.0
        self._listening = False  # all that came is read
        self._unsent = 0
        self._verb = b""
        self._fail = protocol.fail
        protocol.fail = self._fail_aloud  # type: ignore[method-assign]

    def attach(self, session: Session, engines: Engines, metrics: Metrics) -> None:
        self.engines = engines
        self.metrics = metrics
        self.session = session
        self.close_timeout = None  # `tick` cuts who reads nothing

    # In

    async def read(self) -> None:
        """Hand every message to the session until the socket closes, pausing when it wants none."""
        session = self.session
        assert session
        allowance = Allowance(session.limits.messages_per_second)
        with suppress(ConnectionClosed):
            while self.protocol.state is State.OPEN:
                if not session.may_read:
                    self._readable.clear()
                    await self._readable.wait()
                    continue
                allowance.take()
                if pause := allowance.wait(time.monotonic()):
                    await asyncio.sleep(pause)
                self._listening = True
                data = await self.recv()
                self._listening = False
                self.metrics.received(len(data))
                self._receive(session, data)
                self.pump()
        if self._closer:
            await self._closer
        self.close_timeout = CLOSE_SECONDS  # no tick looks any more

    def _receive(self, session: Session, data: str | bytes) -> None:
        now = time.monotonic()
        try:
            session.receive_message(data, now)
        except Exception as error:
            of = {"session": session.name}
            log.error("session %s, client message: %s", session.name, place(error), extra=of)
            session.refuse(Refusal("internal", "our mistake", close=INTERNAL), now)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._intake = Intake(self.transport, self._take, self._frames_per_second)
        self.recv_messages.pause = self._intake.pause
        self.recv_messages.resume = self._intake.resume
        self._peer = str((transport.get_extra_info("peername") or ("",))[0])
        if not self.proxied:
            self.arrive()
            if self._addresses.flooding(self.address):
                self.transport.abort()

    @property
    def proxied(self) -> bool:
        return self._addresses.proxied(self._peer)

    def arrive(self, forwarded: str = "") -> None:
        """Count it, once; `forwarded`: the request's X-Forwarded-For, where one is due."""
        if not self.address:
            self.address = self._addresses.of(self._peer, forwarded)
            self._addresses.enter(self.address)

    def data_received(self, data: bytes) -> None:
        self._heard_at = time.monotonic()
        self._verb = (self._verb + data[:8])[:8]
        self._intake.put(data, head=self.request is None)

    def _take(self, data: bytes) -> None:
        super().data_received(data)
        self._intake.held = self.request is not None and self.response is None

    def process_event(self, event: Event) -> None:
        self._intake.count()
        super().process_event(event)

    def eof_received(self) -> None:
        self._intake.drain()
        super().eof_received()

    def send_data(self) -> None:
        """The library takes no request with a body and would close without a word."""
        failure = self.protocol.handshake_exc
        if isinstance(failure, InvalidMessage) and self.response is None:
            known = self._verb.startswith((b"GET ", b"HEAD "))
            text = "This port answers GET and HEAD, without a body.\n"
            self.response = self.respond(400 if known else 405, text)
            self.response.headers["Allow"] = "GET, HEAD"
            if not isinstance(failure.__cause__, EOFError):  # else nobody asked
                self.transport.write(self.response.serialize())
        super().send_data()
        if self.response is not None:
            self._intake.release()

    def connection_lost(self, exc: Exception | None) -> None:
        self._intake.close()
        super().connection_lost(exc)
        if self.address:
            self._addresses.leave(self.address)
        if self.session:
            self.session.connection_lost()
            commands = self.session.commands_to_send()
            note_commands(self.session.name, commands)
            self.engines.send(self, commands)
        self._readable.set()

    @property
    def held(self) -> int:
        """How many utterances wait for the client to read."""
        session = self.session
        return len(session.live) if session and session.outbox.held else 0

    @property
    def share(self) -> str:
        assert self.session
        return self.session.visitor.share

    def receive_event(self, event: Told, now: float) -> None:
        assert self.session
        try:
            self.session.receive_event(event, now)
            if isinstance(event, engine.Finished | engine.Failed):
                note_end(self.session.name, event)
        except Exception as error:
            of = {"session": self.session.name, "utterance": getattr(event, "utterance", None)}
            log.error("session %s, engine event: %s", self.session.name, place(error), extra=of)
            self.session.refuse(Refusal("internal", "our mistake", close=INTERNAL), now)

    def tick(self, now: float, ping_seconds: float) -> None:
        session, unsent = self.session, self.transport.get_write_buffer_size()
        if session is None:
            return
        if unsent < self._unsent:
            session.drained_at = now
        self._unsent = unsent
        if self.protocol.state is State.OPEN:
            session.tick(now, self._listening)
            self.pump()
        if session.closing or self.protocol.state is not State.OPEN:
            self._closing_at = self._closing_at or now
            if now - max(self._closing_at, session.drained_at) > CLOSE_SECONDS:
                self.transport.abort()  # it does not read what came before
        elif self._listening and session.may_read:
            self._keep_alive(now, ping_seconds)
        else:  # its frames may wait unread: silence says nothing
            self._heard_at = now

    def _keep_alive(self, now: float, ping_seconds: float) -> None:
        """Any received frame is life; a ping asks for one, two intervals without any are death."""
        if now - self._heard_at > 2 * ping_seconds and self._pinged_at > self._heard_at:
            self.transport.abort()
        elif now - max(self._heard_at, self._pinged_at) > ping_seconds:
            self._pinged_at = now
            self.protocol.send_ping(b"")
            self.send_data()

    # Out

    def pump(self) -> None:
        """Send what the session has, as far as the socket takes it."""
        session = self.session
        if session is None or self._pumping:
            return
        self._pumping = True
        try:
            if self.protocol.state is State.OPEN:
                if not self.paused and session.outbox:
                    for message in session.messages_to_send(time.monotonic()):
                        self._write(message)
                        if self.paused:
                            break
                if session.closing and not session.outbox and self._closer is None:
                    self._closer = asyncio.create_task(self.close(*session.closing))
            if commands := session.commands_to_send():
                note_commands(session.name, commands)
                self.engines.send(self, commands)
            if not self._readable.is_set() and session.may_read:
                self._readable.set()
        finally:
            self._pumping = False

    def resume_writing(self) -> None:
        super().resume_writing()
        self.pump()

    def _fail_aloud(self, code: CloseCode | int, reason: str = "") -> None:
        """Say so in a message before the library closes over a frame broken or too large."""
        session = self.session
        if session and self.protocol.state is State.OPEN and code in _CODES:
            limit = "message_bytes" if code == CloseCode.MESSAGE_TOO_BIG else ""
            text = reason or "not a valid frame"
            refusal = Refusal(_CODES[CloseCode(code)], text, limit=limit, close=code)
            session.refuse(refusal, time.monotonic())
            for message in session.messages_to_send(time.monotonic()):
                self._write(message)
            reason = refusal.code
        self._fail(code, reason)

    def _write(self, message: dict[str, Any]) -> None:
        assert self.session
        data = encode(message, self.session.subprotocol)
        text = isinstance(data, str)
        if isinstance(data, str):
            data = data.encode()
        # A pong that the library has not sent yet may come behind it; nothing else waits there.
        self.transport.write(framed(data, text=text))
        self.metrics.sent(message, len(data))
