"""What a later segment's prompt carries of the same voice: text and codes of the segments before it
(model.md 4, ICL).

Only whole segments are carried: only there do text and codes belong together exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import overload

from engine.guards import FRAMES_PER_SECOND
from engine.text import speech_seconds


@dataclass(frozen=True)
class Spoken:
    """A segment that has been said."""

    text: str
    codes: tuple[bytes, ...]


@dataclass(frozen=True)
class Speaking:
    """The segment that still speaks: its frames are `codes` from `first` on, and grow."""

    text: str
    codes: list[bytes]
    first: int

    @property
    def expected(self) -> int:
        """Frames it will have made, roughly."""
        made = len(self.codes) - self.first
        return max(made, ceil(speech_seconds(self.text) * FRAMES_PER_SECOND))


@dataclass(frozen=True)
class Carry:
    text: str
    codes: Sequence[bytes]
    expected: int  # frames once the speaking segment has ended
    segments: int


def carry(spoken: list[Spoken], speaking: Speaking | None, seconds: float) -> Carry | None:
    """The last segment whole, and earlier ones while all fit `seconds`. None: there is nothing to
    carry.
    """
    taken: list[Spoken] = []
    frames = speaking.expected if speaking else 0
    for past in reversed(spoken):
        if (taken or speaking) and frames + len(past.codes) > seconds * FRAMES_PER_SECOND:
            break
        taken.insert(0, past)
        frames += len(past.codes)
    return joined(taken, speaking)


def joined(taken: Sequence[Spoken], speaking: Speaking | None) -> Carry | None:
    """These segments, and the one that speaks. None: there are none."""
    frames = sum(len(past.codes) for past in taken) + (speaking.expected if speaking else 0)
    before = tuple(code for past in taken for code in past.codes)
    text = "".join(past.text for past in taken)
    if speaking:
        tail = Tail(before, speaking.codes, speaking.first)
        return Carry(text + speaking.text, tail, frames, len(taken) + 1)
    return Carry(text, before, frames, len(taken)) if taken else None


class Tail(Sequence[bytes]):
    """Frames `before`, then those of `codes` from `first` on."""

    def __init__(self, before: tuple[bytes, ...], codes: list[bytes], first: int) -> None:
        self._before, self._codes, self._first = before, codes, first

    def __len__(self) -> int:
        return len(self._before) + len(self._codes) - self._first

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | Sequence[bytes]:
        return (*self._before, *self._codes[self._first :])[index]
