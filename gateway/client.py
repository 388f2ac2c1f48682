"""Speak to a gateway: one connection, many utterances at a time. docs/protocol.md is the law.

    async with connect("ws://localhost:8000/v1/speech") as client:
        utterance = await client.speak("a calm man", text=words())
        async for audio in utterance: ...

The client names utterances and never uses a name twice, so late audio of a cancelled one falls to
the floor. A connection that breaks opens again: with the next `speak`, or at once for utterances
that speak; they go on at the next sample. With `resume=False` those that were heard fail instead.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgpack
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State

from .dialling import Trust, dial, lost
from .listener import Text, Utterance
from .speech import Audio, Done, Speech, SpeechError
from .urls import speech_url

__all__ = ["Audio", "Client", "Done", "Speech", "SpeechError", "Utterance", "connect", "speak"]

log = logging.getLogger("vivavoce.client")

URL = "ws://127.0.0.1:8000/v1/speech"
RETRY_SECONDS = 15.0  # for a server to come back to utterances that have not begun
RETRY_PAUSES = (0.05, 0.2, 0.5, 1.0, 2.0)
PASSING = ("busy", "draining", "connection_lost")  # refusals of a connection that may soon be none


@asynccontextmanager
async def connect(
    url: str = URL,
    *,
    token: str | None = None,
    backlog: float = 60.0,
    tls: Trust = None,
    resume: bool = True,
) -> AsyncIterator[Client]:
    """A client connected to `url` or HOST:PORT; closed with the block, which cancels what speaks.

    `token` is the server's key. `backlog`: seconds of audio an utterance may hold unread. `tls`:
    whom to trust at a wss:// URL, by default whom this machine trusts. `resume`: whether what
    was heard in part goes on after a lost connection. Raises SpeechError when the server refuses
    and OSError when nothing listens.
    """
    client = Client(url, token=token, backlog=backlog, tls=tls, resume=resume)
    await client.open()
    try:
        yield client
    finally:
        await client.close()


class Client:
    def __init__(
        self,
        url: str = URL,
        *,
        token: str | None = None,
        backlog: float = 60.0,
        tls: Trust = None,
        resume: bool = True,
    ) -> None:
        self.url = speech_url(url)
        self._tls = tls
        self._resume = resume
        self.server: dict[str, Any] = {}  # the fields of `ready`
        self._token = token
        self._backlog = backlog
        self._socket: ClientConnection | None = None
        self._reader: asyncio.Task[None] | None = None
        self._live: dict[str, Utterance] = {}
        self._names = itertools.count(1)
        self._fatal: SpeechError | None = None
        self._opening = asyncio.Lock()
        self._revival: asyncio.Task[None] | None = None
        self._closing = False

    @property
    def rate(self) -> int:
        """Samples a second of the codec, and of audio in the default format."""
        return int(self.server["rate"])

    async def open(self) -> ClientConnection:
        """Connect unless connected. Raises SpeechError, and OSError when nothing answers."""
        async with self._opening:
            if self._socket and self._socket.protocol.state is State.OPEN:
                return self._socket
            if self._reader:
                await self._reader
            socket, ready = await dial(self.url, self._token, self._tls)
            self._fatal = None
            self.server = ready
            self._socket = socket
            self._reader = asyncio.create_task(self._read(socket), name="speech reader")
            return socket

    async def close(self) -> None:
        """Close the connection; what still speaks is cancelled."""
        self._closing = True
        if self._revival:
            self._revival.cancel()
            await asyncio.wait({self._revival})
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
        format = fields.get("format", {})
        rate = format.get("rate", self.rate)
        if self._resume and rate == self.rate and format.get("encoding") != "opus":
            message["journal"] = True  # other formats lag behind their frames
        limits = self.server["limits"]
        limit, most = int(limits["text_bytes"]), int(limits["message_bytes"])
        utterance = Utterance(name, self._send, limit, self._backlog, rate, most)
        if isinstance(text, str) and len(text.encode()) <= limit:
            message |= {"text": text, "end": True}
            text = None
        self._live[name] = utterance  # no await since `open`: the reader that sees it lost is alive
        await utterance.open(message | fields)
        if text is not None:
            utterance.feed(text)
        return utterance

    async def cancel(self) -> None:
        """Cancel every utterance of this connection."""
        for utterance in list(self._live.values()):
            await utterance.cancel()

    async def _send(self, message: dict[str, Any]) -> None:
        assert self._socket
        await self._send_on(self._socket, message)

    async def _send_on(self, socket: ClientConnection, message: dict[str, Any]) -> None:
        try:
            await socket.send(msgpack.packb(message))
        except ConnectionClosed as closed:
            raise self._fatal or lost(closed) from closed

    async def _read(self, socket: ClientConnection) -> None:
        """Hand each message to its utterance until the socket closes."""
        loss = SpeechError("connection_lost", "the connection was closed")
        try:
            while True:
                self._receive(msgpack.unpackb(await socket.recv()))
        except ConnectionClosed as closed:
            loss = self._fatal or lost(closed)
        except (ValueError, KeyError, TypeError) as error:
            loss = SpeechError("bad_message", f"the server said what is not protocol v1: {error}")
            await socket.close(1002)
        finally:
            self._lose(loss)

    def _lose(self, loss: SpeechError) -> None:
        """The connection is gone: utterances that can go on or begin again, the others fail."""
        live, self._live = list(self._live.values()), {}
        may_return = not self._closing and self._fatal is None
        again = [u for u in live if u.replayable and may_return]
        for utterance in live:
            if utterance in again:
                utterance.wait()
            else:
                utterance.lose(loss)
        if again:
            self._revival = asyncio.create_task(self._revive(again, loss), name="speech revival")

    async def _revive(self, again: list[Utterance], loss: SpeechError) -> None:
        socket = None
        try:
            socket = await self._reopen()
            self._live |= {utterance.name: utterance for utterance in again}
        except SpeechError as error:
            loss = error
        except OSError:
            pass  # still nothing there: the loss itself says it best
        finally:
            if socket is None:
                for utterance in again:
                    utterance.lose(loss)
        if socket:
            for utterance in again:
                await utterance.replay(partial(self._send_on, socket))

    async def _reopen(self) -> ClientConnection:
        """Open, with patience for a server that restarts."""
        deadline = time.monotonic() + RETRY_SECONDS
        pauses = itertools.chain(RETRY_PAUSES, itertools.repeat(RETRY_PAUSES[-1]))
        while True:
            try:
                return await self.open()
            except (OSError, SpeechError) as error:
                passing = isinstance(error, OSError) or error.code in PASSING
                pause = next(pauses)
                if not passing or time.monotonic() + pause > deadline:
                    raise
            await asyncio.sleep(pause)

    def _receive(self, message: dict[str, Any]) -> None:
        utterance = self._live.get(message.get("utterance") or "")
        if utterance is not None:
            going = message.get("code") == "draining" or message.get("reason") == "error"
            if going and utterance.replayable:  # the close that follows lets it go on elsewhere
                return
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
    """`text` spoken by `voice`, all of it, by default s16le. Blocks; runs its own loop.

    `options` are those of `Client.speak`.
    """

    async def collect() -> Speech:
        async with connect(url, token=token, backlog=float("inf")) as client:
            utterance = await client.speak(voice, text, **{"pace": "fast"} | options)
            pcm = [audio async for audio in utterance]
            return Speech.of(pcm, utterance.rate, await utterance.done())

    return asyncio.run(collect())
