"""One utterance as the client sees it: its state, its timeline, its facts for `done`. PURE."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import ceil
from typing import Any

from engine import messages as engine

from .audio import encode, first_audible
from .capabilities import FRAME_RATE, Capabilities
from .errors import Refusal
from .protocol import Speak


class State(Enum):
    WAITING = "waiting"  # for a slot; text may come
    SEALED = "waiting, its text has ended"
    OPEN = "open"  # speaking or about to; text may come
    DRAINING = "draining"  # text ended, audio coming


# What moves an utterance, and where to. A move that is not here is the client's mistake; cancel, a
# finish and a failure are legal everywhere and end it.
MOVES: dict[State, dict[str, State]] = {
    State.WAITING: {
        "text": State.WAITING,
        "flush": State.WAITING,
        "end": State.SEALED,
        "started": State.OPEN,
    },
    State.SEALED: {"started": State.DRAINING},
    State.OPEN: {"text": State.OPEN, "flush": State.OPEN, "end": State.DRAINING},
    State.DRAINING: {},
}


@dataclass(slots=True)
class Utterance:
    name: str
    id: int  # the engine's
    seed: int
    rate: int
    frame_samples: int
    encoding: str
    progress: bool
    journal: bool
    opened_at: float
    state: State = State.WAITING
    ended: bool = False  # by the client
    text_seq: int = 0  # the next text message's, where the client counts
    text_bytes: int = 0
    text_chars: int = 0
    fed_chars: int = 0
    first_text_at: float = -1.0
    last_text_at: float = 0.0
    flushes: int = 0
    started_at: float = -1.0
    first_audio_at: float = -1.0
    last_audio_at: float = -1.0
    audible_at: float = -1.0
    frames: int = 0
    seq: int = 0
    samples: int = 0
    played: int = -1
    segments: int = 0
    timed_out: bool = False

    @property
    def pending_chars(self) -> int:
        return self.text_chars - self.fed_chars

    def hear(self, text: str, seq: int | None, limit: int, now: float) -> None:
        """Count a text delta in. `seq` is the client's count, None where it keeps none."""
        if seq is not None and seq != self.text_seq:
            said = f"text.seq is {seq} where {self.text_seq} was due"
            raise Refusal("bad_message", said, field="text.seq", utterance=self.name)
        self.text_seq += 1
        if not text:
            return
        self.text_bytes += len(text.encode())
        if self.text_bytes > limit:
            said = f"the utterance's text is over utterance_text_bytes ({limit})"
            which = "utterance_text_bytes"
            raise Refusal("too_large", said, limit=which, utterance=self.name)
        self.text_chars += len(text)
        self.last_text_at = now
        if self.first_text_at < 0:
            self.first_text_at = now

    def tell(self, event: engine.Event, now: float) -> dict[str, Any] | None:
        """Take in an event of the running utterance; returns the message it becomes, if any."""
        match event:
            case engine.Audio():
                return self.audio(event, now)
            case engine.Started(_, seed, queue):
                self.state = MOVES[self.state]["started"]
                self.started_at = self.last_text_at = now
                return {
                    "type": "started",
                    "utterance": self.name,
                    "seed": seed,
                    "queue_ms": round(queue * 1000, 3),
                }
            case engine.Progress(_, chars, frame):
                self.fed_chars = chars
                at = frame * self.frame_samples
                told = {"type": "progress", "utterance": self.name, "chars": chars, "at": at}
                return told if self.progress else None
            case engine.Flushed(_, flush, frame):
                at = frame * self.frame_samples
                return {"type": "flushed", "utterance": self.name, "flush": flush, "at": at}
            case engine.Segment():
                self.segments = event.index + 1
        return None

    def audio(self, event: engine.Audio, now: float) -> dict[str, Any]:
        """The `audio` message of one frame; frames come in order, each once."""
        assert event.frame == self.frames, f"frame {event.frame} where {self.frames} was due"
        pcm = event.pcm
        count = len(pcm) >> 1
        if self.audible_at < 0:
            self._listen(pcm, now)
        message = {
            "type": "audio",
            "utterance": self.name,
            "seq": self.seq,
            "start": self.samples,
            "samples": count,
            "pcm": pcm if self.encoding == "pcm_s16le" else encode(pcm, self.encoding),
        }
        if self.journal:
            message["codes"] = event.codes
        self.frames += 1
        self.seq += 1
        self.samples += count
        self.last_audio_at = now
        return message

    def done(self, reason: str, finished: engine.Finished | None) -> dict[str, Any]:
        """The `done` message; `finished` is the engine's account, None when we ended it."""
        origin = self.first_text_at if self.first_text_at >= 0 else self.opened_at
        length = self.samples / self.rate
        return {
            "type": "done",
            "utterance": self.name,
            "reason": reason,
            "samples": self.samples,
            "segments": finished.segments if finished else self.segments,
            "ttfa_ms": _ms(origin, self.first_audio_at) if length else None,
            "audible_ms": _ms(origin, self.audible_at) if length else None,
            "rtf": round((self.last_audio_at - self.started_at) / length, 4) if length else None,
            "text_wait_ms": round(finished.text_wait * 1000, 3) if finished else None,
            "engine_wait_ms": round(finished.engine_wait * 1000, 3) if finished else None,
        }

    def _listen(self, pcm: bytes, now: float) -> None:
        """Note when a player that never stops since the first audio sounds an audible sample."""
        if self.first_audio_at < 0:
            self.first_audio_at = now
        offset = first_audible(pcm)
        if offset >= 0:
            played_at = self.first_audio_at + self.samples / self.rate
            self.audible_at = max(played_at, now) + offset / self.rate


def _ms(since: float, until: float) -> float | None:
    return round((until - since) * 1000, 3) if until >= 0 else None


def opened(
    message: Speak, served: Capabilities, ident: int, seed: int, continues: int, now: float
) -> tuple[Utterance, engine.Speak]:
    """A new utterance and the command that tells the engine of it."""
    utterance = Utterance(
        name=message.utterance,
        id=ident,
        seed=seed,
        rate=served.rate,
        frame_samples=served.frame_samples,
        encoding=message.format or "pcm_s16le",
        progress=message.progress,
        journal=message.journal,
        opened_at=now,
        state=State.SEALED if message.end else State.WAITING,
        ended=message.end,
    )
    utterance.hear(message.text, None, served.limits.utterance_text_bytes, now)
    utterance.text_seq = 0  # counts text messages; the text of speak is none
    sampling = message.sampling
    return utterance, engine.Speak(
        utterance=ident,
        instruct=message.voice.instruct,
        seed=seed,
        text=message.text,
        ended=message.end,
        speaker=message.voice.speaker,
        language=message.language,
        talker=sampling.talker if sampling else served.talker,
        predictor=sampling.predictor if sampling else served.predictor,
        layout=message.layout,
        carry=message.carry,
        max_frames=ceil((message.max_seconds or served.seconds) * FRAME_RATE),
        live=message.pace == "live",
        continues=continues,
    )
