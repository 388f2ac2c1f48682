"""The listening side: handshakes, a reader per connection, the drain. Ties sessions to engines."""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from websockets.asyncio.server import Server as WebSocketServer
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from . import english
from .addresses import Addresses
from .admission import Load, origin_allowed
from .capabilities import MAX_SEED, SUBPROTOCOLS, Capabilities
from .config import GatewayConfig
from .connection import Connection
from .engines import Engines
from .errors import FOREIGN_ORIGIN, NO_KEY, PROTOCOL_ERROR, RESTART, TRY_LATER, Refusal
from .http import Pages, header, is_handshake
from .keys import Keys
from .metrics import Metrics
from .protocol import JSON, encode
from .session import Session

log = logging.getLogger("vivavoce.server")

TICK = 0.25  # seconds between looks at deadlines
TICKS = 16  # connections looked at in one turn of the loop: frames do not wait for all of them
STOP_SECONDS = 3.0  # for clients to read the last words and to answer the close
HANDSHAKE_SECONDS = 10.0  # for TLS, then again for the request
FRAMES = 2  # pings, and pieces of messages, that a message may come with
WRITE_LIMIT = 65_536  # bytes in the socket's own buffer before the outbox fills


class Server:
    """A gateway: `bind`, `start`, wait, `drain`, `stop`."""

    def __init__(self, config: GatewayConfig) -> None:
        self.config = config
        self.load = Load()
        self.metrics = Metrics(self.load)
        self.engines = Engines(config, self.load, self.metrics)
        self.pages = Pages(config.web, self.load, self.metrics, secure=config.tls is not None)
        self.keys = self.metrics.keys = Keys(config.keys)
        self.addresses = Addresses(config.limits, config.proxies, config.spared)
        self.connections: set[Connection] = set()
        self.metrics.held = lambda: sum(c.held for c in self.connections)
        self.port = 0
        self._ids = itertools.count(1)
        self._socket: socket.socket | None = None
        self._server: WebSocketServer | None = None
        self._ticker: asyncio.Task[None] | None = None
        self._left = asyncio.Event()  # no connection is open
        self._left.set()

    def bind(self) -> int:
        """Take the port and return it. Raises OSError where it is taken, before anything heavy."""
        family = socket.AF_INET6 if ":" in self.config.host else socket.AF_INET
        address = (self.config.host, self.config.port)
        self._socket = socket.create_server(address, family=family, backlog=1024)
        self._socket.setblocking(False)
        self.port = self._socket.getsockname()[1]
        return self.port

    async def start(self) -> None:
        """Answer HTTP at once, and speak once the engine is ready. Raises EngineFailed."""
        assert self._socket, "bind first"
        frames = FRAMES * self.config.limits.messages_per_second
        secure: dict[str, Any] = {}
        if self.config.tls:
            secure = {"ssl": self.config.tls, "ssl_handshake_timeout": HANDSHAKE_SECONDS}
        self._server = await serve(
            self._handle,
            sock=self._socket,
            compression=None,
            select_subprotocol=_select,
            process_request=self._process_request,
            server_header=None,
            ping_interval=None,  # ours counts any frame as life
            open_timeout=HANDSHAKE_SECONDS,
            max_size=self.config.limits.message_bytes,
            write_limit=WRITE_LIMIT,
            create_connection=partial(  # type: ignore[arg-type]
                Connection, addresses=self.addresses, frames_per_second=frames
            ),
            logger=_quiet(),
            **secure,
        )
        self._ticker = asyncio.create_task(self._tick(), name="ticker")
        ready = await self.engines.start()
        if ready.spell_numbers:
            await asyncio.to_thread(english.say, "1")  # the first call takes half a second
        self.pages.capabilities = Capabilities.of(ready, self.config.limits)

    async def drain(self) -> None:
        """Let utterances end, and their clients read them, within `drain_seconds`."""
        self.load.draining = True
        log.info("draining %d live utterances", self.load.live)
        with suppress(TimeoutError):
            async with asyncio.timeout(self.config.drain_seconds):
                await self.engines.idle.wait()
                await self._see_out()

    async def stop(self) -> None:
        """Tell what still speaks, close what is open and end the engine."""
        self.load.draining = True
        if self._ticker:
            self._ticker.cancel()
        if self._server:
            self._server.close(close_connections=False)
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    await self._see_out()
                    await self._server.wait_closed()
            except TimeoutError:
                for connection in list(self._server.all_connections):
                    connection.transport.abort()
                await self._server.wait_closed()
        elif self._socket:
            self._socket.close()
        await self.engines.stop()

    async def _see_out(self) -> None:
        """Close every connection once its last words are read."""
        for connection in list(self.connections):
            if connection.session:
                connection.session.shut(time.monotonic())
                connection.pump()
        await self._left.wait()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            for number, connection in enumerate(list(self.connections), 1):
                connection.tick(time.monotonic(), self.config.ping_seconds)
                if number % TICKS == 0:
                    await asyncio.sleep(0)

    # Connections

    def _process_request(self, connection: ServerConnection, request: Request) -> Response | None:
        assert isinstance(connection, Connection)
        connection.arrive(header(request.headers, "X-Forwarded-For") or "")
        speech = is_handshake(request)
        wait = self.addresses.patience(connection.address, time.monotonic(), handshake=speech)
        return self.pages.turn_away(wait) if wait else self.pages.answer(request)

    async def _handle(self, websocket: ServerConnection) -> None:
        assert isinstance(websocket, Connection)
        subprotocol = _subprotocol(websocket)
        if subprotocol is None:
            await websocket.close(
                PROTOCOL_ERROR, f"offer the subprotocol {' or '.join(SUBPROTOCOLS)}"
            )
            return
        try:
            session = self._admit(websocket, subprotocol)
        except Refusal as refusal:
            self.metrics.errors.labels(refusal.code).inc()
            await websocket.send(encode(refusal.wire(), subprotocol))
            await websocket.close(refusal.close, refusal.code)
            return
        websocket.attach(session, self.engines, self.metrics)
        self.connections.add(websocket)
        self._left.clear()
        self.metrics.connections = len(self.connections)
        of = {"session": session.name}
        log.info("session %s open, %d connections", session.name, len(self.connections), extra=of)
        try:
            websocket.pump()
            await websocket.read()
        finally:
            self.connections.discard(websocket)
            if not self.connections:
                self._left.set()
            self.metrics.connections = len(self.connections)
            code, key = websocket.close_code, session.visitor.name
            by = f", key {key}" if key else ""
            log.info("session %s closed with %s%s", session.name, code, by, extra=of)

    def _admit(self, websocket: Connection, subprotocol: str) -> Session:
        assert websocket.request
        headers, config = websocket.request.headers, self.config
        host, origin = header(headers, "Host"), header(headers, "Origin")
        scheme = "https" if config.tls else self._forwarded_scheme(websocket)
        strict = config.loopback or not self.keys.needed
        if not origin_allowed(origin, host or "", config.origins, strict, scheme):
            text = "pages from this origin may not speak here; the server's --origin adds them"
            raise Refusal("forbidden_origin", text, close=FOREIGN_ORIGIN)
        key = b""
        kind, _, token = (header(headers, "Authorization") or "").partition(" ")
        if self.keys.needed and kind.lower() == "bearer":
            if (digest := self.keys.digest(token.strip())) is None:
                raise Refusal("unauthorized", "the bearer token opens nothing here", close=NO_KEY)
            key = digest
        if self.load.draining:
            raise Refusal("draining", "the server is shutting down", retry_ms=1000, close=RESTART)
        if self.pages.capabilities is None:
            raise Refusal("busy", "the engine is starting", retry_ms=2000, close=TRY_LATER)
        name, address = secrets.token_hex(8), websocket.address
        return Session(
            name,
            subprotocol,
            self.pages.capabilities,
            self.load,
            self.keys,
            ids=self._ids,
            seeds=_seeds(),
            now=time.monotonic(),
            key=key,
            # On this machine each connection takes its own turns.
            address=name if self.addresses.spares(address) else address,
        )

    def _forwarded_scheme(self, websocket: Connection) -> str:
        """What a proxy of ours says the page's scheme was; "" where nobody can tell."""
        assert websocket.request
        said = header(websocket.request.headers, "X-Forwarded-Proto") or ""
        return said.lower() if websocket.proxied else ""


def _seeds() -> Iterator[int]:
    while True:
        yield secrets.randbelow(MAX_SEED + 1)


def _select(connection: ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
    return next((o for o in offered if o in SUBPROTOCOLS), None)


def _subprotocol(websocket: Connection) -> str | None:
    if websocket.subprotocol is not None:
        return websocket.subprotocol
    assert websocket.request
    query = dict(parse_qsl(urlsplit(websocket.request.path).query))
    return JSON if query.get("format") == "json" else None


def _quiet() -> logging.Logger:
    """The library logs broken handshakes with tracebacks and, in debug, each frame: user text."""
    logger = logging.getLogger("websockets.server")
    logger.setLevel(logging.CRITICAL)
    return logger
