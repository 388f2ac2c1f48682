"""The client's side of one utterance: its text on the way out, its audio on the way in.

Law: after `cancel` no audio comes out, after `over` nothing goes in.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any

Text = str | AsyncIterable[str] | None
Send = Callable[[dict[str, Any]], Awaitable[None]]

SAMPLE_RATE = 24_000  # of the codec; `backlog` is counted by it
STILL_SPEAKING = ("text_timeout",)  # errors after which the utterance goes on to its `done`


class SpeechError(Exception):
    """The server's `error`, or the connection's end. `code` is stable: docs/protocol.md lists them.

    Besides those: `connection_lost`, `refused` (no speech socket there).
    """

    def __init__(self, code: str, message: str, retry_ms: int | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.retry_ms = retry_ms

    @classmethod
    def read(cls, error: dict[str, Any]) -> SpeechError:
        return cls(error["code"], error["message"], error.get("retry_ms"))


class Audio(bytes):
    """A piece of speech as bytes, by default s16le. `start` and `samples` place it in samples."""

    start: int
    samples: int

    @classmethod
    def read(cls, message: dict[str, Any]) -> Audio:
        audio = cls(message["pcm"])
        audio.start = message["start"]
        audio.samples = message["samples"]
        return audio


@dataclass(frozen=True)
class Done:
    """The server's account of an utterance. What it does not say is None."""

    reason: str  # eos | empty | cancelled | length | guard_silence | guard_loop | text_timeout
    samples: int
    segments: int | None = None
    ttfa_ms: float | None = None
    audible_ms: float | None = None
    rtf: float | None = None
    text_wait_ms: float | None = None
    engine_wait_ms: float | None = None
    heard: str | None = None
    remaining: str | None = None
    estimated: bool | None = None

    @property
    def whole(self) -> bool:
        """Whether the text was spoken to its natural end."""
        return self.reason in ("eos", "empty")

    @classmethod
    def read(cls, message: dict[str, Any]) -> Done:
        return cls(**{f.name: message[f.name] for f in fields(cls) if f.name in message})


class Speech(bytes):
    """All audio of an utterance, with its `rate` and the server's account `done`."""

    rate: int
    done: Done

    @classmethod
    def of(cls, pieces: Iterable[bytes], rate: int, done: Done) -> Speech:
        speech = cls(b"".join(pieces))
        speech.rate = rate
        speech.done = done
        return speech


