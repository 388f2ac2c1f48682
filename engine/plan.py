"""What one step does, as plain data: who prefills, who decodes, and what each emitting row yielded.

A row names slot *and* utterance, so output for a slot that has a new owner falls on the floor.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.messages import Speak
from engine.prompt import Row


@dataclass(frozen=True)
class Prefill:
    """A chunk of one segment's prompt. `emit`: its last row yields the segment's first frame."""

    utterance: int
    slot: int
    kv_row: int
    start: int  # position of the first row
    rows: tuple[Row, ...]
    carried: tuple[bytes, ...] = ()  # codes by Row.frame, little-endian uint16
    emit: bool = False
    draw: int = 0  # the utterance's draws so far: the RNG's counter


@dataclass(frozen=True)
class Decode:
    """One talker step: the slot's last frame plus one text token, at `position` of its KV row."""

    utterance: int
    slot: int
    kv_row: int
    position: int
    text: int
    draw: int
    barred: bool  # EOS may not be drawn yet


@dataclass(frozen=True)
class Plan:
    resets: tuple[tuple[int, Speak], ...] = ()
    prefills: tuple[Prefill, ...] = ()
    decodes: tuple[Decode, ...] = ()

    @property
    def emitting(self) -> tuple[Decode | Prefill, ...]:
        """The rows that yield something, in the order of the output."""
        return self.decodes + tuple(p for p in self.prefills if p.emit)

    def __bool__(self) -> bool:
        return bool(self.resets or self.prefills or self.decodes)


@dataclass(frozen=True)
class Made:
    """What one emitting row yielded. `ended`: the talker drew EOS, there is no frame."""

    ended: bool
    codes: bytes
    pcm: bytes
    level: float  # RMS of the frame, full scale 1
