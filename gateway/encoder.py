"""One utterance's sound in the client's format: frames in, pieces for the wire out. PURE.

Law: the samples of all pieces, up to `finish`, are those of the sound at the client's rate.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from . import opus
from .audio import Floats, encode, encode_floats, floats_of, samples_of
from .formats import Format
from .resampler import Resampler


class Piece(NamedTuple):
    data: bytes  # in the client's encoding
    samples: int  # at the client's rate
    skip: int = 0  # samples that `data` decodes to before those


class Encoder(Protocol):
    def encode(self, pcm: bytes) -> Piece:
        """One frame, s16le at the model's rate."""

    def settle(self) -> Piece:
        """What is held back of the frames so far, where more may come, but not soon."""

    def finish(self) -> Piece:
        """What is held back, at the end."""


NOTHING = Piece(b"", 0)


def encoder(format: Format, rate: int) -> Encoder:
    """For the frames of a model of `rate`."""
    if format.encoding == opus.ENCODING:
        return Packets(format.rate, rate)
    if format.rate == rate:
        return Plain(format.encoding)
    return Resampled(format, rate)


class Plain:
    """At the model's rate: nothing is held back, s16le is untouched."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding

    def encode(self, pcm: bytes) -> Piece:
        return Piece(encode(pcm, self._encoding), len(pcm) >> 1)

    def settle(self) -> Piece:
        return NOTHING

    def finish(self) -> Piece:
        return NOTHING


class Resampled:
    def __init__(self, format: Format, rate: int) -> None:
        self._encoding = format.encoding
        self._resampler = Resampler(rate, format.rate)

    def encode(self, pcm: bytes) -> Piece:
        return self._piece(self._resampler.feed(floats_of(pcm)))

    def settle(self) -> Piece:
        return self._piece(self._resampler.settle())

    def finish(self) -> Piece:
        return self._piece(self._resampler.finish())

    def _piece(self, floats: Floats) -> Piece:
        return Piece(encode_floats(floats, self._encoding), len(floats))


class Packets:
    """Opus: the first packet begins with the look-ahead, which is no speech; the last holds it."""

    def __init__(self, to: int, rate: int) -> None:
        self._opus = opus.Opus(rate)
        self._lookahead = self._opus.lookahead * to // opus.CLOCK
        self._to = to
        self._rate = rate
        self._begun = False

    def encode(self, pcm: bytes) -> Piece:
        samples = samples_of(pcm)
        skip = 0 if self._begun else self._lookahead
        self._begun = True
        count = len(samples) * self._to // self._rate
        return Piece(self._opus.encode(samples), count - skip, skip)

    def settle(self) -> Piece:
        """The look-ahead stays in the encoder."""
        return NOTHING

    def finish(self) -> Piece:
        if not self._begun:
            return NOTHING
        return Piece(self._opus.finish(), self._lookahead)
