"""What a safetensors file holds, by its header alone, against what it should. Reads no tensor."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from math import prod
from pathlib import Path

BYTES = {"BF16": 2, "F16": 2, "F32": 4}  # of the types that a checkpoint may be in
SHOWN = 12  # names listed for one kind of problem
_LENGTH = 8  # bytes before the header: its size, little-endian
_MAX_HEADER = 100_000_000  # the format's own bound

DOWNLOAD = "Fetch the file again, whole, from the repository that the folder comes from."
SAME_REVISION = "Take config.json and the weights from one revision of one repository."


@dataclass(frozen=True)
class Problem:
    what: str
    remedy: str


@dataclass(frozen=True)
class Stored:
    dtype: str
    shape: tuple[int, ...]


class Unreadable(Exception):
    """The file is no safetensors file, or not all of it."""

    def __init__(self, what: str, remedy: str = DOWNLOAD) -> None:
        super().__init__(what)
        self.problem = Problem(what, remedy)


def check(
    folder: Path,
    name: str,
    expected: Mapping[str, tuple[int, ...]],
    unloaded: tuple[str, ...] = (),
) -> list[Problem]:
    """Everything that keeps file `name` from serving: its tensors must be exactly `expected`, all
    of one type, beside those whose names start as in `unloaded`.
    """
    try:
        stored = read(folder, name)
    except Unreadable as error:
        return [error.problem]
    ours = {t: s for t, s in stored.items() if t in expected or not t.startswith(unloaded)}
    missing = [f"{t} {list(shape)}" for t, shape in expected.items() if t not in ours]
    extra = [f"{t} {list(s.shape)}" for t, s in ours.items() if t not in expected]
    misshapen = [
        f"{t} {list(ours[t].shape)} instead of {list(shape)}"
        for t, shape in expected.items()
        if t in ours and ours[t].shape != shape
    ]
    found = _listed(name, "lacks", missing) + _listed(name, "has unknown", extra)
    found += _listed(name, "has misshapen", misshapen)
    return [Problem(what, SAME_REVISION) for what in found] + _mistyped(name, ours)


def unreadable(folder: Path, name: str) -> list[Problem]:
    """What keeps a file from being read at all."""
    try:
        read(folder, name)
    except Unreadable as error:
        return [error.problem]
    return []


def read(folder: Path, name: str) -> dict[str, Stored]:
    """The tensors of a file. Raises Unreadable; the file's size must be what its header says."""
    path = folder / name
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(_LENGTH), "little")
            head = file.read(length) if length < min(size, _MAX_HEADER) else b""
    except FileNotFoundError:
        raise Unreadable(f"{name} is missing") from None
    except OSError as error:
        raise Unreadable(f"{name} cannot be read: {error.strerror}", "Make it readable.") from error
    if (length.to_bytes(_LENGTH, "little")).startswith(b"version "):
        raise Unreadable(f"{name} is a Git LFS pointer, not the weights", "Run `git lfs pull`.")
    if len(head) < length or not head:
        raise Unreadable(f"{name} is truncated or no safetensors file ({size:,} bytes)")
    try:
        header = json.loads(head)
        header.pop("__metadata__", None)
        stored = {t: Stored(h["dtype"], tuple(h["shape"])) for t, h in header.items()}
        spans = sorted(tuple(h["data_offsets"]) for h in header.values())
        ends = [0, *(end for _, end in spans)]
        sound = all(start == before for (start, _), before in zip(spans, ends, strict=False))
        sizes = ((stored[t], h["data_offsets"]) for t, h in header.items())
        sound &= all(prod(s.shape) * BYTES.get(s.dtype, 0) in (b - a, 0) for s, (a, b) in sizes)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise Unreadable(f"{name} has a broken header") from None
    if not sound:
        raise Unreadable(f"{name} has a header that contradicts itself")
    whole = _LENGTH + length + ends[-1]
    if size != whole:
        short = "truncated" if size < whole else "longer than its header says"
        raise Unreadable(f"{name} is {short}: {size:,} bytes instead of {whole:,}")
    return stored


def _mistyped(name: str, stored: Mapping[str, Stored]) -> list[Problem]:
    types = [s.dtype for s in stored.values()]
    known = [t for t in types if t in BYTES]
    most = max(set(known), key=known.count, default="BF16")
    wrong = [f"{t} {s.dtype} instead of {most}" for t, s in stored.items() if s.dtype != most]
    remedy = (
        f"Store all weights of a file in one of {', '.join(BYTES)}; quantised ones are not read."
    )
    return [Problem(what, remedy) for what in _listed(name, "has mistyped", wrong)]


def _listed(name: str, verb: str, items: Iterable[str]) -> list[str]:
    items = list(items)
    if not items:
        return []
    shown = "; ".join(islice(items, SHOWN))
    more = f"; and {len(items) - SHOWN} more" if len(items) > SHOWN else ""
    return [f"{name} {verb} {_tensors(len(items))}: {shown}{more}"]


def _tensors(n: int) -> str:
    return "1 tensor" if n == 1 else f"{n} tensors"
