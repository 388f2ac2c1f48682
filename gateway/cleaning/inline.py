"""Text within a line, and the marks in it. PURE."""

from __future__ import annotations

import html
import re

from . import patterns as p
from .directions import direction, may_be
from .emphasis import star, tilde, underscore
from .patterns import LOOK, MOST_TICKS
from .state import NOT_MINE, Mode, State, Step, behind, blank, run
from .symbols import JOINER, SYMBOLS, ascii_word, han


def inline(s: State, text: str, i: int, final: bool) -> int:
    c = text[i]
    if c.isalnum():
        if c in "hHwW" and (not s.before.isalnum() or han(s.before)):
            taken = address(s, text, i, final)
            if taken != NOT_MINE:
                return taken
        m = p.WORD.match(text, i)
        j = m.end() if m else i + 1
        s.out.put(text[i:j], s.raw(i))
        return j - i
    if c == "\n":
        s.end_line(i)
        return 1
    if c.isspace():
        s.out.blank(" ", s.raw(i))
        return 1
    if mark := MARKS.get(c):
        taken = mark(s, text, i, final)
        if taken != NOT_MINE:
            return taken
    elif c > "\u2000":
        if m := SYMBOLS.match(text, i):
            s.out.gap()
            return m.end() - i
        if c == JOINER and SYMBOLS.match(s.before):
            return 1
    s.out.put(c, s.raw(i))
    return 1


def escape(s: State, text: str, i: int, final: bool) -> int:
    c = behind(text, i + 1, final)
    if c is None:
        return 0
    if not c or not c.isascii() or c.isalnum() or c.isspace():
        return 1 if c == "\n" else NOT_MINE
    s.out.put(c, s.raw(i))
    return 2


def ticks(s: State, text: str, i: int, final: bool) -> int:
    length = len(run(text, i, MOST_TICKS))
    if length < MOST_TICKS and behind(text, i + length, final) is None:
        return 0
    s.ticks = length
    s.mode = Mode.CODE
    return length


def code(s: State, text: str, i: int, final: bool) -> int:
    """Code in a line stands as it is, up to as many backticks as opened it, or the line's end."""
    c = text[i]
    if c == "`":
        length = len(run(text, i, MOST_TICKS))
        if length < MOST_TICKS and behind(text, i + length, final) is None:
            return 0
        if length == s.ticks:
            s.mode = Mode.INLINE
        return length
    if m := p.CODE_TEXT.match(text, i):
        s.out.put(m[0], s.raw(i))
        return len(m[0])
    if c == "\n":
        s.end_line(i)
    else:
        s.out.blank(" ", s.raw(i))
    return 1


def bracket(s: State, text: str, i: int, final: bool) -> int:
    first = behind(text, i + 1, final)
    if first is None:
        return 0
    if first == "^" or first.isdecimal():
        if m := p.CITATION.match(text, i):
            c = behind(text, m.end(), final)
            if c is None:
                return 0
            if c != "(":
                s.out.gap()
                return m.end() - i
        elif not final and len(text) - i < LOOK and p.CITATION_BEGUN.match(text, i):
            return 0
    taken = phrase(s, text, i, "]", final)
    if taken != NOT_MINE:
        return taken
    if len(s.brackets) == MOST_BRACKETS:
        return NOT_MINE
    index = ascii_word(s.before) or (s.before != "" and s.before in "_)]")
    s.brackets.append("[" if index else "")
    if index:
        return NOT_MINE
    if s.out.last and s.out.last in ".,;:!?…":
        s.out.gap()
    return 1


def bracket_end(s: State, text: str, i: int, final: bool) -> int:
    """The end of a link's text, of an index, or of words in brackets."""
    if not s.brackets:
        return NOT_MINE
    c = behind(text, i + 1, final)
    if c is None:
        return 0
    if s.brackets[-1] == "[":
        s.brackets.pop()
        return NOT_MINE
    length = 1
    if c == "(":
        of_link = _is_address(text, i + 1, final)
        if of_link is None:
            return 0
        if of_link:
            s.mode, s.depth = Mode.LINK, 0
    elif c == "[":
        if m := p.REFERENCE.match(text, i + 1):
            length += len(m[0])
        elif not final and len(text) - i < LOOK and p.REFERENCE_BEGUN.match(text, i + 1):
            return 0
    s.brackets.pop()
    return length


def _is_address(text: str, i: int, final: bool) -> bool | None:
    """Whether the parenthesis behind a link's text holds its address; None: not known yet."""
    m = p.ADDRESS.match(text, i)
    assert m
    c = behind(text, m.end(), final)
    if len(m[0]) > 72 or c == "" or c == ")":
        return True
    if c == " ":
        after = behind(text, m.end() + 1, final)
        return None if after is None else after != "" and after in "\"'("
    return None if c is None else False


