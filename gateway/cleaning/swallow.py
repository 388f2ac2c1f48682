"""What is long and not said: left out as it comes, nothing of it is held. PURE."""

from __future__ import annotations

from . import patterns as p
from .inline import inline
from .patterns import MOST_TICKS
from .state import Mode, State, behind, blank, run


def rest_of_run(s: State, text: str, i: int, final: bool) -> int:
    if text[i] == s.run:
        return len(run(text, i, len(text)))
    s.mode = Mode.INLINE
    return inline(s, text, i, final)


def host(s: State, text: str, i: int, final: bool) -> int:
    """Of a bare address: said, without its `www.`"""
    if s.before == "/":
        head = text[i : i + 4].lower()
        if head == "www.":
            return 4
        if not final and "www.".startswith(head):
            return 0
    if m := p.HOST.match(text, i):
        s.out.put(m[0], s.raw(i))
        return len(m[0])
    c = text[i]
    if c == ".":
        after = behind(text, i + 1, final)
        if after is None:
            return 0
        if after.isalnum():
            s.out.put(c, s.raw(i))
            return 1
    if c in ":/?#":
        s.mode, s.depth = Mode.TAIL, 0
        return tail(s, text, i, final)
    s.mode = Mode.INLINE
    return inline(s, text, i, final)


def tail(s: State, text: str, i: int, final: bool) -> int:
    """Up to a blank, a quote, a bracket that closes another, a letter that is not ASCII. A stop
    before one of these is the sentence's.
    """
    if m := p.TAIL.match(text, i):
        return m.end() - i
    if m := p.TAIL_STOPS.match(text, i):
        c = behind(text, m.end(), final)
        if c is None and len(m[0]) < p.MOST_STOPS:
            return 0
        if c and p.TAIL.match(c):
            return m.end() - i
    elif text[i] == "(" or (text[i] == ")" and s.depth):
        s.depth += 1 if text[i] == "(" else -1
        return 1
    s.mode = Mode.INLINE
    return inline(s, text, i, final)


def link(s: State, text: str, i: int, final: bool) -> int:
    """A link's address, from its parenthesis on."""
    if m := p.IN_ADDRESS.match(text, i):
        return m.end() - i
    if text[i] == "\n":
        s.mode = Mode.INLINE
        return inline(s, text, i, final)
    s.depth += 1 if text[i] == "(" else -1
    if not s.depth:
        s.mode = Mode.INLINE
    return 1


def tag(s: State, text: str, i: int, final: bool) -> int:
    if m := p.IN_TAG.match(text, i):
        return m.end() - i
    s.mode = Mode.INLINE if s.out.line_has_text else Mode.LINE
    return 1


def comment(s: State, text: str, i: int, final: bool) -> int:
    if m := p.IN_COMMENT.match(text, i):
        return m.end() - i
    if text.startswith("-->", i):
        s.mode = Mode.INLINE
        return 3
    return 0 if not final and "-->".startswith(text[i : i + 3]) else 1


def info(s: State, text: str, i: int, final: bool) -> int:
    """The rest of a line that opens or closes a code block."""
    if m := p.NOT_BREAK.match(text, i):
        return m.end() - i
    if s.fenced:
        s.mode = Mode.FENCE
        s.leave_out()
    else:
        s.end_line(i)
    return 1


def block(s: State, text: str, i: int, final: bool) -> int:
    """A line of a code block."""
    if m := p.NOT_BREAK.match(text, i):
        return m.end() - i
    s.mode = Mode.FENCE
    return 1


def fence(s: State, text: str, i: int, final: bool) -> int:
    """The beginning of a line in a code block: perhaps its end."""
    c = text[i]
    if c.isspace():
        return 1
    length = 1
    if c == s.fence[0]:
        length = len(run(text, i, MOST_TICKS))
        after = behind(text, i + length, final)
        if after is None and length < MOST_TICKS:
            return 0
        if length >= len(s.fence) and blank(after or ""):
            s.mode, s.fenced = Mode.INFO, False
            return length
    s.mode = Mode.BLOCK
    return length
