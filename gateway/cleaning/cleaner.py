"""Text as language models write it -> text as it is said, delta by delta. PURE.

Law: for every split of a text into deltas the pieces join to the cleaning of the whole. What a mark
means is decided by LOOK characters at most, and no prose is ever held: what waits is a mark, the
beginning of a tag, of an address or of a stage direction, and blanks. What is long (a code block,
an address, a comment) is left out as it comes. Time is linear in the text, whatever it is.
"""

from __future__ import annotations

from . import inline, lines, swallow
from .state import Mode, State, Step

STEPS: dict[Mode, Step] = {
    Mode.LINE: lines.line,
    Mode.INLINE: inline.inline,
    Mode.CELL: lines.cell,
    Mode.CODE: inline.code,
    Mode.RULE: lines.rule,
    Mode.RUN: swallow.rest_of_run,
    Mode.HOST: swallow.host,
    Mode.TAIL: swallow.tail,
    Mode.LINK: swallow.link,
    Mode.TAG: swallow.tag,
    Mode.COMMENT: swallow.comment,
    Mode.INFO: swallow.info,
    Mode.FENCE: swallow.fence,
    Mode.BLOCK: swallow.block,
}


class Cleaner:
    def __init__(self) -> None:
        self._state = State()
        self._held = ""

    def push(self, delta: str) -> str:
        """What can be said now that `delta` has come."""
        return self._run(self._held + delta, final=False)

    def flush(self) -> str:
        """The rest of what can be said: what is held is decided as if the text ended here."""
        return self._run(self._held, final=True)

    def origin(self, n: int) -> int:
        """The raw characters before the `n`-th cleaned one; where that is not known yet, all that
        are decided. For one `n` it only grows.
        """
        return self._state.out.origin(n)

    @property
    def held(self) -> int:
        """Raw characters that are not decided yet."""
        return len(self._held)

    @property
    def omitted(self) -> bool:
        """Whether words were left out: a code block, a comment, a stage direction."""
        return self._state.omitted

    def _run(self, text: str, final: bool) -> str:
        state, i = self._state, 0
        while i < len(text):
            taken = STEPS[state.mode](state, text, i, final)
            if not taken:
                break
            i += taken
            state.before = text[i - 1]
        assert i == len(text) or not final, "a step that waits for text behind the end"
        self._held = text[i:]
        state.base += i
        state.out.decided = state.base
        return state.out.take()
