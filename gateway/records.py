"""An utterance's decisions as bytes that its client keeps, and gives back so that it goes on. PURE.

A record is one msgpack list: a kind, then the fields of the event but its utterance. Records join.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import msgpack

from engine import messages as engine

LEAST, MOST = -1, 2**31 - 1  # of any number in a record


@dataclass(frozen=True)
class Continued:
    """An event of the gateway: the utterance goes on with the voice of an earlier one."""

    utterance: int
    text: str
    codes: bytes


Decision = engine.Segment | engine.Tokens | engine.Settled | engine.Progress | Continued

_KINDS: dict[str, type[Any]] = {
    "segment": engine.Segment,
    "tokens": engine.Tokens,
    "settled": engine.Settled,
    "progress": engine.Progress,
    "voice": Continued,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def record(event: object) -> bytes:
    """What the client must keep of an event; b"" where that is nothing."""
    name = _NAMES.get(type(event))
    if name is None:
        return b""
    _, *values = vars(event).values()
    packed: bytes = msgpack.packb([name, *values])
    return packed


def journal(name: str, records: bytearray) -> list[dict[str, Any]]:
    """The `journal` message of all records since the last frame of the utterance `name`, which are
    taken: none reaches a client without those it rests on.
    """
    told = {"type": "journal", "utterance": name, "record": bytes(records)}
    records.clear()
    return [told]


def read(data: bytes, utterance: int = 0) -> list[Decision]:
    """The events that became `data`, as those of `utterance`. Raises ValueError."""
    unpacker = msgpack.Unpacker(
        max_buffer_size=max(1, len(data)), max_map_len=0, max_ext_len=0, ext_hook=_no_extension
    )
    unpacker.feed(data)
    found: list[Decision] = []
    try:
        while unpacker.tell() < len(data):
            found.append(_event(unpacker.unpack(), utterance))
    except msgpack.OutOfData:
        raise ValueError("the last record is cut off") from None
    return found


def _event(value: object, utterance: int) -> Decision:
    if not (isinstance(value, list) and value and isinstance(value[0], str)):
        raise ValueError("a record is a list that begins with its kind")
    kind = _KINDS.get(value[0])
    if kind is None:
        raise ValueError("a record of an unknown kind")
    _, *wanted = fields(kind)
    given = value[1:]
    if len(given) != len(wanted) or not all(
        _FITS[str(f.type)](v) for f, v in zip(wanted, given, strict=True)
    ):
        raise ValueError(f"not the fields of a record of kind {value[0]}")
    event: Decision = kind(utterance, *given)
    return event


def _number(value: object) -> bool:
    return type(value) is int and LEAST <= value <= MOST


_FITS: dict[str, Callable[[Any], bool]] = {
    "int": _number,
    "str": lambda v: isinstance(v, str),
    "bytes": lambda v: isinstance(v, bytes),
    "Sequence[int]": lambda v: isinstance(v, list) and all(map(_number, v)),
}


def _no_extension(code: int, data: bytes) -> Any:
    raise ValueError("an extension type")
