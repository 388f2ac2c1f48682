"""Numbers, money, times, dates and signs as words, for a model that reads letters. PURE.

Plain words pass; a *stretch* that begins with a number or sign, and goes on while tokens belong
to it, is handed to `say`. Law: for every split of a text into deltas the pieces join to the same
words. Held back are the token that may still grow, and a stretch until the word behind it. `say`
may be slow: it gets FREE characters and a SHARE of the text, and beyond that digits are spelled.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from sys import maxsize
from unicodedata import digit

Say = Callable[[str], str]  # a stretch -> its words

LONGEST = 160  # characters of a token, and of a stretch
GAP = 8  # blanks inside a stretch
FREE = 1024  # characters of an utterance that `say` is given in any case
SHARE = 16  # and one in so many of its text

_PIECE = re.compile(rf"\s+|\S{{1,{LONGEST}}}")
_AROUND = re.compile(r"^[\"'“”‘’(\[{«]+|[\"'“”‘’)\]}»,;:.!?…]+$")
_STOP = re.compile(r"[.!?…][\"'”’)\]}»]*$")
_SIGNS = frozenset("$€£¥%°&@#+=<>≤≥/\\^~±×÷²³½¼¾")
_OPERATORS = frozenset(["-", "–", "—", "*", "x", "and", *_SIGNS])
_MONTHS = frozenset(
    "january february march april may june july august september october november december "
    "jan feb mar apr jun jul aug sep sept oct nov dec".split()
)
_BEFORE = _MONTHS | {"no"}  # what a number makes part of its stretch, before it and behind it
_BEHIND = _MONTHS | frozenset(
    "am pm a.m p.m hundred thousand million billion trillion percent usd eur gbp "
    "mm cm m km ft yd mi mg g kg lb lbs oz ml l ms s sec min mins h hr hrs hz khz mhz ghz "
    "kb mb gb tb w kw v mph km/h c f".split()
)
_DIGITS = "zero one two three four five six seven eight nine".split()
_ADDRESS = re.compile(r"\w\w\.[a-z]{2,}")
_TITLES = {
    "Mr.": "Mister",
    "Mrs.": "Missis",
    "Ms.": "Miz",
    "Dr.": "Doctor",
    "Prof.": "Professor",
    "Jr.": "Junior",
    "Sr.": "Senior",
    "vs.": "versus",
    "e.g.": "for example",
    "i.e.": "that is",
    "approx.": "approximately",
    "pp.": "pages",
}


class Spoken:
    """One utterance's text; `origin` tells where what came out was written."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._token = ""  # may still grow
        self._stretch = ""
        self._sure = 0  # of its characters, up to the last number; 0: none came yet
        self._gap = ""  # blanks behind it
        self._given = 0  # characters that `say` got
        self._read = self._written = 0  # characters so far
        self._seams = [(0, 0)]  # written and read, before and behind each replacement

    def push(self, delta: str) -> str:
        """A delta -> what is sure by now."""
        out, text = [], self._token + delta
        self._token = ""
        for match in _PIECE.finditer(text):
            piece = match[0]
            if piece.isspace():
                out.append(self._blank(piece))
            elif match.end() == len(text) and len(piece) < LONGEST:
                self._token = piece
            else:
                out.append(self._take(piece))
        return "".join(out)

    def flush(self) -> str:
        """What is held, as it stands."""
        token, self._token = self._token, ""
        return (self._take(token) if token else "") + self._release()

    def origin(self, written: int) -> int:
        """Characters read behind the first `written`; inside of a replacement the same share."""
        i = bisect_right(self._seams, (written, maxsize)) - 1
        end, read = self._seams[i]
        if i % 2 == 0:
            return read + written - end
        later, until = self._seams[i + 1]
        return read + (written - end) * (until - read) // (later - end)

    def _blank(self, piece: str) -> str:
        if not self._stretch:
            return self._pass(piece)
        self._gap += piece
        return self._release() if "\n" in piece or len(self._gap) > GAP else ""

    def _take(self, token: str) -> str:
        """One whole token."""
        if token in _TITLES:
            return self._release() + self._replace(token, _TITLES[token])
        if token.startswith("etc."):
            return self._release() + self._replace("etc.", "et cetera") + self._pass(token[4:])
        bare = _AROUND.sub("", token).lower()
        number = any(c.isdigit() or c in _SIGNS for c in token) or bool(_ADDRESS.search(token))
        behind = number or (self._sure > 0 and bare in _BEHIND)
        if self._stretch:
            grown = self._stretch + self._gap + token
            if len(grown) > LONGEST or not (behind or bare in _OPERATORS):
                return self._release() + self._take(token)
            self._stretch, self._gap = grown, ""
        elif number or bare in _BEFORE:
            self._stretch = token
        else:
            return self._pass(token)
        if behind:
            self._sure = len(self._stretch)
            if _STOP.search(token) and "." not in bare:
                return self._release()
        return ""

    def _release(self) -> str:
        said, rest = self._stretch[: self._sure], self._stretch[self._sure :] + self._gap
        self._stretch, self._gap, self._sure = "", "", 0
        return (self._replace(said, self._words(said)) if said else "") + self._pass(rest)

    def _words(self, stretch: str) -> str:
        if self._given + len(stretch) > FREE + self._read // SHARE:
            return spelled(stretch)
        self._given += len(stretch)
        return self._say(stretch)

    def _pass(self, text: str) -> str:
        self._read += len(text)
        self._written += len(text)
        return text

    def _replace(self, text: str, words: str) -> str:
        if words == text:
            return self._pass(text)
        self._seams.append((self._written, self._read))
        self._read += len(text)
        self._written += len(words)
        self._seams.append((self._written, self._read))
        return words


def spelled(text: str) -> str:
    """Each digit as a word, the rest as it stands."""
    return re.sub(r"\d", lambda match: f" {_DIGITS[digit(match[0])]} ", text).strip()
