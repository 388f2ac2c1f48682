"""An utterance's text and where its segments lie in it. Pure; the clock is an argument.

Offsets are characters of the stable text. A flush and the end of the text are stops: no segment
reaches across one.
"""

from __future__ import annotations

from engine.segments import SegmentPolicy, Split, cut_long, group_end, sentence_ends
from engine.text import Pretokens, TextStream, speakable, speech_seconds, words


class Segmenter:
    def __init__(
        self, pretokens: Pretokens, split: Split, policy: SegmentPolicy, layout: str, now: float
    ) -> None:
        self._stream = TextStream(pretokens)
        self._split, self._policy, self._layout = split, policy, layout
        self._flushes: list[tuple[int, int]] = []  # (offset, flush)
        self._ended = False
        self._last_text = now
        self.cursor = 0  # everything before it has a segment or cannot be said

    @property
    def text(self) -> str:
        return self._stream.stable

    def push(self, text: str, now: float) -> None:
        if text:
            self._stream.push(text)
            self._last_text = now

    def flush(self, flush: int) -> None:
        self._stream.finish()
        self._flushes.append((len(self.text), flush))

    def end(self) -> None:
        self._stream.finish()
        self._ended = True

    def reached(self, spoken: int) -> list[int]:
        """Flushes whose text is spoken up to `spoken`, each answered once."""
        answered = []
        while self._flushes and not speakable(self.text[spoken : self._flushes[0][0]]):
            answered.append(self._flushes.pop(0)[1])
        return answered

    def over(self, spoken: int) -> bool:
        """No more text will come, and nothing behind `spoken` can be said."""
        return self._ended and not self._flushes and not speakable(self.text[spoken:])

    def open(
        self, now: float, lead: float, first: bool, speaking: bool, hurry: bool
    ) -> tuple[int, int | None] | None:
        """The next segment as (start, end); end None opens it in the stream layout. None: not yet.

        `speaking`: another segment still speaks, so that the longest group is worth waiting for
        unless in a `hurry`.
        """
        rest, complete = self._rest()
        if not speaking and not complete and not speakable(rest) and self._quiet(now):
            self._stream.finish()
            rest, complete = self._rest()
        if not speakable(rest):
            return None
        start = self.cursor
        if self._layout == "stream":
            ready = complete or words(rest) >= self._policy.start_words or self._quiet(now)
            return (start, None) if ready and not speaking else None
        group = group_end(rest, self._split, complete, self._policy)
        if group and (group[1] or hurry or not speaking):
            return self._take(group[0])
        if speaking or group:
            return None
        if first and self._layout == "auto":
            ready = words(rest) >= self._policy.start_words or self._quiet(now)
            return (start, None) if ready else None
        return self._open_unfinished(rest, now, lead)

    def _open_unfinished(self, rest: str, now: float, lead: float) -> tuple[int, int] | None:
        """No sentence end is known and nothing speaks: known words go when lead runs out, or after
        silence.
        """
        if lead > self._policy.stall_lead:
            return None
        if self._quiet(now):
            self._stream.finish()
            rest, _ = self._rest()
        elif lead <= 0 and words(rest) < self._policy.resume_words:
            return None
        group = group_end(rest, self._split, True, self._policy)
        return self._take(group[0]) if group else None

    def close(self, start: int, fed: int, starved: bool, now: float, lead: float) -> int | None:
        """End of the open stream segment: the first good one at or behind `fed`. None: it stays
        open.
        """
        stop = self._stop(start)
        text, fed = self.text[start:stop], fed - start
        ends = [e for e in sentence_ends(text, self._split, stop is not None) if e >= fed]
        if ends:
            end = ends[0]
        elif stop is not None:
            end = max(len(text), fed)
        elif speech_seconds(text) > self._policy.segment_seconds:
            end = cut_long(text, self._policy, max(1, fed))
        elif starved and lead <= self._policy.stall_lead and self._quiet(now):
            self._stream.finish()
            end = len(self.text) - start
        elif starved and lead <= self._policy.slow_lead:  # text is slower than speech: whole words
            end = len(text)
        else:
            return None
        self.cursor = start + end
        return self.cursor

    def limit(self, start: int) -> int:
        """How far the open segment at `start` may be tokenised."""
        stop = self._stop(start)
        return len(self.text) if stop is None else stop

    def _take(self, length: int) -> tuple[int, int]:
        start, self.cursor = self.cursor, self.cursor + length
        return start, self.cursor

    def _stop(self, start: int) -> int | None:
        for offset, _ in self._flushes:
            if offset > start:
                return offset
        return len(self.text) if self._ended else None

    def _rest(self) -> tuple[str, bool]:
        """Text behind the cursor up to the next stop, and whether it is complete; skips what cannot
        be said.
        """
        while True:
            stop = self._stop(self.cursor)
            rest = self.text[self.cursor : stop]
            if stop is None or stop == self.cursor or speakable(rest):
                return rest, stop is not None
            self.cursor = stop

    def _quiet(self, now: float) -> bool:
        return now - self._last_text >= self._policy.quiet
