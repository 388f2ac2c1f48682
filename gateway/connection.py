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
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.protocol import State
from websockets.server import ServerProtocol

from engine import messages as engine

from .engines import Engines
from .errors import INTERNAL, Refusal
from .logs import place
from .metrics import Metrics
from .protocol import encode
from .session import Session

log = logging.getLogger("vivavoce.connection")

CLOSE_SECONDS = 10.0  # for a client to read the last words
_WITH_BODY = (b"POST ", b"PUT ", b"PATCH ")
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

    def __init__(self, protocol: ServerProtocol, server: Server, **options: Any) -> None:
        super().__init__(protocol, server, **options)
        self._readable = asyncio.Event()
        self._closer: asyncio.Task[None] | None = None
        self._pumping = False
        self._heard_at = self._pinged_at = time.monotonic()
        self._closing_at = 0.0
        self._deaf = False
        self._fail = protocol.fail
        protocol.fail = self._fail_aloud  # type: ignore[method-assign]

    def attach(self, session: Session, engines: Engines, metrics: Metrics) -> None:
        self.engines = engines
        self.metrics = metrics
        self.session = session

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
                if pause := allowance.pause(time.monotonic()):
                    await asyncio.sleep(pause)
                data = await self.recv()
                self.metrics.received(len(data))
                self._receive(session, data)
                self.pump()
        if self._closer:
            await self._closer

    def _receive(self, session: Session, data: str | bytes) -> None:
        now = time.monotonic()
        try:
            session.receive_message(data, now)
        except Exception as error:
            log.error("session %s, client message: %s", session.name, place(error))
            session.refuse(Refusal("internal", "our mistake", close=INTERNAL), now)

    def data_received(self, data: bytes) -> None:
        self._heard_at = time.monotonic()
        if self.request is None and not self._deaf and data.startswith(_WITH_BODY):
            self._refuse_body()
        if not self._deaf:
            super().data_received(data)

    def _refuse_body(self) -> None:
        """The library takes no request with a body and would close without a word."""
        self._deaf = True
        response = self.respond(405, "This port answers GET and HEAD.\n")
        response.headers["Allow"] = "GET, HEAD"
        self.transport.write(response.serialize())
        self.transport.write_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.session:
            self.session.connection_lost()
            self.engines.send(self, self.session.commands_to_send())
        self._readable.set()

    def receive_event(self, event: engine.Event, now: float) -> None:
        assert self.session
        try:
            self.session.receive_event(event, now)
        except Exception as error:
            log.error("session %s, engine event: %s", self.session.name, place(error))
            self.session.refuse(Refusal("internal", "our mistake", close=INTERNAL), now)

    def tick(self, now: float, ping_seconds: float) -> None:
        if self.session is None or self.protocol.state is not State.OPEN:
            return
        self.session.tick(now)
        self.pump()
        if self.session.closing:
            self._closing_at = self._closing_at or now
            if now - self._closing_at > CLOSE_SECONDS:  # it does not read what came before
                self.transport.abort()
        elif self.session.may_read:  # else its frames wait unread, and silence says nothing
            self._keep_alive(now, ping_seconds)

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
            self.engines.send(self, session.commands_to_send())
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
            refusal = Refusal(_CODES[CloseCode(code)], reason or "not a valid frame", close=code)
            session.refuse(refusal, time.monotonic())
            for message in session.messages_to_send(time.monotonic()):
                self._write(message)
            reason = refusal.code
        self._fail(code, reason)

    def _write(self, message: dict[str, Any]) -> None:
        assert self.session
        data = encode(message, self.session.subprotocol)
        if isinstance(data, str):
            data = data.encode()
            self.protocol.send_text(data)
        else:
            self.protocol.send_binary(data)
        self.send_data()
        self.metrics.sent(message, len(data))


class Allowance:
    """A bucket of messages that fills by `rate` a second and holds one second's worth."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self.left = float(rate)
        self.at = 0.0

    def pause(self, now: float) -> float:
        """Take one message; returns the seconds to wait before it."""
        self.left = min(self.rate, self.left + (now - self.at) * self.rate) - 1
        self.at = now
        return 0.0 if self.left >= 0 else -self.left / self.rate
