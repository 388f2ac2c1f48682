"""The client's side of one utterance: its text on the way out, its audio on the way in.

Laws: after `cancel` no audio comes out; after `over` nothing goes in; what was said and told
is noted, so that another connection can take the utterance over.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

from .notes import Notes
from .speech import Audio, Done, SpeechError, Word

Text = str | AsyncIterable[str] | None
Send = Callable[[dict[str, Any]], Awaitable[None]]

STILL_SPEAKING = ("text_timeout",)  # errors after which the utterance goes on to its `done`
REPLAYS = 3  # tries of other connections without a sound before an utterance gives up
FULL = ("busy", "rate_limited")  # refusals of a try that another may follow
PAUSE_MS = 1_000  # before it, where the server names none


class Utterance:
    """One text becoming speech. Iterate it for its audio; `done()` is the server's account."""

    def __init__(
        self,
        name: str,
        send: Send,
        text_bytes: int,
        backlog: float,
        rate: int,
        message_bytes: int,
    ) -> None:
        self.name = name
        self.rate = rate  # samples a second of the format asked for
        self.seed: int | None = None  # once started
        self.samples = 0  # received
        self.warnings: deque[str] = deque(maxlen=16)
        self.words: list[Word] = []  # so far, where `words=True` asked for them
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
        self._notes = Notes(message_bytes, text_bytes)
        self._replays = 0  # since the last audio
        self._away = False  # no server knows of it
        self._order = asyncio.Lock()

    @property
    def over(self) -> bool:
        """Whether nothing more will come from the server."""
        return self._done is not None or self._error is not None

    @property
    def replayable(self) -> bool:
        """Whether it may begin, or go on, elsewhere."""
        wanted = not (self.over or self._cancelled)
        return wanted and self._notes.whole and self._replays < REPLAYS

    def wait(self) -> None:
        """Its connection is gone; `replay` follows."""
        self._away = True

    # Out

    async def open(self, speak: dict[str, Any]) -> None:
        """Send the `speak` that opens it."""
        await self._keep(speak)

    async def replay(self, send: Send) -> None:
        """Go on behind what was heard, through a connection that knows nothing of it."""
        self._replays += 1
        async with self._order:
            if self._cancelled:
                self.lose(SpeechError("connection_lost", "cancelled meanwhile"))
                return
            self._away = False
            with suppress(SpeechError):  # gone again: its reader knows
                for message in self._notes.again():
                    await send(message)

    async def send(self, text: str) -> None:
        """More text; it may end in mid-word. After the utterance's end it falls to the floor."""
        step = max(1, self._text_bytes // 4)  # UTF-8 takes at most four bytes a character
        for at in range(0, len(text), step):
            await self._keep({"type": "text", "text": text[at : at + step]})

    async def flush(self) -> int:
        """Speak all text so far to its end, whether or not more comes; `flushed` waits for it."""
        self._flushes += 1
        number = self._flushes
        await self._keep({"type": "flush"})
        return number

    async def end(self) -> None:
        """No more text."""
        await self._keep({"type": "end"})

    async def played(self, samples: int) -> None:
        """Report how much has been heard: it paces the server and places a later `cancel`."""
        await self._tell({"type": "played", "samples": samples})

    async def cancel(self, played: int | None = None) -> None:
        """Stop now: no audio follows. `played`: the samples that were heard."""
        self._cancelled = True
        self._drop()
        self._stop_feeding()
        self._change()
        with suppress(SpeechError):  # no connection: nothing speaks there
            await self._tell({"type": "cancel"} | ({} if played is None else {"played": played}))

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

    async def _keep(self, message: dict[str, Any]) -> None:
        """Send what must not be lost with a connection."""
        async with self._order:
            self._notes.say(message | {"utterance": self.name})
            try:
                await self._tell(message)
            except SpeechError:
                if not self.replayable:
                    raise

    async def _tell(self, message: dict[str, Any]) -> None:
        if not (self.over or self._away):
            await self._send(message | {"utterance": self.name})

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
        self._notes.hear(message)
        match message["type"]:
            case "audio":
                self._hear(Audio.read(message))
            case "started":
                self.seed = message["seed"]
            case "flushed":
                self._flushed[message["flush"]] = message["at"]
            case "words":
                self.words += [Word(*word) for word in message["words"]]
            case "warning":
                self.warnings.append(f"{message['code']}: {message['message']}")
            case "done":
                self._done = Done.read(message)
                self._stop_feeding()
            case "error" if message["code"] in STILL_SPEAKING:
                self.warnings.append(f"{message['code']}: {message['message']}")
            case "error" if self._replays and message["code"] in FULL and self.replayable:
                self._away = True
                self._errand(self._try_again(message.get("retry_ms", PAUSE_MS) / 1000))
            case "error":
                self.fail(SpeechError.read(message))
        self._change()

    def fail(self, error: BaseException) -> None:
        if not self.over:
            self._error = error
            self._stop_feeding()
            self._change()

    def lose(self, error: SpeechError) -> None:
        """The connection is gone for good. What was cancelled has thereby ended as asked."""
        if self._cancelled and not self.over:
            self._done = Done("cancelled", self.samples)
            self._change()
        self.fail(error)

    def _hear(self, audio: Audio) -> None:
        self.samples = audio.start + audio.samples
        self._replays = 0
        if self._cancelled:
            return
        self._unread.append(audio)
        self._unread_samples += audio.samples
        if self._unread_samples > self._backlog * self.rate:
            text = f"over {self._backlog:g} s of audio lie unread: read faster, or raise backlog"
            self._errand(self._give_up(SpeechError("slow_client", text)))

    def _errand(self, errand: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(errand)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    async def _try_again(self, pause: float) -> None:
        """A server was full; unless another connection is there by then."""
        tries = self._replays
        await asyncio.sleep(pause)
        if self._away and self._replays == tries and not self.over:
            await self.replay(self._send)

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
