"""Incremental text: deltas in, stable text out. Knows the tokenizer's split, no ids and no
segments.

Law: for every split of a text into deltas the stable pieces join to NFC(text), and each piece ends
where the tokenizer's own split ends, so that ids of the pieces join to the ids of the whole (Qwen2
split, model.md 7.2). Only the last pre-token of what is known can still change, and Unicode
composition reaches back to the last starter. What no writing has ends the law, so that every look
at a text has a bound: of a run of blanks or of combining marks only the first RUN count, and a
pre-token is cut behind LONGEST characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

Pretokens = Callable[
    [str], list[tuple[int, int]]
]  # NFC text -> char spans, in order, without holes

RUN, LONGEST = 64, 128  # characters

_SECONDS_ASCII = 0.068  # a letter; English runs at about 14 characters a second, spaces included
_SECONDS_OTHER = 0.085  # a letter of another alphabet
_SECONDS_SYLLABLE = 0.21  # a Han, kana or Hangul character
_SECONDS_DIGIT = 0.32
_SECONDS_PAUSE = 0.18  # punctuation that is heard
_SYLLABLES = re.compile(r"[぀-ヿ㐀-鿿가-힯豈-﫿]")


def speech_seconds(text: str) -> float:
    """A rough length of `text` when spoken, in seconds. Used for grouping and budgets, never for
    timing.
    """
    return sum(map(_seconds, text))


def _seconds(c: str) -> float:
    if c.isascii():
        if c.isalpha():
            return _SECONDS_ASCII
        if c.isdigit():
            return _SECONDS_DIGIT
        return _SECONDS_PAUSE if c in ".,;:!?" else 0.012
    if _SYLLABLES.match(c):
        return _SECONDS_SYLLABLE
    if c.isalnum():
        return _SECONDS_OTHER
    return _SECONDS_PAUSE if unicodedata.category(c) == "Po" else 0.0


def speakable(text: str) -> bool:
    """Whether anything in `text` can be said: a letter or a digit."""
    return first_word(text) is not None


def first_word(text: str) -> int | None:
    """Where the first letter or digit stands."""
    return next((i for i, c in enumerate(text) if c.isalnum()), None)


def words(text: str) -> int:
    """Words as a listener counts them; a Han or kana character counts as half a word."""
    syllables = len(_SYLLABLES.findall(text))
    return syllables // 2 + sum(map(speakable, _SYLLABLES.sub(" ", text).split()))


class TextStream:
    """One utterance's text. Its stable part only grows; `pending` is what a further delta could
    still change. Offsets are characters of the stable text, from the utterance's start on.
    """

    def __init__(self, pretokens: Pretokens) -> None:
        self._pretokens = pretokens
        self.start = 0  # everything before it is forgotten
        self.stable = ""
        self._chars: list[int] = []  # the client's characters up to each stable one's end
        self._forgotten = 0  # the client's characters up to `start`
        self._pending: list[tuple[str, int]] = []  # a starter with its marks; the same count
        self.heard = 0  # the client's characters
        self._blanks = self._marks = 0  # the run that the text ends with

    @property
    def end(self) -> int:
        return self.start + len(self.stable)

    @property
    def pending(self) -> str:
        return "".join(text for text, _ in self._pending)

    def push(self, delta: str) -> None:
        for c in delta:
            self._hear(c)
        self._settle(self._first_unstable())

    def finish(self) -> None:
        """What is known is spoken as it stands: a word, an end of text. Trailing whitespace stays
        pending.
        """
        self._settle(len(self.pending.rstrip()))

    def between(self, start: int, end: int | None) -> str:
        return self.stable[start - self.start : None if end is None else end - self.start]

    def chars(self, offset: int) -> int:
        """The client's characters up to `offset`: composition and strips do not count."""
        return self._chars[offset - self.start - 1] if offset > self.start else self._forgotten

    def forget(self, offset: int) -> None:
        """Nothing before `offset` is asked for any more."""
        n = offset - self.start
        self._forgotten = self.chars(offset)
        self.start, self.stable = offset, self.stable[n:]
        del self._chars[:n]

    def _hear(self, c: str) -> None:
        self.heard += 1
        starter = _starter(c)
        self._blanks = self._blanks + 1 if c.isspace() else 0
        self._marks = 0 if starter else self._marks + 1
        if max(self._blanks, self._marks) > RUN or (self._blanks == self.heard):
            return
        before = "" if starter or not self._pending else self._pending.pop()[0]
        self._pending.append((unicodedata.normalize("NFC", before + c), self.heard))

    def _settle(self, end: int) -> None:
        taken = length = 0
        while length < end:
            text, heard = self._pending[taken]
            self._chars += [heard] * len(text)
            taken, length = taken + 1, length + len(text)
        self.stable += "".join(text for text, _ in self._pending[:taken])
        del self._pending[:taken]

    def _first_unstable(self) -> int:
        """Start of the last pre-token that begins with a character nothing before it can compose
        with, and behind which there is more than whitespace, which an end would strip.
        """
        text = self.pending
        blank = len(text.rstrip())
        for start, _ in reversed(self._pretokens(text)):
            if start == 0 or (start <= blank and _starter(text[start])):
                break
        else:
            return 0
        while len(text) - start > LONGEST + RUN:
            start += LONGEST
            while not _starter(text[start]):
                start -= 1
        return start


def _starter(c: str) -> bool:
    """No canonical composition joins `c` to what stands before it."""
    if c.isascii():
        return True
    if unicodedata.combining(c) or unicodedata.category(c).startswith("M"):
        return False
    return not ("\u1161" <= c <= "\u1175" or "\u11a8" <= c <= "\u11c2")  # Hangul vowels and finals
