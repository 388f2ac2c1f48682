"""PCM encodings: samples to the client's bytes, at whatever rate they have. PURE."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.int16]
Integers = NDArray[np.int32]
Floats = NDArray[np.float32]  # full scale is 1

ENCODINGS = ("pcm_s16le", "pcm_f32le", "mulaw", "alaw")
FULL_SCALE = 32768
AUDIBLE = 328  # |sample| from which speech counts as audible: 1 % of full scale, -40 dBFS


def samples_of(pcm: bytes) -> Samples:
    """s16le bytes as native integers."""
    return np.frombuffer(pcm, "<i2").astype(np.int16, copy=False)


def floats_of(pcm: bytes) -> Floats:
    """s16le bytes as floats, exactly."""
    return samples_of(pcm).astype(np.float32) / np.float32(FULL_SCALE)


def encode(pcm: bytes, encoding: str) -> bytes:
    """s16le `pcm` in `encoding`. The default passes through untouched."""
    if encoding == "pcm_s16le":
        return pcm
    if encoding == "pcm_f32le":
        return floats_of(pcm).astype("<f4", copy=False).tobytes()
    return _table(encoding)[samples_of(pcm).view(np.uint16)].tobytes()


def encode_floats(floats: Floats, encoding: str) -> bytes:
    """Floats in `encoding`: where it has integers, the nearest ones, clipped at full scale."""
    if encoding == "pcm_f32le":
        return floats.astype("<f4", copy=False).tobytes()
    nearest = np.rint(floats * np.float32(FULL_SCALE))
    return encode(np.clip(nearest, -FULL_SCALE, FULL_SCALE - 1).astype("<i2").tobytes(), encoding)


def first_audible(pcm: bytes) -> int:
    """Index of the first sample at or above `AUDIBLE`, -1 where there is none."""
    samples = samples_of(pcm)
    loud = np.flatnonzero((samples >= AUDIBLE) | (samples <= -AUDIBLE))
    return int(loud[0]) if loud.size else -1


@cache
def _table(encoding: str) -> NDArray[np.uint8]:
    """G.711 codes of 0..32767, then of -32768..-1: a sample's bits, unsigned, are its place."""
    samples = np.arange(65536, dtype=np.uint16).view(np.int16).astype(np.int32)
    law = {"mulaw": _mulaw, "alaw": _alaw}[encoding]
    return law(samples).astype(np.uint8)


def _mulaw(samples: Integers) -> Integers:
    """ITU-T G.711 mu-law: 14-bit magnitude, bias 33, eight segments, all bits inverted."""
    value = samples >> 2
    magnitude = np.minimum(np.where(samples >= 0, value, -value), 8158) + 33
    segment = _bit_length(magnitude) - 6
    code = segment << 4 | (magnitude >> (segment + 1)) & 0x0F
    inverted: Integers = code ^ np.where(samples >= 0, 0xFF, 0x7F)
    return inverted


def _alaw(samples: Integers) -> Integers:
    """ITU-T G.711 A-law: 13-bit magnitude, eight segments, even bits inverted."""
    value = samples >> 3
    magnitude = np.where(value >= 0, value, -value - 1)
    segment = np.maximum(0, _bit_length(magnitude) - 5)
    code = segment << 4 | (magnitude >> np.maximum(1, segment)) & 0x0F
    inverted: Integers = code ^ np.where(value >= 0, 0xD5, 0x55)
    return inverted


def _bit_length(values: Integers) -> Integers:
    exponents: Integers = np.frexp(values)[1]  # of the floats that equal them
    return exponents
