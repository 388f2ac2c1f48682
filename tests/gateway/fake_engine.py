"""An engine process without a model: sine PCM over the real socket and the real messages.

`python -m tests.gateway.fake_engine --socket PATH`. It keeps the engine's manners: a slot per
utterance, a queue, text eaten as it speaks, starved utterances absent, hold, cancel without a
handshake, lead for live ones. Words in the text steer it: `#crash` ends the process, `#fail` fails
the utterance, `#loop` ends with guard_loop, `#mute` is silence.
"""

from __future__ import annotations

import argparse
import array
import asyncio
import math
import os
import signal
import sys
import time
from dataclasses import dataclass, field

from engine import messages as engine

RATE, FRAME = 24_000, 1_920
STATUS = 0.1  # seconds between load reports; the real one takes 1
WORDS_PER_FRAME = 1 / 3  # speech takes about four words a second
LANGUAGES = ["english", "german", "french", "japanese"]


def sine(frame: int, frequency: float) -> bytes:
    step = 2 * math.pi * frequency / RATE
    start = frame * FRAME
    samples = (int(8000 * math.sin(step * (start + i))) for i in range(FRAME))
    return array.array("h", samples).tobytes()


PCM = [
    sine(i, 250.0) for i in range(8)
]  # 250 Hz has whole periods in a frame: any frame follows any other
SILENCE = bytes(2 * FRAME)


@dataclass
class Voice:
    speak: engine.Speak
    text: str
    ended: bool
    arrived: float
    flushes: list[int] = field(default_factory=list)
    frames: int = 0
    spoken: int = 0  # frames' worth of text said
    held: bool = False
    since: float = 0.0
    played: float = -1.0
    text_wait: float = 0.0

    @property
    def due(self) -> int:
        """Frames that the text so far takes."""
        whole = self.text if self.ended or self.flushes else self.text.rpartition(" ")[0]
        return math.ceil(len(whole.split()) / WORDS_PER_FRAME)


