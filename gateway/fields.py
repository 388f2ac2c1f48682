"""Checks of single fields of a client's message: type, range, and what the loaded model has. PURE.

A check takes (value, path, capabilities) and returns what the session works with, or raises a
Refusal naming the path.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.messages import Sampling

from .capabilities import MAX_SEED, PREDICTOR_RANGES, TALKER_RANGES, VOICES, Capabilities
from .errors import Refusal
from .formats import ENCODINGS, Format, why_not

Check = Callable[[Any, str, Capabilities], Any]
REQUIRED: Any = object()
_KINDS = {
    type(None): "null",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    str: "a string",
}
_KINDS |= {bytes: "bytes", list: "a list", dict: "a map"}


@dataclass(frozen=True)
class Field:
    check: Check
    default: Any = REQUIRED


@dataclass(frozen=True)
class Voice:
    instruct: str
    speaker: str = ""


@dataclass(frozen=True)
class SamplingPair:
    talker: Sampling
    predictor: Sampling


def read(raw: Any, path: str, fields: Mapping[str, Field], served: Capabilities) -> dict[str, Any]:
    """Every field of the map `raw`, checked, defaults filled in; others are refused by name."""
    if not isinstance(raw, dict):
        raise wrong(path, "a map", raw)
    for name in raw:
        if name not in fields:
            known = ", ".join(fields) or "none"
            text = f"{path} has no field {short(name)}; its fields: {known}"
            raise Refusal("bad_message", text, field=f"{path}.{short(name)}")
    values = {}
    for name, field in fields.items():
        if name in raw:
            values[name] = field.check(raw[name], f"{path}.{name}", served)
        elif field.default is REQUIRED:
            raise Refusal("bad_message", f"{path} needs the field {name}", field=f"{path}.{name}")
        else:
            values[name] = field.default
    return values


def short(value: object) -> str:
    """A client's word as an error may repeat it."""
    text = value if isinstance(value, str) else repr(value)
    return ascii(text[:40])[1:-1]


def wrong(path: str, wanted: str, value: object) -> Refusal:
    return Refusal(
        "bad_message", f"{path} must be {wanted}, not {_KINDS.get(type(value), 'this')}", field=path
    )


def boolean(value: Any, path: str, served: Capabilities) -> bool:
    if not isinstance(value, bool):
        raise wrong(path, "true or false", value)
    return value


def integer(low: int, high: int) -> Check:
    def check(value: Any, path: str, served: Capabilities) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise wrong(path, "an integer", value)
        if not low <= value <= high:
            raise Refusal("bad_message", f"{path} must lie in {low}..{high}", field=path)
        return value

    return check


