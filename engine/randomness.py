"""Random numbers that are a function of their place: (seed, counter, codebook, id). No state.

The place is one sum of odd multiples modulo 2^64, by the powers of the root of x^5 = x + 1, so
that the places of an utterance never meet (a test counts). SplitMix64's finalizer (Stafford's
variant 13) makes a random word of it; its upper half is the number. Integers until the last step:
the tensor form and the array form agree to the bit, on every device.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

SEED, COUNTER, CODEBOOK, ID = (
    0xDB4F0B9175AE2165,
    0xBBE0563303A4615F,
    0xA0F2EC75A1FE1575,
    0x89E182857D9ED689,
)
FIRST, SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
WORD = (1 << 64) - 1
_LOW_34, _LOW_37 = (1 << 34) - 1, (1 << 37) - 1  # what a right shift by 30, by 27 leaves


def signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def uniform(seeds: Tensor, counters: Tensor, codebook: int, n: int) -> Tensor:
    """Numbers [R, n] float64 for ids 0 to n - 1, odd multiples of 2^-33 in (0, 1). `seeds` and
    `counters` [R] int64.
    """
    place = seeds * signed(SEED) + counters * signed(COUNTER)
    place += signed(codebook * CODEBOOK & WORD)
    z = torch.arange(n, device=seeds.device) * signed(ID) + place[:, None]
    z ^= (z >> 30) & _LOW_34
    z *= signed(FIRST)
    z ^= (z >> 27) & _LOW_37
    z *= signed(SECOND)
    return ((z >> 32).double() + (2**31 + 0.5)) * 2.0**-32  # the shifted word is signed


def uniform_at(
    seed: int, counter: int, codebook: int, ids: NDArray[np.int64]
) -> NDArray[np.float64]:
    """One row of `uniform` at chosen ids [n]."""
    place = (seed * SEED + counter * COUNTER + codebook * CODEBOOK) & WORD
    z = ids.view(np.uint64) * np.uint64(ID)
    z += np.uint64(place)
    z ^= z >> np.uint64(30)
    z *= np.uint64(FIRST)
    z ^= z >> np.uint64(27)
    z *= np.uint64(SECOND)
    z >>= np.uint64(32)
    # The tensor form's word is signed: it counts from the middle.
    return ((z ^ np.uint64(1 << 31)).astype(np.float64) + 0.5) * 2.0**-32
