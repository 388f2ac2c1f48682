"""One utterance as the client sees it: its state, its timeline, its facts for `done`. PURE."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from engine import messages as engine

from .audio import first_audible
from .encoder import Encoder, Piece, encoder
from .errors import Refusal
from .formats import Format
from .heard import STEPS, Heard
from .line import Queued
from .records import Continued, journal, record
from .script import Script
from .states import MOVES, State

Event = engine.Event | Queued | Continued

WORDS_EVERY = 5  # frames between two looks for words to tell
CUT = (
    "cancelled",
    "error",
    "length",
    "guard_silence",
    "guard_loop",
)  # reasons that leave text unsaid


@dataclass(slots=True)
class Utterance:
    name: str
    id: int  # the engine's
    seed: int
    rate: int  # the model's: `frame_samples` and everything the engine says count in it
    frame_samples: int
    format: Format  # the client's: `samples`, `played` and every position on the wire count in it
    progress: bool
    journal: bool
    opened_at: float
    script: Script = field(default_factory=Script)
    state: State = State.WAITING
    ended: bool = False  # no more text comes
    text_seq: int = 0  # the next text message's, where the client counts
    text_bytes: int = 0
    text_chars: int = 0
    fed_chars: int = 0  # of the pushed text
    first_text_at: float = -1.0
    last_text_at: float = 0.0
    fed_at: float = 0.0  # or the last text let in
    stuck: bool = False  # none of its text is being fed
    flushes: int = 0
    started_at: float = -1.0
    first_audio_at: float = -1.0
    last_audio_at: float = -1.0
    audible: int = -1  # the first audible sample, at the client's rate
    audible_at: float = -1.0
    frames: int = 0
    seq: int = 0
    samples: int = 0
    played: int = -1
    segments: int = 0
    timed_out: bool = False
    words: bool = False  # are to be told
    resumed: int = 0  # samples that the client had before
    decisions: bytearray = field(default_factory=bytearray)  # records behind the last audio
    heard: Heard = field(init=False)
    encoder: Encoder = field(init=False)

    def __post_init__(self) -> None:
        self.heard = Heard(lambda: self.script.pushed)
        self.encoder = encoder(self.format, self.rate)

    @property
    def pending_chars(self) -> int:
        """The client's characters that are to be said and not fed yet."""
        return self.text_chars - self.script.origin(self.fed_chars)

    def to_wire(self, samples: int) -> int:
        """A position at the model's rate, as one at the client's; exact at frame borders."""
        return samples * self.format.rate // self.rate

    def from_wire(self, samples: int) -> int:
        """A position at the client's rate, as one at the model's: never a later one."""
        return samples * self.rate // self.format.rate

    def steps(self, samples: int) -> int:
        """A position at the model's rate, in 10 ms."""
        return samples * STEPS // self.rate

    def hear(self, text: str, seq: int | None, limit: int, now: float) -> str:
        """Take in a text delta; returns what of it goes to the engine now. `seq` is the client's
        count, None where it keeps none.
        """
        if seq is not None and seq != self.text_seq:
            said = f"text.seq is {seq} where {self.text_seq} was due"
            raise Refusal("bad_message", said, field="text.seq", utterance=self.name)
        self.text_seq += 1
        if not text:
            return ""
        self.text_bytes += len(text.encode())
        if self.text_bytes > limit:
            said = f"the utterance's text is over utterance_text_bytes ({limit})"
            which = "utterance_text_bytes"
            raise Refusal("too_large", said, limit=which, utterance=self.name)
        self.text_chars += len(text)
        self.last_text_at = now
        if not self.stuck:
            self.fed_at = now
        if self.first_text_at < 0:
            self.first_text_at = now
        return self.script.hear(text)

    def flush(self) -> list[engine.Command]:
        self.flushes += 1
        return [*self._rest(), engine.Flush(self.id, self.flushes)]

    def end(self) -> list[engine.Command]:
        self.ended = True
        return [*self._rest(), engine.End(self.id)]

    def _rest(self) -> list[engine.Command]:
        text = self.script.rest()
        return [engine.Text(self.id, text)] if text else []

    def warn(self) -> dict[str, Any] | None:
        """The `warning` that words were left out, once."""
        if not self.script.omits():
            return None
        text = "code blocks, comments or stage directions were left out; clean: off says them"
        return {"type": "warning", "code": "cleaned", "message": text, "utterance": self.name}

    def tell(self, event: Event, now: float) -> list[dict[str, Any]]:
        """Take in an event of the running utterance that is no sound; returns the messages it
        becomes.
        """
        if self.journal:
            self.decisions += record(event)
        rest = self._settle(event, now) if isinstance(event, engine.Flushed) else []
        told = self._tell(event, now)
        return [*rest, told] if told else rest

    def _tell(self, event: Event, now: float) -> dict[str, Any] | None:
        match event:
            case engine.Started(_, seed, queue):
                self.state = MOVES[self.state]["started"]
                self.started_at = self.last_text_at = now
                return {
                    "type": "started",
                    "utterance": self.name,
                    "seed": seed,
                    "queue_ms": round(queue * 1000, 3),
                }
            case Queued(_, place):
                return {"type": "queued", "utterance": self.name, "place": place}
            case engine.Progress(_, chars, frame):
                self.fed_chars = chars
                self.heard.take(event, self.steps(self.frame_samples))
                at = self.to_wire(frame * self.frame_samples)
                chars = self.script.origin(chars)
                told = {"type": "progress", "utterance": self.name, "chars": chars, "at": at}
                return told if self.progress else None
            case engine.Flushed(_, flush, frame):
                at = self.to_wire(frame * self.frame_samples)
                return {"type": "flushed", "utterance": self.name, "flush": flush, "at": at}
            case engine.Segment():
                if event.frame >= 0:
                    self.segments = event.index + 1
                self.heard.take(event, self.steps(self.frame_samples))
        return None

    def sound(self, event: engine.Audio, now: float) -> list[dict[str, Any]]:
        """Take in a frame; returns the messages it becomes."""
        decided = journal(self.name, self.decisions) if self.decisions else []
        message = self.audio(event, now)
        return [*decided, message, *self.tell_words()] if self.words or decided else [message]

    def audio(self, event: engine.Audio, now: float) -> dict[str, Any]:
        """The `audio` message of one frame; frames come in order, each once."""
        assert event.frame == self.frames, f"frame {event.frame} where {self.frames} was due"
        if self.audible < 0 and (offset := first_audible(event.pcm)) >= 0:
            self.audible = self.to_wire(self.frames * self.frame_samples + offset)
        message = self._sound(self.encoder.encode(event.pcm), now)
        if self.journal:
            message["codes"] = event.codes
        self.heard.levels += event.levels
        self.frames += 1
        self.fed_at = now
        self.stuck = False
        return message

    def _settle(self, event: engine.Flushed, now: float) -> list[dict[str, Any]]:
        """The sound that the encoder still holds of what was flushed."""
        if self.to_wire(event.frame * self.frame_samples) <= self.samples:
            return []
        return self._rest_of_sound(self.encoder.settle(), now)

    def _rest_of_sound(self, piece: Piece, now: float) -> list[dict[str, Any]]:
        return [self._sound(piece, now)] if piece.samples else []

    def _sound(self, piece: Piece, now: float) -> dict[str, Any]:
        """An `audio` message."""
        message = {
            "type": "audio",
            "utterance": self.name,
            "seq": self.seq,
            "start": self.samples,
            "samples": piece.samples,
            "pcm": piece.data,
        }
        if piece.skip:
            message["skip"] = piece.skip
        if self.first_audio_at < 0:
            self.first_audio_at = now
        if self.audible_at < 0 <= self.audible < self.samples + piece.samples:
            self.audible_at = self._sounding(now)
        self.seq += 1
        self.samples += piece.samples
        self.last_audio_at = now
        return message

    def tell_words(self, last: bool = False) -> list[dict[str, Any]]:
        """The `words` message of what has sounded since the last one; `last`: no sound follows."""
        if not self.words or not (last or self.frames % WORDS_EVERY == 0):
            return []
        here = self.steps(self.from_wire(self.samples))
        text, sample = self.script.pushed, self.rate // STEPS
        words = [
            [
                text[word.start : word.end],
                *(self.to_wire(int(step * sample)) for step in (start, end)),
                self.script.origin(word.start),
            ]
            for word, start, end in self.heard.news(here, last)
        ]
        told = {"type": "words", "utterance": self.name, "words": words, "estimated": True}
        return [told] if words else []

    def split(self, played: int | None) -> dict[str, Any]:
        """The text heard and the rest, by `played`, else by the client's reports, else by what was
        sent.
        """
        reported = self.played if self.played >= 0 else self.samples
        samples = min(reported if played is None else played, self.samples)
        at = self.heard.upto(self.steps(self.from_wire(samples)))
        heard, remaining = self.script.split(at)
        return {"heard": heard, "remaining": remaining, "estimated": True}

    def close(
        self, reason: str, finished: engine.Finished | None, now: float, played: int | None = None
    ) -> list[dict[str, Any]]:
        """The last messages, `done` behind all; `finished` is the engine's account, None when we
        ended it; `played` is what a `cancel` said.
        """
        rest = self._rest_of_sound(self.encoder.finish(), now) if finished else []
        if reason in ("eos", "text_timeout"):
            self.heard.end()
        return [*rest, *self.tell_words(last=True), self._done(reason, finished, played)]

    def _done(
        self, reason: str, finished: engine.Finished | None, played: int | None
    ) -> dict[str, Any]:
        origin = self.first_text_at if self.first_text_at >= 0 else self.opened_at
        length = (self.samples - self.resumed) / self.format.rate
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
            **(self.split(played) if reason in CUT else {}),
        }

    def _sounding(self, now: float) -> float:
        """When a player that never stops since the first audio sounds the first audible sample,
        which the message of this moment holds.
        """
        sent = self.samples - self.resumed
        played_at = self.first_audio_at + sent / self.format.rate
        return max(played_at, now) + (self.audible - self.samples) / self.format.rate


def pending_over(most: int, utterances: Collection[Utterance]) -> bool:
    """Whether more than `most` characters of them are pending."""
    if sum(u.text_chars for u in utterances) <= most:  # nearly always
        return False
    return sum(u.pending_chars for u in utterances) > most


def _ms(since: float, until: float) -> float | None:
    return round((until - since) * 1000, 3) if until >= 0 else None
