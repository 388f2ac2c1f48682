"""An utterance's text and where its segments lie in it. Pure; the clock is an argument.

Offsets are characters of the stable text. A flush and the end of the text are stops: no segment
reaches across one. Whatever arrives, a step looks at a window of it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from math import inf

from engine.history import ENDED, SETTLED
from engine.segments import SegmentPolicy, Split, cut_long, group_end, near_ends, reach
from engine.text import Pretokens, TextStream, first_word, speakable, words

BITE = 256  # characters read at once
LEAD_IN = 32  # characters before its first word that a segment may begin with


class Segmenter:
    def __init__(
        self, pretokens: Pretokens, split: Split, policy: SegmentPolicy, layout: str, now: float
    ) -> None:
        self._stream = TextStream(pretokens)
        self._split, self._policy, self._layout = split, policy, layout
        # not yet read: text, flushes by number, ENDED; of an utterance that goes on SETTLED too
        self._arrived: deque[str | int] = deque()
        self._stops = 0  # flushes and ENDED among them
        self._answered = 0  # flushes up to this number are no stops any more
        self._flushes: list[tuple[int, int]] = []  # (offset, flush)
        self._ended = False
        self._last_text = now
        self.cursor = 0  # everything before it has a segment or cannot be said
        self.settled: list[int] = []  # the client's characters that time has made final

    def push(self, text: str, now: float) -> None:
        if text:
            last = self._arrived.pop() if self._arrived else ""
            if isinstance(last, str) and len(last) < BITE:
                text = last + text
            else:
                self._arrived.append(last)
            self._arrived.extend(text[i : i + BITE] for i in range(0, len(text), BITE))
            self._last_text = now

    def flush(self, flush: int) -> None:
        self._arrived.append(flush)
        self._stops += 1

    def end(self) -> None:
        self.flush(ENDED)

    def restore(self, said: Sequence[str | int], answered: int, cursor: int, now: float) -> None:
        """All that was said before, with everything up to `cursor` in segments."""
        self._answered, self.cursor = answered, cursor
        for item in said:
            if isinstance(item, str):
                self.push(item, now)
            elif item == SETTLED:
                self._arrived.append(item)
            else:
                self.flush(item)
        self.read(inf)

    def read(self, left: float | None = None) -> None:
        """Take in what has arrived, as far as the window reaches; once a step."""
        left = self._policy.window if left is None else left
        while left > 0 and self._unread():
            item = self._arrived.popleft()
            if isinstance(item, str):
                left -= len(item)
                self._stream.push(item)
                continue
            self._stream.finish()
            if item == SETTLED:
                continue
            self._stops -= 1
            if item == ENDED:
                self._ended = True
            elif item > self._answered:
                self._flushes.append((self._stream.end, item))

    @property
    def known(self) -> int:
        """Where the text that is read ends."""
        return self._stream.end

    def between(self, start: int, end: int | None) -> str:
        """Text from `start` on, as far as it is read."""
        return self._stream.between(start, end)

    def chars(self, offset: int) -> int:
        """The client's characters up to `offset`."""
        return self._stream.chars(offset)

    def passed(self) -> int:
        """The client's characters before the next word that can be said."""
        word = first_word(self.between(self.cursor, None))
        if word is None and not speakable(self._stream.pending):
            return self._stream.heard
        return self.chars(self._stream.end if word is None else self.cursor + word)

    def reached(self, spoken: int) -> list[int]:
        """Flushes whose text is spoken up to `spoken`, each answered once. Nothing before it is
        asked for again.
        """
        self._stream.forget(spoken)
        word = first_word(self.between(spoken, None))
        count = bisect_right(self._flushes, (inf if word is None else spoken + word, inf))
        answered = [flush for _, flush in self._flushes[:count]]
        del self._flushes[:count]
        return answered

    def over(self, spoken: int) -> bool:
        """No more text will come, and nothing behind `spoken` can be said."""
        return self._ended and not self._flushes and not speakable(self.between(spoken, None))

    def open(
        self, now: float, lead: float, first: bool, speaking: bool, hurry: bool
    ) -> tuple[int, int | None] | None:
        """The next segment as (start, end); end None opens it in the stream layout. None: not yet.

        `speaking`: another segment still speaks, so that the longest group is worth waiting for
        unless in a `hurry`.
        """
        rest, complete = self._rest()
        if self._layout == "full" and not complete and not self._stops:
            return None
        if not speaking and not complete and not speakable(rest) and self._quiet(now):
            self._finish()
            rest, complete = self._rest()
        word = first_word(rest)
        if word is None:
            if self._arrived and not speaking:  # a window full of what cannot be said
                self.cursor += len(rest)
            return None
        if word > LEAD_IN:
            self.cursor, rest = self.cursor + word, rest[word:]
        if self._unread():
            return None
        start = self.cursor
        begun = words(rest) >= self._policy.start_words or self._quiet(now)
        if self._layout == "stream":
            ready = begun or complete or self._arrived
            return (start, None) if ready and not speaking else None
        group = group_end(rest, self._split, complete, self._policy)
        if group and (group[1] or hurry or not speaking):
            return self._take(group[0])
        if speaking or group:
            return None
        if first and self._layout == "auto":
            return (start, None) if begun else None
        return self._open_unfinished(rest, now, lead)

    def _open_unfinished(self, rest: str, now: float, lead: float) -> tuple[int, int] | None:
        """No sentence end is known and nothing speaks: known words go when lead runs out, or after
        silence.
        """
        if lead > self._policy.stall_lead:
            return None
        if self._quiet(now):
            self._finish()
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
        text, fed = self.between(start, stop), fed - start
        most = max(fed, reach(text, self._policy))
        ends = near_ends(text, most, self._split, stop is not None)
        if good := [e for e in ends if fed <= e <= most]:
            end = good[0]
        elif most < len(text):
            end = cut_long(text, self._policy, max(1, fed))
        elif stop is not None:
            end = len(text)
        elif starved and lead <= self._policy.stall_lead and self._quiet(now):
            self._finish()
            end = self._stream.end - start
        elif starved and lead <= self._policy.slow_lead:  # text is slower than speech: whole words
            end = len(text)
        else:
            return None
        self.cursor = start + end
        return self.cursor

    def limit(self, start: int) -> int:
        """How far the open segment at `start` may be tokenised."""
        known = self.between(start, self._stop(start))
        return start + max(1, reach(known, self._policy))

    def _finish(self) -> None:
        """Time makes what is known final."""
        known = self._stream.end
        self._stream.finish()
        if self._stream.end > known:
            self.settled.append(self._stream.heard)

    def _unread(self) -> bool:
        """More has arrived than is read, and the window has room for it."""
        return bool(self._arrived) and self._stream.end < self.cursor + self._policy.window

    def _take(self, length: int) -> tuple[int, int]:
        start, self.cursor = self.cursor, self.cursor + length
        return start, self.cursor

    def _stop(self, start: int) -> int | None:
        behind = bisect_right(self._flushes, (start, inf))
        if behind < len(self._flushes):
            return self._flushes[behind][0]
        return self._stream.end if self._ended else None

    def _rest(self) -> tuple[str, bool]:
        """Text behind the cursor up to the next stop, and whether it is complete; skips what cannot
        be said.
        """
        while True:
            stop = self._stop(self.cursor)
            rest = self.between(self.cursor, stop)
            if stop is None or stop == self.cursor or speakable(rest):
                return rest, stop is not None
            self.cursor = stop

    def _quiet(self, now: float) -> bool:
        return not self._arrived and now - self._last_text >= self._policy.quiet