def image(s: State, text: str, i: int, final: bool) -> int:
    """An image's text is said like a link's. Behind a word it is an exclamation mark."""
    if s.before and not s.before.isspace() and s.before not in "*_([|>":
        return NOT_MINE
    c = behind(text, i + 1, final)
    if c is None:
        return 0
    return 1 if c == "[" else NOT_MINE


def parenthesis(s: State, text: str, i: int, final: bool) -> int:
    return phrase(s, text, i, ")", final)


def phrase(s: State, text: str, i: int, end: str, final: bool) -> int:
    """A stage direction in brackets, from the opening one at `i`."""
    first = behind(text, i + 1, final)
    if first is None:
        return 0
    if not may_be(first):
        return NOT_MINE
    j = text.find(end, i + 1, i + LOOK)
    if j >= 0:
        if not direction(text[i + 1 : j]):
            return NOT_MINE
        s.leave_out()
        return j + 1 - i
    return 0 if not final and may_be(text[i + 1 : i + LOOK]) else NOT_MINE


def angle(s: State, text: str, i: int, final: bool) -> int:
    """A tag, a comment, or an address in angle brackets."""
    first = behind(text, i + 1, final)
    if first is None:
        return 0
    if not (first.isalpha() or first in "/!") or not first:
        return NOT_MINE
    head = text[i : i + 9].lower()
    if head.startswith("<!--"):
        s.mode = Mode.COMMENT
        s.leave_out()
        return 4
    if any(head.startswith("<" + scheme) for scheme in p.URL):
        s.angled = True
        return 1
    if m := p.TAG.match(text, i):
        name = m[2].lower()
        if name in p.TAGS:
            return _tag(s, i, name, bool(m[1]), m)
        return NOT_MINE
    if final:
        return NOT_MINE
    if any(("<" + start).startswith(head) for start in (*p.URL, "!--")):
        return 0
    tag = p.TAG_BEGUN.match(text, i) and p.name_begun(text[i : i + LOOK])
    return 0 if tag else NOT_MINE


def angle_end(s: State, text: str, i: int, final: bool) -> int:
    if not s.angled:
        return NOT_MINE
    s.angled = False
    return 1


def _tag(s: State, i: int, name: str, ends: bool, m: re.Match[str]) -> int:
    if name in p.BREAKS:
        s.stops = s.stops or (ends and name in p.ITEMS)
        if name in ("td", "th"):
            s.out.cell()
        else:
            s.end_line(i)
    if not m[3].endswith(">"):
        s.mode = Mode.TAG
    return m.end() - i


def entity(s: State, text: str, i: int, final: bool) -> int:
    if m := p.ENTITY.match(text, i):
        said = html.unescape(m[0])
        if said == m[0]:
            return NOT_MINE
        for c in said:
            if c.isspace():
                s.out.blank(" ", s.raw(i))
            elif SYMBOLS.match(c):
                s.out.gap()
            elif c.isprintable():
                s.out.put(c, s.raw(i))
        return m.end() - i
    return 0 if not final and p.ENTITY_BEGUN.match(text, i) else NOT_MINE


def bar(s: State, text: str, i: int, final: bool) -> int:
    if not s.row:
        return NOT_MINE
    s.out.cell()
    s.mode = Mode.CELL
    return 1


def hashes(s: State, text: str, i: int, final: bool) -> int:
    """The end of a heading may have its hashes again."""
    if not s.heading or not s.before.isspace():
        return NOT_MINE
    j = i + len(run(text, i, 7))
    c = behind(text, j, final)
    if c is None:
        return 0
    return j - i if blank(c) and j - i < 7 else NOT_MINE


def address(s: State, text: str, i: int, final: bool) -> int:
    """A bare address: its host is said."""
    head = text[i : i + 8].lower()
    for scheme in p.URL:
        if head.startswith(scheme):
            s.mode = Mode.HOST
            return len(scheme)
        if not final and scheme.startswith(head):
            return 0
    return NOT_MINE


MOST_BRACKETS = 16  # open at a time
MARKS: dict[str, Step] = {
    "\\": escape,
    "`": ticks,
    "*": star,
    "_": underscore,
    "~": tilde,
    "[": bracket,
    "]": bracket_end,
    "!": image,
    "(": parenthesis,
    "<": angle,
    ">": angle_end,
    "&": entity,
    "|": bar,
    "#": hashes,
}
