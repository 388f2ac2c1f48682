"""What one step does, as plain data: who prefills, who decodes, and what each emitting row yielded.

A row names slot *and* utterance, so output for a slot that has a new owner falls on the floor.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.config import ModelConfig
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
    forced: bytes = b""  # the frame's codes where they are known already


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
    forced: bytes = b""  # the frame's codes where they are known already


@dataclass(frozen=True)
class Echo:
    """Frames said before, for the codec alone: it must remember them."""

    utterance: int
    slot: int
    codes: tuple[bytes, ...]


StepRow = Prefill | Decode | Echo


@dataclass(frozen=True)
class Reset:
    """The slot begins an utterance; its codec at frame `frame`."""

    slot: int
    speak: Speak
    frame: int = 0


@dataclass(frozen=True)
class Plan:
    resets: tuple[Reset, ...] = ()
    prefills: tuple[Prefill, ...] = ()
    decodes: tuple[Decode, ...] = ()
    echoes: tuple[Echo, ...] = ()

    @property
    def emitting(self) -> tuple[Decode | Prefill, ...]:
        """The rows that yield something, in the order of the output."""
        return self.decodes + tuple(p for p in self.prefills if p.emit)

    @property
    def runs(self) -> bool:
        return bool(self.prefills or self.decodes or self.echoes)

    def __bool__(self) -> bool:
        return bool(self.resets) or self.runs


@dataclass(frozen=True)
class Made:
    """What one emitting row yielded. `ended`: the talker drew EOS, there is no frame."""

    ended: bool
    codes: bytes
    pcm: bytes
    level: float  # RMS of the frame, full scale 1
    levels: bytes = b""  # as in Audio


def check(row: StepRow, config: ModelConfig, positions: int) -> None:
    """A row fits the tensors that it indexes. Raises ValueError."""
    if isinstance(row, Echo):
        return  # its codes were looked at when the utterance came
    codecs: list[int] = []
    if isinstance(row, Decode):
        texts, start = [row.text], row.position
    else:
        texts, codecs, start = [r.text for r in row.rows], [r.codec for r in row.rows], row.start
        if len(row.carried) != sum(r.frame >= 0 for r in row.rows):
            raise ValueError("carried frames without codes")
    if not 0 <= start <= positions - len(texts):
        raise ValueError(f"{len(texts)} rows at position {start} of {positions}")
    talker = config.talker
    for ids, size in ((texts, talker.text_vocab_size), (codecs, talker.vocab_size)):
        if ids and not -1 <= min(ids) <= max(ids) < size:
            raise ValueError(f"an id outside of {size}")
