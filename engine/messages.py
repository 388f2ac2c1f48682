"""The seam between gateway and engine: commands down, events up. Knows no socket, no tensor, no
clock.

Times are seconds, positions are frames (80 ms) unless a name says samples or chars. `utterance` is
an integer the gateway draws; it never comes back for another utterance. A command has no reply but
events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any

import msgpack

from engine.history import ENDED as ENDED
from engine.history import SETTLED as SETTLED
from engine.history import Resume as Resume
from engine.history import Segment as Segment
from engine.history import Settled as Settled
from engine.history import Tokens as Tokens
from engine.history import Voice as Voice
from engine.history import resume_of

Range = tuple[float, float]  # both ends included

# What may be asked of a draw.
PREDICTOR_RANGES: dict[str, Range] = {
    "temperature": (0.01, 2.0),
    "top_k": (0, 2048),
    "top_p": (0.0, 1.0),
}
TALKER_RANGES = PREDICTOR_RANGES | {"top_k": (0, 3072), "repetition_penalty": (0.1, 2.0)}


@dataclass(frozen=True)
class Sampling:
    """How one code is drawn (model.md 5.2). `top_k` 0 and `top_p` 1 switch their stage off; `top_p`
    0 leaves the likeliest code alone.
    """

    greedy: bool = False
    temperature: float = 0.9
    top_k: int = 50
    top_p: float = 1.0
    repetition_penalty: float = 1.05

    def outside(self, ranges: Mapping[str, Range]) -> list[str]:
        """The fields that are outside of their ranges."""
        return [name for name, (a, b) in ranges.items() if not a <= getattr(self, name) <= b]


# Commands: gateway -> engine


@dataclass(frozen=True)
class Speak:
    """Open an utterance. `layout`: auto | stream | full. `carry`: context | none.

    `text` is what is known already; `ended` says that nothing follows. `voice` is an earlier
    utterance's, to go on with; the gateway, which knows it, puts it in place of `continues`.
    `resume`: the utterance goes on behind its last frame; all that was said is in there.
    """

    utterance: int
    instruct: str
    seed: int
    text: str = ""
    ended: bool = False
    speaker: str = ""
    language: str = "auto"
    talker: Sampling = Sampling()
    predictor: Sampling = Sampling()
    layout: str = "auto"
    carry: str = "context"
    max_frames: int = 0  # 0: the engine's own limit
    live: bool = True  # never more than max_lead ahead of playback
    continues: int = 0  # 0: none
    voice: Voice | None = None
    resume: Resume | None = None


@dataclass(frozen=True)
class Text:
    utterance: int
    text: str


@dataclass(frozen=True)
class Flush:
    utterance: int
    flush: int


@dataclass(frozen=True)
class End:
    utterance: int


@dataclass(frozen=True)
class Cancel:
    utterance: int


@dataclass(frozen=True)
class Hold:
    """The client drains too slowly: keep the utterance out of the plan until Release."""

    utterance: int


@dataclass(frozen=True)
class Release:
    utterance: int


@dataclass(frozen=True)
class Played:
    utterance: int
    samples: int


# Events: engine -> gateway


@dataclass(frozen=True)
class Ready:
    """One real frame has run through the whole pipeline."""

    model: str
    kind: str  # voice_design | custom_voice
    languages: list[str]
    speakers: list[str]
    rate: int
    frame_samples: int
    codebooks: int
    slots: int
    max_frames: int
    device: str
    talker: Sampling
    predictor: Sampling
    spell_numbers: bool = False  # text must come with its numbers as English words


@dataclass(frozen=True)
class Started:
    """The utterance has a slot. `queue`: seconds it waited for one."""

    utterance: int
    seed: int
    queue: float


@dataclass(frozen=True)
class Audio:
    """One frame: s16le PCM of `frame_samples` samples, its codes as little-endian uint16.
    `levels`: one byte a 10 ms, dB of its RMS over full scale, plus 100.
    """

    utterance: int
    frame: int
    pcm: bytes
    codes: bytes
    levels: bytes = b""


@dataclass(frozen=True)
class Progress:
    """Text up to `chars` has been fed when frame `frame` was made."""

    utterance: int
    chars: int
    frame: int


@dataclass(frozen=True)
class Flushed:
    utterance: int
    flush: int
    frame: int


@dataclass(frozen=True)
class Finished:
    """`reason`: eos | empty | cancelled | length | guard_silence | guard_loop."""

    utterance: int
    reason: str
    frames: int
    segments: int
    text_wait: float  # no text: the client's
    engine_wait: float  # no place in a step: ours


@dataclass(frozen=True)
class Failed:
    """The utterance is gone. `code` is one of the wire protocol's error codes."""

    utterance: int
    code: str
    message: str


@dataclass(frozen=True)
class Status:
    """The engine's load, once a second and at each change of `running` or `waiting`."""

    running: int
    waiting: int
    slots: int
    starved: int
    step: float  # seconds of the last step
    steps: int
    frames: int


Command = Speak | Text | Flush | End | Cancel | Hold | Release | Played
Event = (
    Ready
    | Started
    | Segment
    | Tokens
    | Settled
    | Audio
    | Progress
    | Flushed
    | Finished
    | Failed
    | Status
)
Message = Command | Event

_TYPES: dict[str, type[Any]] = {
    t.__name__: t
    for t in (
        *(Speak, Text, Flush, End, Cancel, Hold, Release, Played),
        *(Ready, Started, Segment, Tokens, Settled, Audio, Progress, Flushed, Finished, Failed),
        Status,
    )
}
_KINDS: dict[str, Callable[[Any], Any]] = {
    "Sampling": lambda v: Sampling(*v),
    "Voice | None": lambda v: v and Voice(*v),
    "Resume | None": lambda v: v and resume_of(v),
}
_FIELDS = {name: tuple(f.name for f in fields(t)) for name, t in _TYPES.items()}
_NESTED = {
    name: [(f.name, _KINDS[str(f.type)]) for f in fields(t) if f.type in _KINDS]
    for name, t in _TYPES.items()
}

HEADER = 4  # bytes of big-endian length before each packed batch
MAX_BATCH = 64 << 20


def pack(messages: Sequence[Message]) -> bytes:
    """One framed batch: length, then msgpack [[name, field, ...], ...]."""
    body: bytes = msgpack.packb(
        [[type(m).__name__, *vars(m).values()] for m in messages], default=astuple
    )
    return len(body).to_bytes(HEADER, "big") + body


def unpack(body: bytes) -> list[Message]:
    """The batch's messages, without its length header. Raises ValueError on anything `pack` does
    not write.
    """
    batch = msgpack.unpackb(body)
    try:
        return [_build(*entry) for entry in batch]
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a batch of engine messages: {error}") from error


def _build(name: str, *values: Any) -> Message:
    """A frozen class's own `__init__` takes three times as long, and this runs for each frame."""
    cls = _TYPES[name]
    message: Message = object.__new__(cls)
    entries = message.__dict__
    entries.update(zip(_FIELDS[name], values, strict=True))
    for field, build in _NESTED[name]:
        entries[field] = build(entries[field])
    return message
