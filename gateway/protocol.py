"""Wire messages of protocol v1: decode, validate, encode. docs/protocol.md is the law. PURE."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

import msgpack

from . import fields as check
from .capabilities import SUBPROTOCOLS, Capabilities
from .errors import INVALID_DATA, NO_KEY, PROTOCOL_ERROR, TOO_BIG, UNSUPPORTED_DATA, Refusal
from .fields import Field, SamplingPair, Voice, read, short
from .formats import Format
from .resuming import Resume, resume

MSGPACK, JSON = SUBPROTOCOLS

MAX_ITEMS = 64  # entries of any map or list a client may send
MAX_DEPTH = 4  # message, voice or sampling, predictor, and one to name the mistake in


@dataclass(frozen=True)
class Hello:
    token: str
    client: str


@dataclass(frozen=True)
class Speak:
    utterance: str
    voice: Voice
    language: str
    text: str
    end: bool
    seed: int | None
    sampling: SamplingPair | None
    format: Format | None
    pace: str
    max_seconds: float | None
    clean: str
    priority: int
    progress: bool
    journal: bool
    resume: Resume | None
    continues: str | None
    carry: str
    words: bool
    layout: str

    def __post_init__(self) -> None:
        if self.resume:
            self.resume.agree(self.seed, self.text, self.continues)

    @property
    def chosen(self) -> int | None:
        """The seed, where the client says it."""
        return self.resume.seed if self.resume else self.seed

    @property
    def chars(self) -> int:
        """Of all text that it brings."""
        return len(self.text) + (len(self.resume.text) if self.resume else 0)

    @property
    def ends(self) -> bool:
        return self.end or (self.resume is not None and self.resume.ended)


@dataclass(frozen=True)
class Text:
    utterance: str
    text: str
    seq: int | None


@dataclass(frozen=True)
class Flush:
    utterance: str


@dataclass(frozen=True)
class End:
    utterance: str


@dataclass(frozen=True)
class Cancel:
    utterance: str | None
    played: int | None


@dataclass(frozen=True)
class Played:
    utterance: str
    samples: int


@dataclass(frozen=True)
class Ping:
    id: int | str | None


Incoming = Hello | Speak | Text | Flush | End | Cancel | Played | Ping

_UTTERANCE = {"utterance": Field(check.name)}
_SAMPLES = check.integer(0, 2**53)

_INCOMING: dict[str, tuple[type[Any], dict[str, Field]]] = {
    "hello": (Hello, {"token": Field(check.token, ""), "client": Field(check.token, "")}),
    "speak": (
        Speak,
        _UTTERANCE
        | {
            "voice": Field(check.voice),
            "language": Field(check.language, "auto"),
            "text": Field(check.text, ""),
            "end": Field(check.boolean, False),
            "seed": Field(check.seed, None),
            "sampling": Field(check.sampling, None),
            "format": Field(check.audio_format, None),
            "pace": Field(check.choice("live", "fast"), "live"),
            "max_seconds": Field(check.seconds, None),
            "clean": Field(check.choice("auto", "off"), "auto"),
            "priority": Field(check.unserved(0, "all utterances are equal (0)"), 0),
            "progress": Field(check.boolean, False),
            "journal": Field(check.boolean, False),
            "resume": Field(resume, None),
            "continues": Field(check.name, None),
            "carry": Field(check.choice("context", "none"), "context"),
            "words": Field(check.boolean, False),
            "layout": Field(check.choice("auto", "stream", "full"), "auto"),
        },
    ),
    "text": (
        Text,
        _UTTERANCE | {"text": Field(check.text), "seq": Field(check.integer(0, 2**53), None)},
    ),
    "flush": (Flush, _UTTERANCE),
    "end": (End, _UTTERANCE),
    "cancel": (Cancel, {"utterance": Field(check.name, None), "played": Field(_SAMPLES, None)}),
    "played": (Played, _UTTERANCE | {"samples": Field(_SAMPLES)}),
    "ping": (Ping, {"id": Field(check.ping_id, None)}),
}

TYPES = tuple(_INCOMING)


def decode(data: str | bytes, subprotocol: str, limit: int) -> dict[str, Any]:
    """One WebSocket message as a bounded map. Raises a fatal Refusal on everything else."""
    if isinstance(data, str) != (subprotocol == JSON):
        frame = "text" if subprotocol == JSON else "binary"
        raise Refusal(
            "bad_message", f"{subprotocol} speaks in {frame} messages", close=UNSUPPORTED_DATA
        )
    if len(data) > limit:
        text = f"the message is over message_bytes ({limit})"
        raise Refusal("too_large", text, limit="message_bytes", close=TOO_BIG)
    try:
        raw = _json(data) if isinstance(data, str) else _msgpack(data)
    except (ValueError, RecursionError, TypeError) as error:
        kind = "JSON object" if subprotocol == JSON else "msgpack map"
        text = f"not one {kind}: {short(str(error) or type(error).__name__)}"
        raise Refusal("bad_message", text, close=INVALID_DATA) from error
    if not isinstance(raw, dict):
        raise Refusal("bad_message", "a message is a map", close=INVALID_DATA)
    _bound(raw, MAX_DEPTH)
    if not isinstance(raw.get("type"), str):
        raise Refusal(
            "bad_message",
            "a message needs the field type, a string",
            field="type",
            close=INVALID_DATA,
        )
    return raw


def check_order(kind: str, first: bool, authorized: bool) -> None:
    """Raise the Refusal of a message that may not come now; `first`: none came before it."""
    if not authorized and kind != "hello":
        text = "the first message must be hello with a token"
        raise Refusal("unauthorized", text, close=NO_KEY)
    if kind == "hello" and not first:
        text = "hello comes first or not at all"
        raise Refusal("bad_message", text, field="type", close=PROTOCOL_ERROR)
    if first and kind not in TYPES:
        text = f"the first message must be one of {', '.join(TYPES)}"
        raise Refusal("bad_message", text, field="type", close=PROTOCOL_ERROR)


def parse(raw: dict[str, Any], served: Capabilities) -> Incoming:
    """The message with every field checked, or a Refusal that names its utterance, if any."""
    kind = raw["type"]
    if kind not in _INCOMING:
        known = ", ".join(_INCOMING)
        raise Refusal(
            "bad_message",
            f"unknown message type {short(kind)}; known: {known}",
            field="type",
            utterance=named(raw, served),
        )
    cls, fields = _INCOMING[kind]
    body = {k: v for k, v in raw.items() if k != "type"}
    try:
        message: Incoming = cls(**read(body, kind, fields, served))
    except Refusal as refusal:
        refusal.utterance = named(raw, served)
        raise
    return message


def named(raw: dict[str, Any], served: Capabilities) -> str | None:
    """The utterance a message is about, where it has a valid name."""
    try:
        return check.name(raw.get("utterance"), "utterance", served)
    except Refusal:
        return None


def encode(message: dict[str, Any], subprotocol: str) -> bytes | str:
    """One message for the wire: a msgpack map, or JSON with binary fields as base64."""
    if subprotocol == MSGPACK:
        packed: bytes = msgpack.packb(message)
        return packed
    return json.dumps(message, default=_base64, ensure_ascii=False, separators=(",", ":"))


def _base64(value: object) -> str:
    assert isinstance(value, bytes)
    return base64.b64encode(value).decode("ascii")


def _msgpack(data: bytes) -> Any:
    return msgpack.unpackb(
        data,
        object_pairs_hook=_unique,
        max_array_len=MAX_ITEMS,
        max_map_len=MAX_ITEMS,
        max_ext_len=0,
        ext_hook=_no_extension,
    )


def _json(data: str) -> Any:
    return json.loads(
        data, object_pairs_hook=_unique, parse_int=_integer, parse_constant=_no_constant
    )


def _integer(digits: str) -> int:
    """What is longer is out of every range, shortened as well; int() takes no more than 4300."""
    return int(digits[:400])


def _no_extension(code: int, data: bytes) -> Any:
    """Length 0 passes max_ext_len."""
    raise ValueError("an extension type")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _unique(pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
    """A map of string keys, each once. Messages that say a thing twice are malformed."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key twice")
    if not all(isinstance(key, str) for key in found):
        raise ValueError("a key is no string")
    return found


def _bound(value: Any, depth: int) -> None:
    if not isinstance(value, dict | list):
        return
    if depth == 0 or len(value) > MAX_ITEMS:
        text = f"at most {MAX_DEPTH} levels of at most {MAX_ITEMS} entries"
        raise Refusal("bad_message", text, close=INVALID_DATA)
    for item in value.values() if isinstance(value, dict) else value:
        _bound(item, depth - 1)