class FakeEngine:
    def __init__(self, writer: asyncio.StreamWriter, slots: int, step: float) -> None:
        self.writer = writer
        self.slots = slots
        self.step_seconds = step
        self.running: dict[int, Voice] = {}
        self.waiting: dict[int, Voice] = {}
        self.out: list[engine.Message] = []
        self.steps = 0
        self.frames = 0
        self.wake = asyncio.Event()
        self.asked = False
        self.reported = 0.0

    def ready(self) -> engine.Ready:
        return engine.Ready(
            model="fake", kind="voice_design", languages=LANGUAGES, speakers=[], rate=RATE,
            frame_samples=FRAME, codebooks=16, slots=self.slots, max_frames=8192, device="cpu",
            talker=engine.Sampling(), predictor=engine.Sampling(repetition_penalty=1.0),
        )  # fmt: skip

    def handle(self, command: engine.Message) -> None:
        now = time.monotonic()
        self.asked = True
        if isinstance(command, engine.Speak):
            voice = Voice(command, command.text, command.ended, now)
            if resume := command.resume:
                voice.text = "".join(s for s in resume.said if isinstance(s, str))
                voice.ended = engine.ENDED in resume.said
                numbers = [n for n in resume.said if isinstance(n, int)]
                voice.flushes = [n for n in numbers if n > resume.answered]
                voice.frames = voice.spoken = len(resume.codes) // 32
            self.waiting[command.utterance] = voice
            return
        voice_or_none = self.running.get(command.utterance) or self.waiting.get(command.utterance)  # type: ignore[union-attr]
        if voice_or_none is None:
            return
        voice = voice_or_none
        match command:
            case engine.Text(_, text):
                voice.text += text
            case engine.End():
                voice.ended = True
            case engine.Flush(_, flush):
                voice.flushes.append(flush)
            case engine.Cancel(ident):
                self.running.pop(ident, None)
                self.waiting.pop(ident, None)
                self.out.append(engine.Finished(ident, "cancelled", voice.frames, 1, 0.0, 0.0))
            case engine.Hold():
                voice.held = True
            case engine.Release():
                voice.held = False
            case engine.Played(_, samples):
                voice.played = samples / RATE

    def step(self) -> bool:
        """One frame for everyone who may run; returns whether anyone did."""
        now = time.monotonic()
        while self.waiting and len(self.running) < self.slots:
            ident = next(iter(self.waiting))
            voice = self.running[ident] = self.waiting.pop(ident)
            voice.since = now
            self.out.append(engine.Started(ident, voice.speak.seed, now - voice.arrived))
            self.out.append(engine.Segment(ident, 0, 0, -1, "stream", 0))
        ran = [self._frame(ident, voice, now) for ident, voice in list(self.running.items())]
        self.steps += 1
        return any(ran)

    def _frame(self, ident: int, voice: Voice, now: float) -> bool:
        if "#crash" in voice.text:
            os._exit(9)
        if "#fail" in voice.text:
            return self._end(ident, engine.Failed(ident, "internal", "asked to fail"))
        limit = voice.speak.max_frames or 8192
        if voice.frames >= limit or "#loop" in voice.text:
            reason = "length" if voice.frames >= limit else "guard_loop"
            return self._end(
                ident, engine.Finished(ident, reason, voice.frames, 1, voice.text_wait, 0.0)
            )
        if voice.spoken >= voice.due:
            for flush in voice.flushes:
                self.out.append(engine.Flushed(ident, flush, voice.frames))
            voice.flushes.clear()
            if voice.ended:
                reason = "eos" if voice.frames else "empty"
                segments = 1 if voice.frames else 0
                end = engine.Finished(ident, reason, voice.frames, segments, voice.text_wait, 0.0)
                return self._end(ident, end)
            voice.text_wait += self.step_seconds
            return False
        lead = voice.frames * FRAME / RATE - (
            voice.played if voice.played >= 0 else now - voice.since
        )
        if voice.held or (voice.speak.live and lead > 2.0):
            return False
        pcm = SILENCE if "#mute" in voice.text else PCM[voice.frames % len(PCM)]
        codes = voice.frames.to_bytes(2, "little") * 16
        self.out.append(engine.Audio(ident, voice.frames, pcm, codes))
        words = voice.text.split(" ")
        fed = min(
            len(voice.text),
            len(" ".join(words[: round((voice.spoken + 1) * WORDS_PER_FRAME + 0.5)])),
        )
        self.out.append(engine.Progress(ident, fed, voice.frames))
        voice.frames += 1
        voice.spoken += 1
        self.frames += 1
        return True

    def _end(self, ident: int, event: engine.Message) -> bool:
        del self.running[ident]
        self.out.append(event)
        return True

    async def speak(self) -> None:
        """Step at the given pace while there is someone to run, else wait for commands."""
        while True:
            begun = time.monotonic()
            ran = self.step()
            due = (self.running or self.waiting) and begun - self.reported >= STATUS
            if self.out or self.asked or due:
                self.asked, self.reported = False, begun
                load = (len(self.running), len(self.waiting), self.slots, 0, self.step_seconds)
                self.out.append(engine.Status(*load, self.steps, self.frames))
                batch, self.out = self.out, []
                self.writer.write(engine.pack(batch))
                await self.writer.drain()
            if ran:
                await asyncio.sleep(max(0.0, self.step_seconds - (time.monotonic() - begun)))
            else:
                self.wake.clear()
                try:
                    busy = self.running or self.waiting
                    await asyncio.wait_for(self.wake.wait(), 0.02 if busy else None)
                except TimeoutError:
                    pass


async def run(path: str, slots: int, step: float) -> None:
    reader, writer = await asyncio.open_unix_connection(path)
    fake = FakeEngine(writer, slots, step)
    writer.write(engine.pack([fake.ready()]))
    steps = asyncio.create_task(fake.speak())
    try:
        while True:
            size = int.from_bytes(await reader.readexactly(engine.HEADER), "big")
            for command in engine.unpack(await reader.readexactly(size)):
                fake.handle(command)
            fake.wake.set()
    except (asyncio.IncompleteReadError, ConnectionError):
        steps.cancel()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket", required=True)
    parser.add_argument("--model", default="")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--queue", type=int, default=64)
    parser.add_argument("--step", type=float, default=0.002)
    options = parser.parse_args()
    if options.model == "missing":
        sys.stderr.write("there is no checkpoint at missing\n")
        raise SystemExit(2)
    if options.model == "silent":
        signal.pause()
    asyncio.run(run(options.socket, options.slots, options.step))


if __name__ == "__main__":
    main()
