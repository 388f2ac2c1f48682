"""Each kernel against its reference in float64, on random shapes. On a GPU; without one, under
TRITON_INTERPRET=1, as far as a CPU goes.
"""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from engine.sampling import SlotSampling, draw_batch, draw_first
from tests.engine.test_sampling import settings

pytestmark = pytest.mark.gpu
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"
HALF = torch.float16 if INTERPRETED else torch.bfloat16  # the interpreter multiplies no bfloat16


def noise(*shape: int, dtype: torch.dtype = torch.float32, scale: float = 1.0) -> Tensor:
    return (torch.randn(*shape, device=DEVICE) * scale).to(dtype)


def error(found: Tensor, right: Tensor) -> float:
    return float((found.double() - right.double()).norm() / right.double().norm())


@pytest.mark.parametrize("dtype", [torch.float32, HALF])
@pytest.mark.parametrize("act", ["", "silu", "gated"])
@pytest.mark.parametrize("rows", [1, 3, 16, 17, 40])
def test_linear(dtype: torch.dtype, act: str, rows: int) -> None:
    from engine.kernels.linear import linear, reference

    torch.manual_seed(rows)
    for inputs, outputs in ((256, 64), (384, 48), (1024, 32)):
        x = noise(rows, inputs, dtype=dtype, scale=3)
        weight = noise(outputs * (2 if act == "gated" else 1), inputs, dtype=dtype, scale=0.05)
        norm = noise(inputs, dtype=dtype) if rows % 2 else None
        bias = noise(outputs, dtype=dtype) if act == "silu" else None
        residual = noise(rows, outputs, dtype=dtype) if act == "" else None
        tile = (16, 128, 4, 3)
        found = linear(x, weight, norm, 1e-6, bias, act, residual, tile)
        wide = [None if t is None else t.double() for t in (x, weight, norm, bias, residual)]
        right = reference(wide[0], wide[1], wide[2], 1e-6, wide[3], act, wide[4])  # type: ignore[arg-type]
        assert error(found, right) < (2e-6 if dtype == torch.float32 else 6e-3)


@pytest.mark.skipif(INTERPRETED, reason="the interpreter's products are a library's")
def test_a_row_of_linear_depends_on_no_other() -> None:
    from engine.kernels.linear import linear

    dtype = HALF
    x, weight = noise(40, 512, dtype=dtype), noise(64, 512, dtype=dtype)
    whole = linear(x, weight, norm=noise(512, dtype=dtype) * 0 + 1, eps=1e-6)
    one = torch.ones(512, device=DEVICE, dtype=dtype)
    for rows in (1, 2, 5, 16, 17, 33):
        assert torch.equal(linear(x[:rows], weight, norm=one, eps=1e-6), whole[:rows])
    assert torch.equal(linear(x[20:21], weight, norm=one, eps=1e-6), whole[20:21])


@pytest.mark.parametrize("dtype", [torch.float32, HALF])
def test_attend(dtype: torch.dtype) -> None:
    from engine.kernels.attend import attend, reference
    from engine.models.layers import rope_angles

    torch.manual_seed(1)
    for heads, kv, size in ((4, 2, 16), (8, 8, 32), (4, 2, 128)):
        count, length = 5, 100
        qkv = noise(count, (heads + 2 * kv) * size, dtype=dtype)
        q_norm, k_norm = noise(size, dtype=dtype), noise(size, dtype=dtype)
        cos, sin = rope_angles(torch.arange(length, device=DEVICE), size, 1e6)
        keys, values = (
            noise(9, kv, length, size, dtype=dtype),
            noise(9, kv, length, size, dtype=dtype),
        )
        rows = torch.tensor([3, 0, 8, 5, 1], device=DEVICE)
        positions = torch.tensor([0, 1, 31, 32, 99], device=DEVICE)
        wide = [t.double() for t in (qkv, q_norm, k_norm)]
        wide_cache = keys.double(), values.double()
        right = reference(*wide, 1e-6, cos.double(), sin.double(), *wide_cache, rows, positions)
        found = attend(qkv, q_norm, k_norm, 1e-6, cos, sin, keys, values, rows, positions)
        limit = 2e-6 if dtype == torch.float32 else 1e-2
        assert error(found, right) < limit
        assert error(keys, wide_cache[0]) < limit
        assert torch.equal(values.double(), wide_cache[1].double())


@pytest.mark.parametrize("dtype", [torch.float32, HALF])
def test_frames(dtype: torch.dtype) -> None:
    from engine.kernels.frames import frames, reference

    torch.manual_seed(2)
    codes = torch.randint(0, 30, (7, 4), device=DEVICE)
    first, rest = noise(40, 600, dtype=dtype), noise(3, 30, 600, dtype=dtype)
    text = noise(7, 600, dtype=dtype)
    assert torch.equal(frames(codes, first, rest, text), reference(codes, first, rest, text))


def test_sample_equals_the_law() -> None:
    from engine.kernels.sample import sample

    rng, count = np.random.default_rng(3), 40 if INTERPRETED else 20_000
    for _ in range(count):
        rows, vocabulary = int(rng.integers(1, 6)), int(rng.choice([5, 64, 100]))
        if not INTERPRETED and rng.random() < 0.5:
            rows, vocabulary = int(rng.integers(1, 65)), int(rng.choice([2048, 3072]))
        params = SlotSampling.allocate(rows, DEVICE)
        for slot in range(rows):
            params.set(slot, replace(settings(rng, vocabulary), top_p=1.0))
        step = float(rng.choice([0.0, 0.25, 1.0]))  # ties
        logits = noise(rows, vocabulary, scale=float(rng.choice([0.1, 3, 30])))
        logits = (logits / step).round() * step if step else logits
        slots = torch.randperm(rows, device=DEVICE)
        seeds = torch.randint(-(1 << 62), 1 << 62, (rows,), device=DEVICE)
        counters = torch.randint(0, 9_000, (rows,), device=DEVICE)
        codes = torch.zeros(rows, 3, dtype=torch.int64, device=DEVICE)
        table = noise(vocabulary, 64)
        out = sample(logits, params, slots, seeds, counters, 7, codes[:, 1], table)
        right = draw_batch(logits, params, slots, seeds[slots], counters, 7)
        assert torch.equal(codes[:, 1], right)
        assert out is not None and torch.equal(out, table[right])
        seen = torch.rand(rows, vocabulary, device=DEVICE) < 0.3
        allowed = torch.rand(vocabulary, device=DEVICE) < 0.9
        allowed[:2] = True
        barred = torch.rand(rows, device=DEVICE) < 0.5
        first = (seen, allowed, barred, 1)
        sample(logits, params, slots, seeds, counters, 0, codes[:, 0], first=first)
        right = draw_first(
            logits, params, slots, seeds[slots], counters, seen[slots], allowed, 1, barred
        )
        assert torch.equal(codes[:, 0], right)