class Utterance:
    """One text becoming speech. Iterate it for its audio; `done()` is the server's account."""

    def __init__(self, name: str, send: Send, text_bytes: int, backlog: float) -> None:
        self.name = name
        self.seed: int | None = None  # once started
        self.samples = 0  # received
        self.warnings: deque[str] = deque(maxlen=16)
        self._send = send
        self._text_bytes = text_bytes
        self._backlog = backlog
        self._unread: deque[Audio] = deque()
        self._unread_samples = 0
        self._cancelled = False
        self._flushes = 0
        self._flushed: dict[int, int] = {}
        self._done: Done | None = None
        self._error: BaseException | None = None
        self._feeder: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._errands: set[asyncio.Task[None]] = set()

    @property
    def over(self) -> bool:
        """Whether nothing more will come from the server."""
        return self._done is not None or self._error is not None

    # Out

    async def send(self, text: str) -> None:
        """More text; it may end in mid-word. After the utterance's end it falls to the floor."""
        step = max(1, self._text_bytes // 4)  # UTF-8 takes at most four bytes a character
        for at in range(0, len(text), step):
            await self._tell("text", text=text[at : at + step])

    async def flush(self) -> int:
        """Speak all text so far to its end, whether or not more comes; `flushed` waits for it."""
        self._flushes += 1
        number = self._flushes
        await self._tell("flush")
        return number

    async def end(self) -> None:
        """No more text."""
        await self._tell("end")

    async def played(self, samples: int) -> None:
        """Report how much has been heard: it paces the server and places a later `cancel`."""
        await self._tell("played", samples=samples)

    async def cancel(self, played: int | None = None) -> None:
        """Stop now: no audio follows. `played`: the samples that were heard."""
        self._cancelled = True
        self._drop()
        self._stop_feeding()
        await self._tell("cancel", **({} if played is None else {"played": played}))
        self._change()

    def feed(self, text: str | AsyncIterable[str]) -> None:
        """Send `text` as it comes, then `end`, beside whatever else happens."""
        self._feeder = asyncio.create_task(self._feed(text), name=f"text of {self.name}")

    async def _feed(self, text: str | AsyncIterable[str]) -> None:
        try:
            if isinstance(text, str):
                await self.send(text)
            else:
                async for piece in text:
                    await self.send(piece)
            await self.end()
        except Exception as error:  # theirs, in the iterator: the reader of the audio is told
            if not self.over:
                await self._give_up(error)

    async def _tell(self, kind: str, **more: Any) -> None:
        if not self.over:
            await self._send({"type": kind, "utterance": self.name} | more)

    # In

    def __aiter__(self) -> Utterance:
        return self

    async def __anext__(self) -> Audio:
        await self._until(lambda: bool(self._unread) or self.over or self._cancelled)
        if self._unread:
            audio = self._unread.popleft()
            self._unread_samples -= audio.samples
            return audio
        if self._error and not self._cancelled:
            raise self._error
        raise StopAsyncIteration

    async def started(self) -> int:
        """Wait until the utterance has a slot; returns its seed."""
        await self._until(lambda: self.seed is not None or self.over)
        if self.seed is None:
            raise self._error or SpeechError("ended", "it ended before it had a slot")
        return self.seed

    async def flushed(self, flush: int) -> int:
        """Wait until the text of that `flush` is spoken; returns the sample where it ends."""
        await self._until(lambda: flush in self._flushed or self.over)
        if flush not in self._flushed:
            raise self._error or SpeechError("ended", "it ended before the flush was spoken")
        return self._flushed[flush]

    async def done(self) -> Done:
        """Wait for the end; returns the server's account. Raises SpeechError where it failed."""
        await self._until(lambda: self.over)
        if self._error:
            raise self._error
        assert self._done
        return self._done

    def receive(self, message: dict[str, Any]) -> None:
        """One message of the server about this utterance."""
        match message["type"]:
            case "audio":
                self._hear(Audio.read(message))
            case "started":
                self.seed = message["seed"]
            case "flushed":
                self._flushed[message["flush"]] = message["at"]
            case "warning":
                self.warnings.append(f"{message['code']}: {message['message']}")
            case "done":
                self._done = Done.read(message)
                self._stop_feeding()
            case "error" if message["code"] in STILL_SPEAKING:
                self.warnings.append(f"{message['code']}: {message['message']}")
            case "error":
                self.fail(SpeechError.read(message))
        self._change()

    def fail(self, error: BaseException) -> None:
        if not self.over:
            self._error = error
            self._stop_feeding()
            self._change()

    def _hear(self, audio: Audio) -> None:
        self.samples = audio.start + audio.samples
        if self._cancelled:
            return
        self._unread.append(audio)
        self._unread_samples += audio.samples
        if self._unread_samples > self._backlog * SAMPLE_RATE:
            text = f"over {self._backlog:g} s of audio lie unread: read faster, or raise backlog"
            errand = asyncio.create_task(self._give_up(SpeechError("slow_client", text)))
            self._errands.add(errand)
            errand.add_done_callback(self._errands.discard)

    async def _give_up(self, error: BaseException) -> None:
        """Cancel at the server, and tell the reader why."""
        self.fail(error)
        with suppress(SpeechError):  # no connection, nothing to cancel
            await self._send({"type": "cancel", "utterance": self.name})

    def _drop(self) -> None:
        self._unread.clear()
        self._unread_samples = 0

    def _stop_feeding(self) -> None:
        if self._feeder and self._feeder is not asyncio.current_task():
            self._feeder.cancel()

    def _change(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self._changed.wait()
