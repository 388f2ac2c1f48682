"""Numbers by place: uniform, unlike their neighbours, equal in both forms."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.randomness import CODEBOOK, COUNTER, ID, SEED, uniform, uniform_at

LARGEST_SEED = 2**53 - 1
WORD = 2**64


def test_known_numbers_stay() -> None:
    """Journals replay by them: a change here changes every voice."""
    seeds, counters = torch.tensor([0, 1, LARGEST_SEED]), torch.tensor([0, 3, 8191])
    found = (uniform(seeds, counters, 15, 3) * 2**33).long().tolist()
    assert found == [
        [1000789713, 476687801, 4067248907],
        [7835152495, 3542461791, 4121659885],
        [2368117323, 4112700285, 3693670405],
    ]


def test_both_forms_agree_to_the_bit() -> None:
    r = np.random.default_rng(0)
    for _ in range(200):
        seed, counter, codebook = (
            int(r.integers(2**53)),
            int(r.integers(2**31)),
            int(r.integers(32)),
        )
        ids = np.sort(r.choice(3072, 60, replace=False))
        whole = uniform(torch.tensor([seed]), torch.tensor([counter]), codebook, 3072)[0]
        assert np.array_equal(uniform_at(seed, counter, codebook, ids), whole.numpy()[ids])


def test_numbers_lie_inside_zero_and_one() -> None:
    """Also the extremes of the word, where a logarithm of a logarithm must stay finite."""
    extremes = torch.tensor([0, 1, -1, 2**63 - 1, -(2**63)])
    u = ((extremes >> 32).double() + (2**31 + 0.5)) * 2.0**-32
    assert 0 < u.min() and u.max() < 1
    assert torch.isfinite(-torch.log(-torch.log(u))).all()


@pytest.mark.parametrize("bits", [3, 8])
@pytest.mark.parametrize("vary", ["seed", "counter", "codebook", "id"])
def test_numbers_are_uniform_along_every_axis(vary: str, bits: int) -> None:
    u = along(vary, LARGEST_SEED - 10_000, 7, 2)
    found = torch.histc(u, 2**bits, 0, 1)
    expected = len(u) / 2**bits
    degrees = 2**bits - 1
    assert float(((found - expected) ** 2 / expected).sum()) < degrees + 4 * (2 * degrees) ** 0.5


@pytest.mark.parametrize("vary", ["seed", "counter", "codebook", "id"])
@pytest.mark.parametrize("other", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1 << 32, 0, 0)])
def test_neighbours_have_nothing_in_common(vary: str, other: tuple[int, int, int]) -> None:
    seed, counter, codebook = other
    a = along(vary, 11, 5, 3)
    b = along(vary, 11 + seed, 5 + counter, 3 + codebook)
    if (vary, other) in SHIFTED:
        a, b = a[:-1], b[:-1]  # the same line, one further: compare neighbours on it
    grid = torch.zeros(64).index_add_(0, (a * 8).long() * 8 + (b * 8).long(), torch.ones(len(a)))
    expected = len(a) / 64
    assert float(((grid - expected) ** 2 / expected).sum()) < 110  # 63 degrees, 1 in 5,000


SHIFTED = {("seed", (1, 0, 0)), ("counter", (0, 1, 0)), ("codebook", (0, 0, 1))}


def along(vary: str, seed: int, counter: int, codebook: int, n: int = 10_000) -> Tensor:
    """Numbers [n] where one of the four names counts up."""
    steps = torch.arange(n)
    still = torch.zeros_like(steps)
    if vary == "seed":
        return uniform(steps + seed, still + counter, codebook, 1)[:, 0]
    if vary == "counter":
        return uniform(still + seed, steps + counter, codebook, 1)[:, 0]
    one = torch.tensor([seed]), torch.tensor([counter])
    if vary == "codebook":
        first = np.zeros(1, dtype=np.int64)
        line = [uniform_at(seed, counter, codebook + i, first) for i in range(n)]
        return torch.from_numpy(np.concatenate(line))
    return uniform(*one, codebook, n)[0]


def test_no_two_places_of_an_utterance_meet() -> None:
    """65,536 draws of 32 codebooks of 4,096 ids: no difference of two of them is zero."""
    counters = np.arange(-65535, 65536).astype(np.uint64) * np.uint64(COUNTER)
    inverse = np.uint64(pow(ID, -1, WORD))
    for codebook in range(32):
        apart = (counters + np.uint64(codebook * CODEBOOK % WORD)) * inverse
        meet = (apart + np.uint64(4095)) <= np.uint64(8190)
        assert int(meet.sum()) == (codebook == 0)  # the place itself


def test_multipliers_are_odd() -> None:
    assert all(m % 2 for m in (SEED, COUNTER, CODEBOOK, ID))
