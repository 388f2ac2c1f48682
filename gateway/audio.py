"""PCM formats: the engine's s16le in, the client's bytes out; the rate stays the codec's. PURE."""

from __future__ import annotations

import sys
from array import array

ENCODINGS = ("pcm_s16le", "pcm_f32le", "mulaw", "alaw")
SAMPLE_BYTES = 2
AUDIBLE = 328  # |sample| from which speech counts as audible: 1 % of full scale, -40 dBFS

_BIG_ENDIAN = sys.byteorder == "big"
_tables: dict[str, bytes] = {}


def samples_of(pcm: bytes) -> array[int]:
    """s16le bytes as native integers."""
    samples = array("h", pcm)
    if _BIG_ENDIAN:
        samples.byteswap()
    return samples


def encode(pcm: bytes, encoding: str) -> bytes:
    """s16le `pcm` in `encoding`. The default passes through untouched."""
    if encoding == "pcm_s16le":
        return pcm
    samples = samples_of(pcm)
    if encoding == "pcm_f32le":
        floats = array("f", [s / 32768.0 for s in samples])
        if _BIG_ENDIAN:
            floats.byteswap()
        return floats.tobytes()
    table = _tables.get(encoding) or _tables.setdefault(encoding, _table(encoding))
    return bytes(
        [table[s] for s in samples]
    )  # a negative sample indexes from the end, where its entry lies


def first_audible(pcm: bytes) -> int:
    """Index of the first sample at or above `AUDIBLE`, -1 where there is none."""
    for index, sample in enumerate(samples_of(pcm)):
        if sample >= AUDIBLE or sample <= -AUDIBLE:
            return index
    return -1


def _table(encoding: str) -> bytes:
    """G.711 codes of 0..32767, then of -32768..-1."""
    law = {"mulaw": _mulaw, "alaw": _alaw}[encoding]
    return bytes([law(s) for s in (*range(32768), *range(-32768, 0))])


def _mulaw(sample: int) -> int:
    """ITU-T G.711 mu-law: 14-bit magnitude, bias 33, eight segments, all bits inverted."""
    magnitude = (sample >> 2) if sample >= 0 else -(sample >> 2)
    magnitude = min(magnitude, 8158) + 33
    segment = magnitude.bit_length() - 6
    code = segment << 4 | (magnitude >> (segment + 1)) & 0x0F
    return code ^ (0xFF if sample >= 0 else 0x7F)


def _alaw(sample: int) -> int:
    """ITU-T G.711 A-law: 13-bit magnitude, eight segments, even bits inverted."""
    value = sample >> 3
    magnitude = value if value >= 0 else -value - 1
    segment = max(0, magnitude.bit_length() - 5)
    code = segment << 4 | (magnitude >> max(1, segment)) & 0x0F
    return code ^ (0xD5 if value >= 0 else 0x55)
