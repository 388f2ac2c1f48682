"""Incremental text: deltas in, stable text out. Knows the tokenizer's split, no ids and no
segments.

Law: for every split of a text into deltas the stable pieces join to NFC(text), and each piece ends
where the tokenizer's own split ends, so that ids of the pieces join to the ids of the whole (Qwen2
split, model.md 7.2). Only the last pre-token of what is known can still change, and Unicode
composition reaches back to the last starter.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

Pretokens = Callable[
    [str], list[tuple[int, int]]
]  # NFC text -> char spans, in order, without holes

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
    return any(c.isalnum() for c in text)


def words(text: str) -> int:
    """Words as a listener counts them; a Han or kana character counts as half a word."""
    syllables = len(_SYLLABLES.findall(text))
    return syllables // 2 + sum(map(speakable, _SYLLABLES.sub(" ", text).split()))


class TextStream:
    """One utterance's text. `stable` only grows; `pending` is what a further delta could still
    change.
    """

    def __init__(self, pretokens: Pretokens) -> None:
        self._pretokens = pretokens
        self.stable = ""
        self.pending = ""

    def push(self, delta: str) -> None:
        pending = self.pending + delta
        if not self.stable:
            pending = pending.lstrip()
        self.pending = unicodedata.normalize("NFC", pending)
        self._settle(self._first_unstable())

    def finish(self) -> None:
        """What is known is spoken as it stands: a word, an end of text. Trailing whitespace stays
        pending.
        """
        self._settle(len(self.pending.rstrip()))

    def _settle(self, end: int) -> None:
        self.stable, self.pending = self.stable + self.pending[:end], self.pending[end:]

    def _first_unstable(self) -> int:
        """Start of the last pre-token that begins with a character nothing before it can compose
        with.
        """
        for start, _ in reversed(self._pretokens(self.pending)):
            if start == 0 or _starter(self.pending[start]):
                return start
        return 0


def _starter(c: str) -> bool:
    """No canonical composition joins `c` to what stands before it."""
    if unicodedata.combining(c) or unicodedata.category(c).startswith("M"):
        return False
    return not ("\u1161" <= c <= "\u1175" or "\u11a8" <= c <= "\u11c2")  # Hangul vowels and finals
