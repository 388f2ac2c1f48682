"""Reads entries of a JSON object into typed fields; what is wrong is noted, not raised. PURE."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from math import inf
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


def read_object(path: Path, name: str, problems: list[str]) -> Mapping[str, Any] | None:
    """The object in a JSON file, None when there is none to be read."""
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        problems.append(f"{name} is missing")
    except OSError as error:
        problems.append(f"{name} cannot be read: {error.strerror}")
    except ValueError as error:
        problems.append(f"{name} is not JSON: {error}")
    else:
        if isinstance(content, dict):
            return content
        problems.append(f"{name} is not a JSON object")
    return None


class Reader:
    """One object of a file. A value that is wrong reads as a harmless one of its type, so that
    reading goes on; what counts then is `problems`.
    """

    def __init__(self, content: Mapping[str, Any], place: str, problems: list[str]) -> None:
        self._content, self._place, self._problems = content, place, problems
        self._separator = ": " if place.endswith(".json") else "."

    def wrong(self, name: str, what: str) -> None:
        self._problems.append(f"{self._place}{self._separator}{name} {what}")

    def inner(self, name: str) -> Reader:
        return Reader(self.mapping(name, needed=True), self._at(name), self._problems)

    def mapping(self, name: str, needed: bool = False) -> Mapping[str, Any]:
        """An object; {} when it is null or, unless `needed`, absent."""
        value = self._content.get(name)
        if isinstance(value, dict):
            return value
        if value is not None or needed:
            self.wrong(name, "is missing" if value is None else "is not an object")
        return {}

    def ids(self, name: str) -> dict[str, int]:
        """Ids by name."""
        found = self.mapping(name, needed=True)
        inside = Reader(found, self._at(name), self._problems)
        return {key: inside.integer(key, least=0) for key in found}

    def expect(self, name: str, value: object) -> None:
        """What the modules can do: `value`, or no entry."""
        if (given := self._content.get(name, value)) != value:
            self.wrong(name, f"is {given!r}; only {value!r} is known here")

    def one_of(self, name: str, known: Sequence[str]) -> str:
        value = self.text(name)
        if value and value not in known:
            self.wrong(name, f"is {value!r}, not one of {', '.join(known)}")
        return value

    def text(self, name: str) -> str:
        return str(self._typed(name, MISSING, (str,), "text") or "")

    def flag(self, name: str, default: object = MISSING) -> bool:
        return bool(self._typed(name, default, (bool,), "true or false"))

    def integer(self, name: str, default: object = MISSING, least: int = 1) -> int:
        """A whole number of at least `least`."""
        value = self._typed(name, default, (int,), "a whole number")
        if value is not None and value < least:
            self.wrong(name, f"is {value}, less than {least}")
        return value or 0

    def number(self, name: str, default: object = MISSING) -> float:
        """A number above 0."""
        value = self._typed(name, default, (int, float), "a number")
        if value is not None and not 0 < value < inf:
            self.wrong(name, f"is {value}, not above 0")
        return float(value or 0)

    def within(self, name: str, default: float, least: float, most: float) -> float:
        """A number from `least` to `most`; whole where the ends are."""
        whole = type(least) is int
        said = "a whole number" if whole else "a number"
        value = self._typed(name, default, (int,) if whole else (int, float), said)
        if value is not None and not least <= value <= most:
            self.wrong(name, f"is {value}, not from {least} to {most}")
        return default if value is None else value

    def integers(self, name: str) -> tuple[int, ...]:
        value = self._typed(name, MISSING, (list,), "a list")
        if value is not None and not (value and all(type(i) is int and i > 0 for i in value)):
            self.wrong(name, "is not a list of whole numbers above 0")
            return ()
        return tuple(value or ())

    def build(self, cls: type[T], **given: object) -> T | None:
        """A dataclass of the entries that bear its fields' names, but for those `given`; None when
        anything is wrong.
        """
        before = len(self._problems)
        readers = {"int": self.integer, "float": self.number, "tuple[int, ...]": self.integers}
        for f in fields(cls):  # type: ignore[arg-type]
            if f.name not in given:
                given[f.name] = readers[f.type](f.name)  # type: ignore[operator, index]
        whole = len(self._problems) == before and None not in given.values()
        return cls(**given) if whole else None

    def _at(self, name: str) -> str:
        return f"{self._place}{self._separator}{name}"

    def _typed(self, name: str, default: object, kinds: tuple[type, ...], said: str) -> Any:
        value = self._content.get(name, default)
        if value is MISSING:
            self.wrong(name, "is missing")
        elif type(value) not in kinds:
            self.wrong(name, f"is {value!r}, not {said}")
        else:
            return value
        return None
