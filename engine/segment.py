"""One prefill-to-EOS run of the talker: its text, its prompt rows, how far it is. No clock, no
tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.guards import Guard
from engine.plan import Prefill
from engine.prompt import Row


@dataclass
class Segment:
    """`start`, `end`: offsets in the utterance's text; `end` None while the stream layout is open.

    `carried`: codes of the frames that stand behind the base rows; it grows while the carried
    segment still speaks.
    """

    index: int
    start: int
    end: int | None
    layout: str
    kv_row: int
    base: list[Row]
    carried: Sequence[bytes] = ()
    past: int = 0  # segments whose frames those are
    draw: int = 0  # the utterance's draws when it begins
    ids: list[int] = field(default_factory=list)  # stream: tokenised, not yet fed
    tokenised: int = 0  # offset up to which ids were made
    eos_fed: bool = False
    prefilled: int = 0  # rows that are in the KV cache
    draws: int = 0
    frames: int = 0
    guard: Guard = field(default_factory=Guard)

    @property
    def length(self) -> int:
        """Rows of the prompt as known now."""
        return len(self.base) + len(self.carried)

    @property
    def position(self) -> int:
        """Where the next decode step writes: behind the prompt, one position a draw after the
        first.
        """
        return self.prefilled + self.draws - 1

    @property
    def fed(self) -> bool:
        """All of the text is with the talker."""
        return self.layout == "full" or self.eos_fed

    def chunks(
        self, utterance: int, slot: int, chunk: int, pad: int, last: bool, forced: bytes = b""
    ) -> list[Prefill]:
        """Prefill that is due: one whole chunk, or with `last` all the rest, whose end yields a
        frame, `forced` where its codes are known.

        Chunk borders depend on positions only: a segment prefilled early has the numbers of one
        prefilled at once.
        """
        due: list[Prefill] = []
        while self.prefilled < self.length:
            start, end = self.prefilled, min(self.length, self.prefilled + chunk)
            emit = end == self.length
            if not last and (emit or due):
                break
            n = len(self.base)
            frames = range(max(start, n) - n, max(end, n) - n)
            rows = (*self.base[start:end], *(Row(text=pad, frame=i) for i in range(len(frames))))
            carried = tuple(self.carried[frames.start : frames.stop])
            known = forced if emit else b""
            due.append(
                Prefill(utterance, slot, self.kv_row, start, rows, carried, emit, self.draw, known)
            )
            self.prefilled = end
        return due
