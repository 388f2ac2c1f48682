"""An utterance's text: what the client sent, and what of it the engine was given. PURE."""

from __future__ import annotations

from .cleaning import Cleaner
from .spoken import Say, Spoken

PIECES = 256  # deltas until they are joined


class Script:
    """`raw` is the client's text. `pushed` is what went to the engine: cleaned, its numbers as
    words where `say` puts them so, or raw as well.
    """

    def __init__(self, clean: bool = False, say: Say | None = None) -> None:
        self._cleaner = Cleaner() if clean else None
        self._spoken = Spoken(say) if say else None
        self._raw: list[str] = []
        self._pushed: list[str] = []
        self._warned = False

    @property
    def raw(self) -> str:
        return _joined(self._raw)

    @property
    def pushed(self) -> str:
        return _joined(self._pushed)

    def hear(self, text: str) -> str:
        """Take in a delta; returns what goes to the engine."""
        _add(self._raw, text)
        cleaned = self._cleaner.push(text) if self._cleaner else text
        return self._push(self._spoken.push(cleaned) if self._spoken else cleaned)

    def rest(self) -> str:
        """What the cleaner held, where no more text comes or is waited for."""
        cleaned = self._cleaner.flush() if self._cleaner else ""
        if self._spoken:
            cleaned = self._spoken.push(cleaned) + self._spoken.flush()
        return self._push(cleaned)

    def origin(self, pushed: int) -> int:
        """The raw characters before a place in the pushed text; for its end, all those decided."""
        cleaned = self._spoken.origin(pushed) if self._spoken else pushed
        return self._cleaner.origin(cleaned) if self._cleaner else cleaned

    def split(self, pushed: int) -> tuple[str, str]:
        """The client's text in two, behind the first `pushed` characters that went to the engine;
        between words, and at its end where nothing follows that can be said.
        """
        raw, at = self.raw, self.origin(pushed)
        while 0 < at < len(raw) and _inside(raw[at - 1], raw[at]):
            at -= 1  # a number that was said in part
        if not any(c.isalnum() for c in raw[at:]) and at:
            at = len(raw)
        return raw[:at], raw[at:]

    def omits(self) -> bool:
        """Whether words were left out; said once."""
        omits = self._cleaner is not None and self._cleaner.omitted and not self._warned
        self._warned = self._warned or omits
        return omits

    def _push(self, text: str) -> str:
        _add(self._pushed, text)
        return text


def _inside(before: str, behind: str) -> bool:
    """Whether no word ends between two characters; scripts without blanks end one anywhere."""
    return not (before.isspace() or behind.isspace()) and max(before, behind) < "\u2e80"


def _add(pieces: list[str], text: str) -> None:
    pieces.append(text)
    if len(pieces) > PIECES:
        _joined(pieces)


def _joined(pieces: list[str]) -> str:
    pieces[:] = ["".join(pieces)]
    return pieces[0]
