"""Which formats a client may ask for. PURE."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from . import audio, opus

ENCODINGS = (*audio.ENCODINGS, opus.ENCODING)
RATES = (8000, 16000, 24000, 44100, 48000)


class Format(NamedTuple):
    encoding: str
    rate: int  # samples a second: positions on the wire count in it


@cache
def served(rate: int) -> tuple[Format, ...]:
    """What the sound of a model of `rate` can be had in; the default first."""
    rates = (rate, *(r for r in RATES if r != rate))
    found = [Format(encoding, r) for encoding in audio.ENCODINGS for r in rates]
    if opus.takes(rate) and not opus.missing():
        found += [Format(opus.ENCODING, r) for r in rates if r in opus.RATES]
    return tuple(found)


def why_not(asked: Format, rate: int) -> str:
    """What to say about a format that is not served for a model of `rate`."""
    if asked.encoding == opus.ENCODING and opus.missing():
        return f"opus is not served: {opus.missing()}"
    there = served(rate)
    rates = [str(f.rate) for f in there if f.encoding == asked.encoding]
    if rates:
        return f"{asked.encoding} is not served at {asked.rate}; there is {', '.join(rates)}"
    encodings = dict.fromkeys(f.encoding for f in there)
    return f"its encoding is not served; there is {', '.join(encodings)}"
