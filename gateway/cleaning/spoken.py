"""Cleaned text as it goes out: blanks, the gaps of what was left out, stops, and where each
character came from. PURE.

Blanks wait for the word behind them, so that what is left out between takes them along. `raw` is
the position in the client's text, in characters.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right

from .symbols import CLOSING, QUOTES, STOPS, han


class Spoken:
    def __init__(self) -> None:
        self.length = 0  # characters put out, from the first on
        self.decided = 0  # raw characters that are put out or left out
        self._parts: list[str] = []
        self._last = self._before = ""  # the last two visible characters
        self._blank = ""  # waits: " ", or one or two newlines
        self._blank_raw = 0
        self._gap = False  # something was left out behind the last character
        self._comma = False  # a cell ended
        self._line = 0  # `length` where the line began
        self._at, self._raw = array("I", [0]), array("I", [0])  # where the two counts part

    def take(self) -> str:
        parts, self._parts = self._parts, []
        return "".join(parts)

    def origin(self, n: int) -> int:
        """Raw characters before the `n`-th one put out; all that is decided, when `n` is the last.
        It only grows.
        """
        if n >= self.length:
            return self.decided
        i = bisect_right(self._at, n) - 1
        return self._raw[i] + n - self._at[i]

    def put(self, text: str, raw: int) -> None:
        """Visible text, without blanks."""
        first = text[0]
        if self._comma:
            self._comma = False
            if self.line_has_text:
                self._stop(",", "，", raw)
                self._blank, self._blank_raw = self._blank or " ", raw
        if self._blank:
            left_out = self._gap and self._blank == " " and first in CLOSING
            if self._last and not left_out:
                self._append(self._blank, self._blank_raw)
            self._blank = ""
        elif self._gap and first.isalnum() and not han(first):
            if self._last.isalnum() or self._last in CLOSING:
                self._append(" ", raw)
        self._gap = False
        self._append(text, raw)
        self._before = text[-2] if len(text) > 1 else self._last
        self._last = text[-1]

    def blank(self, c: str, raw: int) -> None:
        if not self._blank:
            self._blank_raw = raw
        if c == "\n":
            self._blank = "\n\n" if "\n" in self._blank else "\n"
        else:
            self._blank = self._blank or " "

    def gap(self) -> None:
        """Something with a place of its own was left out: it parts the words beside it."""
        self._gap = True

    def cell(self) -> None:
        self._comma = True

    def stop(self, raw: int) -> None:
        """End the line as a sentence, unless it ends as one or holds no text."""
        self._comma = False
        if self.line_has_text:
            self._stop(".", "。", raw)

    def underline(self, raw: int) -> None:
        """The line before was a title."""
        if self._blank == "\n":
            self._stop(".", "。", raw)

    def new_line(self) -> None:
        self._line = self.length
        self._comma = False

    @property
    def line_has_text(self) -> bool:
        return self.length > self._line

    @property
    def last(self) -> str:
        """The last visible character; empty: none yet."""
        return self._last

    def _stop(self, mark: str, wide: str, raw: int) -> None:
        last = self._before if self._last in QUOTES else self._last
        if last and last not in STOPS and self._last not in STOPS:
            mark = wide if han(self._last) else mark
            self._append(mark, min(raw, self._blank_raw) if self._blank else raw)
            self._before, self._last = self._last, mark

    def _append(self, text: str, raw: int) -> None:
        if raw - self.length != self._raw[-1] - self._at[-1]:
            self._at.append(self.length)
            self._raw.append(raw)
        self._parts.append(text)
        self.length += len(text)
