"""Stars, underscores and tildes around words. Which of them are marks is told by what stands beside
them, as CommonMark does; what computes or names is said as it stands: `2 * 3`, `2*3`, `snake_case`,
`__init__`, `*.py`, `~5`. PURE.
"""

from __future__ import annotations

from . import patterns as p
from .directions import LONGEST, direction, may_be
from .state import NOT_MINE, Mode, State, behind, blank, run
from .symbols import CLOSING, OPENING, ascii_word

DECORATION = 4  # so many in a row are no emphasis
DUNDER = 42  # characters of a name with its two underscores, as far as is looked


def star(s: State, text: str, i: int, final: bool) -> int:
    length = len(run(text, i, DECORATION))
    if length == DECORATION:
        return _decoration(s, "*")
    c = behind(text, i + length, final)
    if c is None:
        return 0
    before = s.before
    if blank(before) and blank(c):
        computes = length == 1 or s.out.last.isdecimal()
        return _said(s, "*" * length, i) if computes else length
    if before.isdecimal() and c.isdecimal():
        return _said(s, "*" * length, i)
    if s.stars and not blank(before) and before not in "([{“‘«":
        s.stars = max(0, s.stars - length)
        return length
    opens = not blank(c) and c not in CLOSING and c not in "/=|"
    if length == 1 and (ascii_word(before) or (before and before in ")]}")):
        opens = False
    if not opens:
        return _said(s, "*" * length, i)
    if length == 1 and not s.out.last.isalnum():
        taken = _direction(s, text, i, "*", final)
        if taken != NOT_MINE:
            return taken
    s.titled = length > 1 and not s.out.line_has_text
    s.stars += length
    return length


def underscore(s: State, text: str, i: int, final: bool) -> int:
    length = len(run(text, i, DECORATION))
    if length == DECORATION:
        return _decoration(s, "_")
    c = behind(text, i + length, final)
    if c is None:
        return 0
    before = s.before
    if s.bars and not blank(before) and before not in "([{“‘«" and not c.isalnum():
        s.bars = max(0, s.bars - length)
        return length
    if not (blank(before) or before in OPENING) or not (c.isalnum() or c in "\"'“*("):
        return _said(s, "_" * length, i)
    if length == 2 and before != "*":
        m = p.DUNDER.match(text, i)
        assert m
        if m.end() == len(text) and not final and len(m[0]) < DUNDER:
            return 0
        after = text[m.end() : m.end() + 1]
        if m[0].endswith("__") and len(m[0]) > 4 and not after.isalnum():
            return _said(s, m[0], i)
    if length == 1 and not s.out.last.isalnum():
        taken = _direction(s, text, i, "_", final)
        if taken != NOT_MINE:
            return taken
    s.titled = length > 1 and not s.out.line_has_text
    s.bars += length
    return length


def tilde(s: State, text: str, i: int, final: bool) -> int:
    """Two strike words out: the words are said. One is `about`."""
    length = len(run(text, i, DECORATION))
    if length == DECORATION:
        return _decoration(s, "~")
    c = behind(text, i + length, final)
    if c is None:
        return 0
    if length == 2 and not (blank(s.before) and blank(c)):
        return 2
    return _said(s, "~" * length, i)


def _decoration(s: State, mark: str) -> int:
    s.out.gap()
    s.mode, s.run = Mode.RUN, mark
    return DECORATION


def _said(s: State, text: str, i: int) -> int:
    s.out.put(text, s.raw(i))
    return len(text)


def _direction(s: State, text: str, i: int, end: str, final: bool) -> int:
    j = text.find(end, i + 1, i + LONGEST + 2)
    if j >= 0:
        if not direction(text[i + 1 : j]):
            return NOT_MINE
        c = behind(text, j + 1, final)
        if c is None:
            return 0
        if c == end:
            return NOT_MINE
        s.leave_out()
        return j + 1 - i
    return 0 if not final and may_be(text[i + 1 : i + LONGEST + 2]) else NOT_MINE
