"""What of an utterance's text was heard up to a moment, and when each word sounds. PURE.

Built from what the engine reports alone: segments, text fed, levels. Places are characters of the
pushed text, moments are steps of 10 ms.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from engine import messages as engine

from .syllables import Word, words
from .timing import RATE, UNHEARD, Timed, align

STEPS = 100  # a second
KNOWN = 20.0  # syllables of the utterance's own that weigh as much as the usual rate
SURE = 100  # steps behind the newest sound: a word there is told though its segment still speaks

_REST_OF_WORD = re.compile(r"\S*")


@dataclass
class Span:
    """One segment: text[start:end] from step `begin` on; `end` -1 while more of it may come."""

    start: int
    end: int
    begin: int
    over: tuple[list[Word], Timed] | None = None  # once it is


class Heard:
    def __init__(self, text: Callable[[], str]) -> None:
        """`text` gives the pushed text so far."""
        self.levels = bytearray()  # one a step
        self._text = text
        self._spans: list[Span] = []
        self._fed = 0
        self._ended = False
        self._syllables, self._steps = KNOWN, KNOWN / RATE
        self._told, self._told_until = 0, 0.0  # words, and the end of the last one

    def take(self, event: engine.Segment | engine.Progress, frame: int) -> None:
        """`frame`: steps a frame."""
        if isinstance(event, engine.Progress):
            self._fed = event.chars
        elif event.index < len(self._spans):
            self._spans[event.index].end = event.end
        elif event.frame >= 0:
            self._spans.append(Span(event.start, event.end, event.frame * frame))

    def restore(self, steps: int, words: int) -> None:
        """So much sounded elsewhere, and so many words were told."""
        self.levels += bytes([UNHEARD]) * steps
        self._told = words

    def end(self) -> None:
        """The last segment was spoken to its end."""
        self._ended = True

    def upto(self, step: float) -> int:
        """Where the last word ends that ended before `step`; 0: none did."""
        heard = 0
        for word, _, end in self._words():
            if end > step:
                break
            heard = word.end
        return heard

    def news(self, here: int, last: bool) -> list[tuple[Word, float, float]]:
        """Words not told yet whose sound has come by step `here`, with their first and last step.
        `last`: no sound follows.
        """
        told: list[tuple[Word, float, float]] = []
        open_until = here - SURE
        for n, (word, start, end) in enumerate(self._words()):
            if n < self._told:
                continue
            over = word.start < self._closed
            if not (start < here if last else end <= (here if over else open_until)):
                break
            start = max(start, self._told_until)
            self._told_until = max(start, min(end, here))
            told.append((word, start, self._told_until))
        self._told += len(told)
        return told

    @property
    def _closed(self) -> int:
        """Text before it belongs to segments that are over."""
        return self._spans[-1].start if self._spans and not self._ended else len(self._text())

    def _words(self) -> Iterator[tuple[Word, float, float]]:
        for i, span in enumerate(self._spans):
            until = self._spans[i + 1].begin if i + 1 < len(self._spans) else None
            found, timed = span.over or self._align(span, until)
            for word, start, end in zip(found, timed.starts, timed.ends, strict=True):
                yield word, span.begin + start, span.begin + end

    def _align(self, span: Span, until: int | None) -> tuple[list[Word], Timed]:
        over = until is not None or self._ended
        text = self._text()
        end = span.end
        if end < 0:  # only what is fed can be spoken; its last word as a whole
            rest = _REST_OF_WORD.match(text, max(self._fed, span.start))
            end = rest.end() if rest else len(text)
        found = words(text[span.start : end], span.start)
        levels = bytes(self.levels[span.begin : until])
        timed = align(found, levels, over, self._syllables / self._steps)
        if over:
            syllables = sum(word.weight for word in found)
            self._syllables += syllables
            self._steps += syllables / timed.rate
            span.over = found, timed
        return found, timed
