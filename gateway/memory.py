"""Names of utterances that have ended, so that late messages are told from wrong ones. PURE."""

from __future__ import annotations

SIZE = 256  # the oldest is forgotten first


class Memory:
    def __init__(self) -> None:
        self._ended: dict[str, tuple[int, bool]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._ended

    def add(self, name: str, ident: int, *, forgiven: bool) -> None:
        """`ident` is the engine's, 0 where none spoke; `forgiven`: the client could not know."""
        self.drop(name)
        self._ended[name] = (ident, forgiven)
        if len(self._ended) > SIZE:
            del self._ended[next(iter(self._ended))]

    def forgive(self, name: str) -> None:
        """A `speak` with this name was refused; the voice it may have had stays."""
        self.add(name, self.ident(name), forgiven=True)

    def drop(self, name: str) -> None:
        """The name lives again."""
        self._ended.pop(name, None)

    def forgives(self, name: str) -> bool:
        return self._ended.get(name, (0, False))[1]

    def ident(self, name: str) -> int:
        """The engine's id of the utterance last so named; 0: none that we remember."""
        return self._ended.get(name, (0, False))[0]
