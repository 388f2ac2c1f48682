"""Words of a text, and how long each takes to say, in syllables. PURE."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

# A Han or kana character is a word of its own; else what stands between blanks.
_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]|[^\s\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+"
)
_VOWELS = re.compile(r"[aeiouyаеёиоуыэюяäöüæøœıαεηιουω]+")
_SILENT_E = re.compile(r"[bcdfghjkmnpqrstvwxz]e(?:s|d)?$")
_SPOKEN_E = re.compile(r"[td]ed$|(?:[sxzcg]|ch|sh)es$")
_PART = re.compile(r"\d|[^\W\d_]+")
_STOP = re.compile(r"[.!?…。！？](?=\W*$)")
_PAUSE = re.compile(r"[,;:—–、，；：](?=\W*$)")

DIGIT = 1.6
SENTENCE, CLAUSE = 2.2, 0.9  # the silence behind one, in syllables


class Word(NamedTuple):
    """text[start:end]; `weight` syllables, and as many of silence behind it as `pause`."""

    start: int
    end: int
    weight: float
    pause: float


def words(text: str, offset: int = 0) -> list[Word]:
    """In order; what cannot be said belongs to the word before it, or behind it at the start."""
    found: list[Word] = []
    begin: int | None = None  # of what cannot be said and has no word before it
    for match in _WORD.finditer(text):
        piece, start, end = match[0], offset + match.start(), offset + match.end()
        weight = syllables(piece)
        pause = SENTENCE if _STOP.search(piece) else CLAUSE if _PAUSE.search(piece) else 0.0
        if weight:
            found.append(Word(start if begin is None else begin, end, weight, pause))
            begin = None
        elif found:
            last = found[-1]
            found[-1] = last._replace(end=end, pause=max(last.pause, pause))
        elif begin is None:
            begin = start
    return found


def syllables(word: str) -> float:
    """Of one written word; 0 where nothing in it can be said."""
    return sum(_of_part(part) for part in _PART.findall(unicodedata.normalize("NFC", word)))


def _of_part(part: str) -> float:
    if part.isdigit():
        return DIGIT
    lower = part.lower()
    groups = len(_VOWELS.findall(_plain(lower)))
    if part.isupper() and (groups == 0 or 1 < len(part) <= 4):
        return float(len(part))  # letter by letter
    if groups > 1 and _SILENT_E.search(lower) and not _SPOKEN_E.search(lower):
        groups -= 1
    if groups:
        return float(groups)
    if part >= "\u3040":
        return float(len(part))
    return 1.0 if part.isascii() else max(1.0, len(part) / 2.2)


def _plain(word: str) -> str:
    """Without accents."""
    return "".join(c for c in unicodedata.normalize("NFD", word) if not "\u0300" <= c <= "\u036f")
