"""One client on the bare wire: what the client library would mend by itself is to be seen here."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import Any
from urllib.parse import urlsplit

import msgpack
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.typing import Subprotocol

from gateway.config import is_loopback

from .ear import Ear
from .tally import Tally
from .turns import CANCEL, DROP, STALL, Turn

SUBPROTOCOL = Subprotocol("vivavoce.v1.msgpack")
OPEN_SECONDS = 15.0
PATIENCE = 60.0  # seconds without a word, in mid-turn
AGAIN_SECONDS = 0.5  # to the next try of a connection that did not open or broke
MEMORY = 16  # names of turns that are over


@dataclass(frozen=True)
class Target:
    url: str
    token: str = ""
    tls: SSLContext | None = None
    stall_seconds: float = 3.0


@dataclass
class _Call:
    """One utterance, as its client sees it."""

    name: str
    turn: Turn
    ear: Ear
    sent_at: float = -1.0  # its first text
    heard_at: float = -1.0
    struck_at: float = -1.0
    seq: int = 0
    samples: int = 0
    stalled: bool = False
    over: bool = False
    typed: asyncio.Task[None] | None = field(default=None, repr=False)


class Caller:
    """Connects, takes its turns one after another, and tells the tally."""

    def __init__(self, target: Target, turns: Iterator[Turn], tally: Tally) -> None:
        self.target = target
        self._turns = turns
        self._tally = tally
        self._socket: ClientConnection | None = None
        self._rate = 0
        self._count = 0
        self._past: deque[str] = deque(maxlen=MEMORY)

    async def run(self, until: float) -> None:
        """Begin turns until that moment, and end the last one."""
        while True:
            turn = next(self._turns)
            await asyncio.sleep(min(turn.pause, max(0.0, until - time.monotonic())))
            if time.monotonic() >= until:
                break
            await self._take(turn)
        if self._socket:
            await self._socket.close()

    async def _take(self, turn: Turn) -> None:
        try:
            socket = self._socket = self._socket or await self._open()
            await self._speak(socket, turn)
        except TimeoutError:
            await self._lose("silent")
        except ConnectionClosed as closed:
            await self._lose(f"closed_{closed.rcvd.code if closed.rcvd else 1006}")
        except InvalidStatus as refused:
            await self._lose(f"http_{refused.response.status_code}")
        except (OSError, WebSocketException):
            await self._lose("unreachable")

    async def _lose(self, code: str) -> None:
        self._tally.errors[code] += 1
        if self._socket:
            self._socket.transport.abort()
        self._socket = None
        await asyncio.sleep(AGAIN_SECONDS)

    async def _open(self) -> ClientConnection:
        began = time.monotonic()
        bearer = {"Authorization": f"Bearer {self.target.token}"} if self.target.token else {}
        options: dict[str, Any] = {"ssl": self.target.tls} if self.target.tls else {}
        local = is_loopback(urlsplit(self.target.url).hostname or "")
        async with asyncio.timeout(OPEN_SECONDS):
            socket = await connect(
                self.target.url,
                subprotocols=[SUBPROTOCOL],
                additional_headers=bearer,
                compression=None,
                ping_interval=None,
                proxy=None if local else True,
                **options,
            )
            first = msgpack.unpackb(await socket.recv())
        if first["type"] != "ready":  # what follows is the close
            self._tally.errors[first["code"]] += 1
            await socket.recv()
        self._rate = first["rate"]
        self._tally.connects.append(time.monotonic() - began)
        return socket

    async def _speak(self, socket: ClientConnection, turn: Turn) -> None:
        self._count += 1
        call = _Call(f"t{self._count}", turn, Ear(self._rate))
        self._tally.turns[turn.fate] += 1
        call.typed = asyncio.create_task(self._type(socket, call))
        try:
            while not call.over:
                async with asyncio.timeout(PATIENCE):
                    message = msgpack.unpackb(await socket.recv())
                self._tally.messages += 1
                await self._receive(socket, call, message)
        finally:
            call.typed.cancel()
            self._past.append(call.name)
            if call.heard_at >= 0 and not call.stalled:
                self._tally.listened += 1
                self._tally.broken += bool(call.ear.gaps)
                self._tally.gaps += call.ear.gaps

    async def _type(self, socket: ClientConnection, call: _Call) -> None:
        """Send the text as a language model writes it."""
        whole = len(call.turn.deltas) == 1
        speak: dict[str, Any] = {"type": "speak", "utterance": call.name}
        speak["voice"] = {"design": call.turn.voice}
        if whole:
            speak |= {"text": call.turn.text, "end": True}
            call.sent_at = time.monotonic()
        with suppress(ConnectionClosed):  # the reader tells
            await socket.send(msgpack.packb(speak))
            if whole:
                return
            due = time.monotonic()
            for wait, text in call.turn.deltas:
                due += wait
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                now = time.monotonic()
                self._tally.late = max(self._tally.late, now - due)
                if call.sent_at < 0:
                    call.sent_at = now
                delta = {"type": "text", "utterance": call.name, "text": text}
                await socket.send(msgpack.packb(delta))
            await socket.send(msgpack.packb({"type": "end", "utterance": call.name}))

    async def _receive(
        self, socket: ClientConnection, call: _Call, message: dict[str, Any]
    ) -> None:
        now, kind, tally = time.monotonic(), message["type"], self._tally
        if message.get("utterance", call.name) != call.name:
            if kind == "audio":
                known = message["utterance"] in self._past
                tally.wrong["audio after done" if known else "audio of nobody"] += 1
        elif kind == "audio":
            await self._hear(socket, call, message, now)
        elif kind == "done":
            call.over = True
            tally.ends[message["reason"]] += 1
            if message["text_wait_ms"] is not None:
                tally.text_waits.append(message["text_wait_ms"] / 1000)
            if message["samples"] != call.samples and message["reason"] in ("eos", "length"):
                tally.wrong["done counts other samples"] += 1
            if call.struck_at >= 0 and message["reason"] == "cancelled":
                tally.cancels.append(now - call.struck_at)
        elif kind == "error":
            tally.errors[message["code"]] += 1
            # Where it was live, `done` follows; where it was refused, nothing does.
            call.over = not message["fatal"] and message["code"] != "text_timeout"
            if call.over and (retry := message.get("retry_ms")):
                await asyncio.sleep(retry / 1000)

    async def _hear(
        self, socket: ClientConnection, call: _Call, message: dict[str, Any], now: float
    ) -> None:
        if message["seq"] != call.seq or message["start"] != call.samples:
            self._tally.wrong["audio out of order"] += 1
        count = message["samples"]
        if call.heard_at < 0:
            call.heard_at = now
            self._tally.ttfa.append(now - call.sent_at)
        call.seq = message["seq"] + 1
        call.samples = message["start"] + count
        call.ear.hear(count, now)
        self._tally.audio += count / self._rate
        due = call.struck_at < 0 and call.samples / self._rate >= call.turn.strike
        if not due:
            return
        if call.turn.fate == CANCEL:
            call.struck_at = now
            assert call.typed
            call.typed.cancel()
            await socket.send(msgpack.packb({"type": "cancel", "utterance": call.name}))
        elif call.turn.fate == DROP:
            call.struck_at = now
            call.over = True
            self._tally.ends["dropped"] += 1
            socket.transport.abort()
            self._socket = None
        elif call.turn.fate == STALL:
            call.struck_at, call.stalled = now, True
            await asyncio.sleep(self.target.stall_seconds)
