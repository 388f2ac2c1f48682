"""What an utterance has decided and said, as plain data: enough for another engine to go on with it
sample for sample. Pure.

Text is counted twice: `start`, `end` and `chars` in the characters that were sent to the engine,
`first`, `last` and `offset` in those of the stable text that it makes of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SETTLED, ENDED = 0, -1  # among what was said, beside the flushes' own numbers


@dataclass(frozen=True)
class Segment:
    """text[start:end] is segment `index`. It is told when its text is fixed (`frame` -1: another
    still speaks), when it begins at `frame`, and when its end is known.
    """

    utterance: int
    index: int
    start: int
    end: int  # -1: still open (stream layout); a later event closes it
    layout: str
    frame: int
    draw: int = 0  # of the utterance before the segment's own: the random numbers' counter
    carried: int = 0  # segments before it that its prompt carries, the one that speaks included
    first: int = 0
    last: int = -1
    text: str = ""  # stable, once its end is known
    stop: str = ""  # the guard that has ended a segment, this one or one before it


@dataclass(frozen=True)
class Tokens:
    """An open segment's text up to `offset` has become `ids`, fed one a frame."""

    utterance: int
    segment: int
    offset: int
    ids: Sequence[int]


@dataclass(frozen=True)
class Settled:
    """Time, not text, has made all up to `chars` final: what follows begins a new word."""

    utterance: int
    chars: int


@dataclass(frozen=True)
class Voice:
    """What an utterance leaves to one that continues it: its last whole segment."""

    text: str
    codes: bytes


@dataclass(frozen=True)
class Resume:
    """An utterance up to its last frame. Without `segments` there are text and codes alone: where
    segments end is then found by drawing again.
    """

    said: Sequence[str | int] = ()  # text, and between it flushes by number, SETTLED, ENDED
    codes: bytes = b""  # all frames'
    segments: Sequence[Segment] = ()  # by index
    ids: Sequence[int] = ()  # all that became of the last begun segment's text, while it was open
    offset: int = 0  # of the text up to which they reach
    answered: int = 0  # flushes up to this number
    chars: int = 0  # told by Progress


def resume_of(values: Sequence[object]) -> Resume:
    """The reverse of `astuple`. Raises TypeError."""
    resume = Resume(*values)  # type: ignore[arg-type]
    segments = [Segment(*s) for s in resume.segments]  # type: ignore[misc]
    return Resume(resume.said, resume.codes, segments, *values[3:])  # type: ignore[arg-type]
