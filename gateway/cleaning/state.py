"""Where the cleaner stands in the text. PURE."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto

from .spoken import Spoken


class Mode(Enum):
    LINE = auto()  # at the beginning of a line, behind its blanks and marks
    INLINE = auto()
    CELL = auto()  # at the beginning of a table's cell
    CODE = auto()  # between backticks: said as it stands
    # Left out as it comes:
    RULE = auto()  # the rest of a horizontal rule
    RUN = auto()  # the rest of a run of one mark
    HOST = auto()  # of a bare address; it is said
    TAIL = auto()  # what follows the host
    LINK = auto()  # of a link
    TAG = auto()
    COMMENT = auto()
    INFO = auto()  # the rest of the line that opens or closes a code block
    FENCE = auto()  # a code block, at the beginning of a line
    BLOCK = auto()  # a code block, within a line


# A step takes (state, text, i, final) and returns how many characters from `i` on it has dealt
# with. 0: more text is needed to tell, which is never so when the text is `final`.
Step = Callable[["State", str, int, bool], int]
NOT_MINE = -1


@dataclass(slots=True)
class State:
    out: Spoken = field(default_factory=Spoken)
    mode: Mode = Mode.LINE
    base: int = 0  # raw characters before the text at hand
    before: str = ""  # the raw character before `i`; empty at the text's beginning
    stops: bool = False  # the line's end is a sentence's: heading, item, row
    row: bool = False  # of a table
    item: bool = False  # directly behind a list's marker
    titled: bool = False  # the line began with bold text
    heading: bool = False
    stars: int = 0  # of emphasis that is open
    bars: int = 0  # underscores of it
    brackets: list[str] = field(default_factory=list)  # open: "[" said, "" left out
    angled: bool = False  # an address in angle brackets is open
    ticks: int = 0  # that opened the code
    fence: str = ""  # that opened the code block
    fenced: bool = False  # INFO leads into the block, not out of it
    depth: int = 0  # of parentheses in an address
    run: str = ""  # the mark that RUN leaves out
    omitted: bool = False  # words were left out

    def raw(self, i: int) -> int:
        return self.base + i

    def leave_out(self, words: bool = True) -> None:
        self.out.gap()
        self.omitted = self.omitted or words

    def end_line(self, i: int) -> None:
        """At a line break, or a tag that is one."""
        bold = self.titled and self.before in ("*", "_") and not (self.stars or self.bars)
        if self.stops or bold:
            self.out.stop(self.base + i)
        if self.stops or not self.out.line_has_text:  # emphasis does not reach over a paragraph
            self.stars = self.bars = 0
        self.out.blank("\n", self.base + i)
        self.out.new_line()
        self.stops = self.row = self.item = self.titled = self.heading = self.angled = False
        self.brackets.clear()
        self.mode = Mode.LINE


def behind(text: str, j: int, final: bool) -> str | None:
    """The character at `j`; empty where the text ends; None: not known yet."""
    if j < len(text):
        return text[j]
    return "" if final else None


def blank(c: str) -> bool:
    return not c or c.isspace()


def run(text: str, i: int, most: int) -> str:
    """The same character again and again, at most `most` times."""
    j = i + 1
    while j < len(text) and j - i < most and text[j] == text[i]:
        j += 1
    return text[i:j]