def finite(value: Any, path: str) -> int | float:
    """A number; an integer may be too great for a float."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, float) or not math.isfinite(value):
        raise wrong(path, "a finite number", value)
    return value


def number(low: float, high: float) -> Check:
    def check(value: Any, path: str, served: Capabilities) -> float:
        if not low <= finite(value, path) <= high:
            raise Refusal("bad_message", f"{path} must lie in {low}..{high}", field=path)
        return float(value)

    return check


def choice(*options: str) -> Check:
    def check(value: Any, path: str, served: Capabilities) -> str:
        if not isinstance(value, str):
            raise wrong(path, "a string", value)
        if value not in options:
            raise Refusal("bad_message", f"{path} must be one of {', '.join(options)}", field=path)
        return value

    return check


def plain(value: Any, path: str) -> str:
    """A string of whole Unicode characters without NUL."""
    if not isinstance(value, str):
        raise wrong(path, "a string", value)
    if "\0" in value:
        raise Refusal("bad_message", f"{path} must not contain NUL", field=path)
    if any("\ud800" <= c <= "\udfff" for c in value):
        raise Refusal(
            "bad_message", f"{path} holds half a surrogate pair: send whole characters", field=path
        )
    return value


def sized(value: Any, path: str, limit: str, served: Capabilities) -> str:
    text = plain(value, path)
    bound = getattr(served.limits, limit)
    if len(text.encode()) > bound:
        raise Refusal("too_large", f"{path} is over {limit} ({bound})", field=path, limit=limit)
    return text


def text(value: Any, path: str, served: Capabilities) -> str:
    return sized(value, path, "text_bytes", served)


def description(value: Any, path: str, served: Capabilities) -> str:
    return sized(value, path, "description_bytes", served)


def name(value: Any, path: str, served: Capabilities) -> str:
    if not 1 <= len(plain(value, path)) <= 64:
        raise Refusal("bad_message", f"{path} must have 1 to 64 characters", field=path)
    return str(value)


def token(value: Any, path: str, served: Capabilities) -> str:
    if len(plain(value, path)) > 512:
        raise Refusal("bad_message", f"{path} must have at most 512 characters", field=path)
    return str(value)


def ping_id(value: Any, path: str, served: Capabilities) -> int | str:
    if isinstance(value, str):
        return name(value, path, served)
    return int(integer(-(2**53), 2**53)(value, path, served))


def unserved(default: object, there_is: str) -> Check:
    """A field of the protocol that this version only takes at its default."""

    def check(value: Any, path: str, served: Capabilities) -> object:
        if type(value) is not type(default) or value != default:
            raise Refusal("unsupported", f"{path} is not served yet; {there_is}", field=path)
        return value

    return check


def language(value: Any, path: str, served: Capabilities) -> str:
    lower = plain(value, path).lower()
    if lower not in served.languages:
        there = ", ".join(served.languages)
        raise Refusal(
            "unsupported", f"{path} {short(value)} is not spoken; there is {there}", field=path
        )
    return lower


def voice(value: Any, path: str, served: Capabilities) -> Voice:
    """The one shape of voice that the loaded model takes."""
    if not isinstance(value, dict):
        raise wrong(path, "a map", value)
    wanted = VOICES[served.kind]
    other = next((w for w in VOICES.values() if w != wanted and w in value), None)
    if other:
        has = f"the loaded model is {served.kind} and takes {path}.{wanted}"
        raise Refusal(
            "unsupported", f"{path}.{other} is not served: {has}", field=f"{path}.{other}"
        )
    if wanted == "design":
        return Voice(read(value, path, {"design": Field(description)}, served)["design"])
    if wanted == "clone":
        raise Refusal("unsupported", f"{path}.clone is not served yet", field=f"{path}.clone")
    fields = {"speaker": Field(_speaker), "instruct": Field(description, "")}
    return Voice(**read(value, path, fields, served))


def _speaker(value: Any, path: str, served: Capabilities) -> str:
    lower = plain(value, path).lower()
    for speaker in served.speakers:
        if speaker.lower() == lower:
            return speaker
    there = ", ".join(served.speakers)
    raise Refusal(
        "unsupported", f"{path} {short(value)} is not known; there is {there}", field=path
    )


def _stage(ranges: Mapping[str, tuple[float, float]]) -> dict[str, Field]:
    fields = {
        key: Field(integer(int(low), int(high)) if key == "top_k" else number(low, high), None)
        for key, (low, high) in ranges.items()
    }
    return {"greedy": Field(boolean, None)} | fields


def sampling(value: Any, path: str, served: Capabilities) -> SamplingPair:
    fields = _stage(TALKER_RANGES) | {"predictor": Field(_predictor, served.predictor)}
    values = read(value, path, fields, served)
    predictor = values.pop("predictor")
    return SamplingPair(_override(served.talker, values, path), predictor)


def _predictor(value: Any, path: str, served: Capabilities) -> Sampling:
    return _override(served.predictor, read(value, path, _stage(PREDICTOR_RANGES), served), path)


def _override(defaults: Sampling, values: dict[str, Any], path: str) -> Sampling:
    if values["greedy"] and values["temperature"] is not None:
        field = f"{path}.temperature"
        raise Refusal(
            "bad_message",
            f"{field} has no meaning with {path}.greedy: give one of them",
            field=field,
        )
    return replace(defaults, **{k: v for k, v in values.items() if v is not None})


def audio_format(value: Any, path: str, served: Capabilities) -> Format:
    fields = {"encoding": Field(lambda v, p, s: plain(v, p), ENCODINGS[0])}
    fields["rate"] = Field(integer(1, 2**31), served.rate)
    format = Format(**read(value, path, fields, served))
    if format not in served.formats:
        raise Refusal("unsupported", f"{path}: {why_not(format, served.rate)}", field=path)
    return format


def seconds(value: Any, path: str, served: Capabilities) -> float:
    top = served.seconds
    if not 0 < finite(value, path) <= top:
        raise Refusal(
            "bad_message",
            f"{path} must be above 0 and at most {top}",
            field=path,
            limit="utterance_seconds",
        )
    return float(value)


seed = integer(0, MAX_SEED)
