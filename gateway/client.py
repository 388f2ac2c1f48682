"""Speak to a gateway: one connection, many utterances at a time. docs/protocol.md is the law.

    async with connect("ws://localhost:8000/v1/speech") as client:
        utterance = await client.speak("a calm man", text=words())
        async for audio in utterance: ...

The client names utterances and never uses a name twice, so late audio of a cancelled one falls to
the floor. A connection that closed while nothing was spoken opens again with the next `speak`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import itertools
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import msgpack
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_socket
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.protocol import State
from websockets.typing import Subprotocol

from .listener import Audio, Done, Speech, SpeechError, Text, Utterance

__all__ = ["Audio", "Client", "Done", "Speech", "SpeechError", "Utterance", "connect", "speak"]

log = logging.getLogger("vivavoce.client")

URL = "ws://127.0.0.1:8000/v1/speech"
SUBPROTOCOL = Subprotocol("vivavoce.v1.msgpack")
OPEN_SECONDS = 15.0
PING_TIMEOUT = 60.0  # pongs queue behind audio under load


@asynccontextmanager
async def connect(
    url: str = URL, *, token: str | None = None, backlog: float = 60.0
) -> AsyncIterator[Client]:
    """A client connected to `url`; closed with the block, which cancels what still speaks.

    `token` is the server's key. `backlog`: seconds of audio an utterance may hold unread. Raises
    SpeechError when the server refuses and OSError when nothing listens.
    """
    client = Client(url, token=token, backlog=backlog)
    await client.open()
    try:
        yield client
    finally:
        await client.close()


class Client:
    def __init__(self, url: str = URL, *, token: str | None = None, backlog: float = 60.0) -> None:
        self.url = url
        self.server: dict[str, Any] = {}  # the fields of `ready`
        self._token = token
        self._backlog = backlog
        self._socket: ClientConnection | None = None
        self._reader: asyncio.Task[None] | None = None
        self._live: dict[str, Utterance] = {}
        self._names = itertools.count(1)
        self._fatal: SpeechError | None = None
        self._opening = asyncio.Lock()

    @property
    def rate(self) -> int:
        """Samples a second of the codec, and of audio in the default format."""
        return int(self.server["rate"])

    async def open(self) -> None:
        """Connect unless connected. Raises SpeechError, OSError, TimeoutError."""
        async with self._opening:
            if self._socket and self._socket.protocol.state is State.OPEN:
                return
            if self._reader:
                await self._reader
            headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
            try:
                socket = await open_socket(
                    self.url,
                    subprotocols=[SUBPROTOCOL],
                    additional_headers=headers,
                    compression=None,
                    open_timeout=OPEN_SECONDS,
                    ping_timeout=PING_TIMEOUT,
                    proxy=None if _is_local(self.url) else True,
                )
            except InvalidHandshake as error:
                raise SpeechError("refused", f"no speech socket at {self.url}: {error}") from error
            self._fatal = None
            try:
                async with asyncio.timeout(OPEN_SECONDS):
                    ready = msgpack.unpackb(await socket.recv())
            except ConnectionClosed as closed:
                raise _lost(closed) from closed
            except BaseException:
                await socket.close()
                raise
            if ready["type"] != "ready":
                await socket.close()
                raise SpeechError.read(ready)
            self.server = ready
            self._socket = socket
            self._reader = asyncio.create_task(self._read(socket), name="speech reader")

    async def close(self) -> None:
        if self._socket:
            await self._socket.close()
        if self._reader:
            await self._reader

    async def speak(
        self,
        voice: str | Mapping[str, Any],
        text: Text = None,
        *,
        seed: int | None = None,
        language: str = "auto",
        pace: str = "live",
        continues: Utterance | None = None,
        **fields: Any,
    ) -> Utterance:
        """Open an utterance.

        `voice` is a description, or the protocol's map (`{"speaker": ...}`). `text` is all of it,
        or an async iterator of pieces that is read while audio comes, or None: `send` and `end`
        then say it. `pace`: live (paced by playback) or fast (for files). `continues`: an earlier
        utterance of this connection whose voice goes on. `fields`: more of the protocol's `speak`.
        """
        await self.open()
        name = f"u{next(self._names)}"
        message: dict[str, Any] = {"type": "speak", "utterance": name, "language": language}
        message["voice"] = {"design": voice} if isinstance(voice, str) else dict(voice)
        message["pace"] = pace
        if seed is not None:
            message["seed"] = seed
        if continues is not None:
            message["continues"] = continues.name
        limit = int(self.server["limits"]["text_bytes"])
        utterance = Utterance(name, self._send, limit, self._backlog)
        if isinstance(text, str) and len(text.encode()) <= limit:
            message |= {"text": text, "end": True}
            text = None
        self._live[name] = utterance
        try:
            await self._send(message | fields)
        except SpeechError:
            self._live.pop(name, None)
            raise
        if text is not None:
            utterance.feed(text)
        return utterance

    async def cancel(self) -> None:
        """Cancel every utterance of this connection."""
        for utterance in list(self._live.values()):
            await utterance.cancel()

    async def _send(self, message: dict[str, Any]) -> None:
        assert self._socket
        try:
            await self._socket.send(msgpack.packb(message))
        except ConnectionClosed as closed:
            raise self._fatal or _lost(closed) from closed

    async def _read(self, socket: ClientConnection) -> None:
        """Hand each message to its utterance until the socket closes."""
        lost = SpeechError("connection_lost", "the connection was closed")
        try:
            while True:
                self._receive(msgpack.unpackb(await socket.recv()))
        except ConnectionClosed as closed:
            lost = self._fatal or _lost(closed)
        except (ValueError, KeyError, TypeError) as error:
            lost = SpeechError("bad_message", f"the server said what is not protocol v1: {error}")
            await socket.close(1002)
        finally:
            live, self._live = self._live, {}
            for utterance in live.values():
                utterance.fail(lost)

    def _receive(self, message: dict[str, Any]) -> None:
        utterance = self._live.get(message.get("utterance") or "")
        if utterance is not None:
            utterance.receive(message)
            if utterance.over:
                del self._live[utterance.name]
        elif message["type"] == "error":
            error = SpeechError.read(message)
            if message.get("fatal"):
                self._fatal = error
            elif "utterance" not in message:
                log.warning("the server refused a message: %s", error)


def speak(
    text: str, voice: str, *, url: str = URL, token: str | None = None, **options: Any
) -> Speech:
    """`text` spoken by `voice`, all of it: s16le at the codec's rate. Blocks; runs its own loop.

    `options` are those of `Client.speak`.
    """

    async def collect() -> Speech:
        async with connect(url, token=token, backlog=float("inf")) as client:
            utterance = await client.speak(voice, text, **{"pace": "fast"} | options)
            pcm = [audio async for audio in utterance]
            return Speech.of(pcm, client.rate, await utterance.done())

    return asyncio.run(collect())


def _lost(closed: ConnectionClosed) -> SpeechError:
    frame = closed.rcvd
    if frame is None:
        return SpeechError("connection_lost", "the connection broke")
    reason = f"{frame.code} {frame.reason}".strip()
    return SpeechError("connection_lost", f"the server closed the connection: {reason}")


def _is_local(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
