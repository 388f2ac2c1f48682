"""Marks at the beginning of a line: headings, lists, quotes, rules, tables, code blocks. PURE."""

from __future__ import annotations

from . import patterns as p
from .inline import inline
from .patterns import LOOK, MOST_TICKS
from .state import NOT_MINE, Mode, State, Step, behind, blank, run


def line(s: State, text: str, i: int, final: bool) -> int:
    c = text[i]
    if c.isspace() and c != "\n":
        s.out.blank(" ", s.raw(i))
        return 1
    mark = MARKS.get(c) or (number if c.isdecimal() else None)
    taken = mark(s, text, i, final) if mark else NOT_MINE
    if taken == NOT_MINE:
        s.mode = Mode.INLINE
        return inline(s, text, i, final)
    return taken


def quote(s: State, text: str, i: int, final: bool) -> int:
    c = behind(text, i + 1, final)
    if c is None:
        return 0
    return 1 if blank(c) or c.isalpha() or c in ">*\"'“" else NOT_MINE


def heading(s: State, text: str, i: int, final: bool) -> int:
    j = i + len(run(text, i, 7))
    c = behind(text, j, final)
    if j - i > 6 or (c and not blank(c)):
        return NOT_MINE
    if c is None:
        return 0
    s.stops = s.heading = True
    s.mode = Mode.INLINE
    return j - i


def bullet(s: State, text: str, i: int, final: bool) -> int:
    """A list's marker, or a rule."""
    mark = text[i]
    length = len(run(text, i, 3))
    c = behind(text, i + length, final)
    if length == 3 and mark in "-=":
        s.out.underline(s.raw(i))
        s.mode = Mode.RULE
        return length
    if c is None:
        return 0
    if length == 3 and mark in "*_" and blank(c):
        s.mode = Mode.RULE
        return length
    if length > 1 or mark in "_=" or not blank(c):
        return NOT_MINE
    if mark == "+":  # a sum that goes on
        after = behind(text, i + 2, final)
        if after is None:
            return 0
        if after.isdecimal():
            return NOT_MINE
    s.stops = s.item = True
    return 1


def rule(s: State, text: str, i: int, final: bool) -> int:
    if m := p.RULE_REST.match(text, i):
        return m.end() - i
    s.mode = Mode.INLINE
    return inline(s, text, i, final)


def number(s: State, text: str, i: int, final: bool) -> int:
    """`1.` and `1)` of a list: the number is said."""
    m = p.NUMBER.match(text, i)
    j = m.end() if m else i
    c, after = behind(text, j, final), behind(text, j + 1, final)
    if c is None:
        return 0
    if not m or c not in ".)" or not c:
        return NOT_MINE
    if after is None:
        return 0
    if not after.isspace():
        return NOT_MINE
    s.out.put(text[i:j], s.raw(i))
    s.out.put(".", s.raw(j))
    s.out.new_line()
    s.stops = True
    s.mode = Mode.INLINE
    return j + 1 - i


def bracket(s: State, text: str, i: int, final: bool) -> int:
    """A task's box behind a list's marker; the mark of a footnote's text."""
    if s.item:
        if m := p.CHECKBOX.match(text, i):
            return m.end() - i
        if not final and p.CHECKBOX_BEGUN.match(text, i):
            return 0
    if m := p.CITATION.match(text, i):
        c = behind(text, m.end(), final)
        if c is None:
            return 0
        if c == ":":
            return m.end() + 1 - i
    elif not final and len(text) - i < LOOK and p.CITATION_BEGUN.match(text, i):
        return 0
    return NOT_MINE


def table(s: State, text: str, i: int, final: bool) -> int:
    s.stops = s.row = True
    s.mode = Mode.CELL
    return 1


def cell(s: State, text: str, i: int, final: bool) -> int:
    """The beginning of a cell, or what parts a table's head from its body."""
    c = text[i]
    if c.isspace() and c != "\n":
        s.out.blank(" ", s.raw(i))
        return 1
    if c in ":-":
        after = behind(text, i + 1, final)
        if after is None:
            return 0
        if after == "-" or (c == "-" and (blank(after) or after in ":|")):
            m = p.DASHES.match(text, i)
            assert m
            s.mode = Mode.RULE
            return m.end() - i
    s.mode = Mode.INLINE
    return inline(s, text, i, final)


def fence(s: State, text: str, i: int, final: bool) -> int:
    """A code block: left out. Three backticks that are closed on their line are code in a line."""
    mark = text[i]
    length = len(run(text, i, MOST_TICKS))
    if length < MOST_TICKS and behind(text, i + length, final) is None:
        return 0
    if length < 3:
        return NOT_MINE
    if mark == "`":
        end = p.TICK_OR_BREAK.search(text, i + length, i + LOOK)
        if end is None and not final and len(text) - i < LOOK:
            return 0
        if end and end[0] == "`":
            return NOT_MINE
    s.fence, s.fenced = mark * length, True
    s.mode = Mode.INFO
    return length


MARKS: dict[str, Step] = {
    ">": quote,
    "#": heading,
    **dict.fromkeys("-*+•‣_=", bullet),
    "[": bracket,
    "|": table,
    **dict.fromkeys("`~", fence),
}
