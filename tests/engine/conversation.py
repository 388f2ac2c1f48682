"""Drives the pure scheduler: a clock, and a talker that speaks segments for their length."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.config import ModelConfig
from engine.engine import sentences
from engine.guards import FRAMES_PER_SECOND
from engine.means import Means
from engine.messages import Audio, Command, End, Event, Failed, Segment, Speak, Text
from engine.plan import Decode, Made, Plan
from engine.scheduler import Scheduler
from engine.segments import SegmentPolicy
from engine.text import speech_seconds
from engine.tokenizer import Tokenizer
from tests.engine.tiny import TOKENIZER, read_config

FRAME = 1 / FRAMES_PER_SECOND


def tiny_config() -> ModelConfig:
    with tempfile.TemporaryDirectory() as folder:
        return read_config(Path(folder))


def means(**changes: object) -> Means:
    tokenizer = Tokenizer.load(TOKENIZER)
    values: dict[str, object] = {
        "config": tiny_config(),
        "encode": tokenizer.encode,
        "pretokens": tokenizer.pretokens,
        "split": sentences,
        "policy": SegmentPolicy(),
        "positions": 2048,
        "chunk": 16,
        "max_frames": 8192,
        "max_lead": 1e9,
        "rate": 24000,
    }
    return Means(**(values | changes))  # type: ignore[arg-type]


@dataclass
class Conversation:
    """`step`: seconds one engine step takes. `says`: commands by time, sorted."""

    says: list[tuple[float, Command]]
    step: float = 0.02
    slots: int = 4
    queue: int = 4
    shared: Means = field(default_factory=means)
    endless: bool = False  # the talker never draws EOS
    level: float = 0.1
    mistakes: bool = False  # utterances may fail as `internal`
    events: list[tuple[float, Event]] = field(default_factory=list)
    plans: list[tuple[float, Plan]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.scheduler = Scheduler(self.shared, self.slots, self.queue)
        self.texts: dict[int, str] = {}
        self._spoken: dict[int, int] = {}  # frames of the current segment, by utterance
        self._made = 0

    def run(self, seconds: float) -> Conversation:
        now, says = 0.0, list(self.says)
        while now < seconds:
            while says and says[0][0] <= now:
                self._say(says.pop(0)[1], now)
            plan = self.scheduler.plan(now)
            self._note(now)
            if plan.prefills or plan.decodes:
                self.plans.append((now, plan))
                now += self.step
                self.scheduler.commit(plan, [self._make(row) for row in plan.emitting], now)
                self._note(now)
            else:
                now += 0.005
        return self

    def of(self, kind: type, utterance: int = 1) -> list[tuple[float, Event]]:
        return [(t, e) for t, e in self.events if isinstance(e, kind) and e.utterance == utterance]

    def segments(self, utterance: int = 1) -> list[str]:
        """The text of each segment, as last reported."""
        ends = {e.index: (e.first, e.last) for _, e in self.of(Segment, utterance)}
        return [self.texts[utterance].strip()[a:b] for a, b in ends.values()]

    def gaps(self, utterance: int = 1) -> list[float]:
        """Seconds each frame came too late for a listener who starts at the first one."""
        late, buffered_until = [], None
        for t, _ in self.of(Audio, utterance):
            if buffered_until is not None and t > buffered_until + 1e-9:
                late.append(t - buffered_until)
            buffered_until = max(t, buffered_until or t) + FRAME
        return late

    def _say(self, command: Command, now: float) -> None:
        if isinstance(command, Speak | Text):
            known = self.texts.get(command.utterance, "")
            self.texts[command.utterance] = known + command.text
        self.scheduler.handle(command, now)
        self._note(now)

    def _note(self, now: float) -> None:
        events = self.scheduler.events()
        wrong = [e for e in events if isinstance(e, Failed) and e.code == "internal"]
        assert self.mistakes or not wrong, wrong
        self.events += [(now, e) for e in events]

    def _make(self, row: object) -> Made:
        assert hasattr(row, "utterance")
        utterance = row.utterance
        if not isinstance(row, Decode):
            self._spoken[utterance] = 0
        natural = None if self.endless else self._length(utterance)
        if natural is not None and self._spoken[utterance] >= natural:
            if isinstance(row, Decode) and not row.barred:
                return Made(True, b"", b"", 0.0)
        self._spoken[utterance] += 1
        self._made += 1
        codes = getattr(row, "forced", b"") or (self._made % 64).to_bytes(2, "little") * 4
        return Made(False, codes, b"pcm", self.level)

    def _length(self, utterance: int) -> int | None:
        """Natural frames of the segment that speaks; None while its end is open."""
        told = [e for _, e in self.of(Segment, utterance) if isinstance(e, Segment)]
        last = [e for e in told if e.frame >= 0][-1]
        if last.end < 0:
            return None
        text = self.scheduler._running[utterance]._text.between(last.first, last.last)
        return round(speech_seconds(text) * FRAMES_PER_SECOND)


def typed(
    text: str, seconds_a_word: float, utterance: int = 1, at: float = 0.0
) -> list[tuple[float, Command]]:
    """Words as a language model sends them: with the space in front."""
    words = text.split(" ")
    deltas: Sequence[str] = [words[0], *(" " + w for w in words[1:])]
    return [(at + i * seconds_a_word, Text(utterance, d)) for i, d in enumerate(deltas)]


def spoken(text: str, seconds_a_word: float, **speak: object) -> list[tuple[float, Command]]:
    """A whole utterance, ended with its last word."""
    says = typed(text, seconds_a_word)
    return [(0.0, Speak(1, "a voice", 7, **speak)), *says, (says[-1][0], End(1))]  # type: ignore[arg-type]
