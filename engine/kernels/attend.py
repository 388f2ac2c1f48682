"""One new position of each row attends over its own length: q and k norm, rotation, the cache's
new entry and the attention in one pass over the row's keys.

A program serves one key head of one row and reads the row's length on the device: nothing depends
on the longest row, and no graph on any length.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional as F

BLOCK = 32  # positions that one turn takes


def reference(
    qkv: Tensor,
    q_norm: Tensor,
    k_norm: Tensor,
    eps: float,
    cos: Tensor,
    sin: Tensor,
    keys: Tensor,
    values: Tensor,
    rows: Tensor,
    positions: Tensor,
) -> Tensor:
    """qkv [R, (heads + 2 kv) D]; q_norm, k_norm [D]; cos, sin [positions, D] (sin's first half
    negated); keys, values [rows, kv, positions, D], written at `positions` [R] of `rows` [R] ->
    [R, heads D].
    """
    kv, size = keys.shape[1], keys.shape[3]
    out = []
    for x, row, at in zip(qkv.unflatten(1, (-1, size)), rows, positions, strict=True):
        q, k, v = x.split([len(x) - 2 * kv, kv, kv])
        q, k = F.rms_norm(q, (size,), q_norm, eps), F.rms_norm(k, (size,), k_norm, eps)
        q, k = (y * cos[at] + y.roll(size // 2, -1) * sin[at] for y in (q, k))
        keys[row, :, at], values[row, :, at] = k, v
        seen = slice(0, int(at) + 1)
        y = F.scaled_dot_product_attention(
            q[None, :, None], keys[row, :, seen][None], values[row, :, seen][None], enable_gqa=True
        )
        out.append(y.flatten())
    return torch.stack(out)


@triton.jit
def _rotated(heads_at, h, norm_at, eps, cos, sin, SIZE: tl.constexpr):
    """Heads h [G] at `heads_at`, normalised and rotated [G, SIZE] fp32, rounded as the cache is."""
    d = tl.arange(0, SIZE)
    other = (d + SIZE // 2) % SIZE
    kind = heads_at.dtype.element_ty
    x = tl.load(heads_at + h[:, None] * SIZE + d[None, :]).to(tl.float32)
    y = tl.load(heads_at + h[:, None] * SIZE + other[None, :]).to(tl.float32)
    scale = (1 / tl.sqrt(tl.sum(x * x, 1) / SIZE + eps))[:, None]
    x = (x * scale).to(kind).to(tl.float32) * tl.load(norm_at + d).to(tl.float32)[None, :]
    y = (y * scale).to(kind).to(tl.float32) * tl.load(norm_at + other).to(tl.float32)[None, :]
    x, y = x.to(kind).to(tl.float32), y.to(kind).to(tl.float32)
    return (x * cos[None, :] + y * sin[None, :]).to(kind).to(tl.float32)


@triton.jit
def _attend(
    qkv_at, q_norm_at, k_norm_at, cos_at, sin_at, keys_at, values_at, rows_at, positions_at,
    out_at, eps, scale, positions,
    KV: tl.constexpr, GROUP: tl.constexpr, SIZE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    r, h = tl.program_id(0), tl.program_id(1)
    row, at = tl.load(rows_at + r), tl.load(positions_at + r)
    d = tl.arange(0, SIZE)
    g = tl.arange(0, GROUP)
    cos, sin = tl.load(cos_at + at * SIZE + d), tl.load(sin_at + at * SIZE + d)
    heads_at = qkv_at + r * (GROUP + 2) * KV * SIZE
    one = tl.arange(0, 1)
    q = _rotated(heads_at, h * GROUP + g, q_norm_at, eps, cos, sin, SIZE) * scale
    k = _rotated(heads_at, GROUP * KV + h + one, k_norm_at, eps, cos, sin, SIZE)
    v = tl.load(heads_at + ((GROUP + 1) * KV + h) * SIZE + d)
    start = (row * KV + h) * positions * SIZE
    kind = keys_at.dtype.element_ty
    tl.store(keys_at + start + at * SIZE + one[:, None] + d[None, :], k.to(kind))
    tl.store(values_at + start + at * SIZE + d, v)
    most = tl.sum(q * k, 1)  # [GROUP]: the position sees itself
    total = tl.full([GROUP], 1.0, tl.float32)
    y = tl.zeros([GROUP, SIZE], tl.float32) + v.to(tl.float32)[None, :]
    n = tl.arange(0, BLOCK)
    for begin in range(0, at, BLOCK):
        there = begin + n < at
        places = start + (begin + n)[:, None] * SIZE + d[None, :]
        ks = tl.load(keys_at + places, mask=there[:, None], other=0.0).to(tl.float32)
        vs = tl.load(values_at + places, mask=there[:, None], other=0.0).to(tl.float32)
        scores = tl.sum(q[:, None, :] * ks[None, :, :], 2)
        scores = tl.where(there[None, :], scores, float("-inf"))
        new = tl.maximum(most, tl.max(scores, 1))
        shares, kept = tl.exp(scores - new[:, None]), tl.exp(most - new)
        total = total * kept + tl.sum(shares, 1)
        y = y * kept[:, None] + tl.sum(shares[:, :, None] * vs[None, :, :], 1)
        most = new
    y = y / total[:, None]
    places = (r * KV + h) * GROUP * SIZE + g[:, None] * SIZE + d[None, :]
    tl.store(out_at + places, y.to(out_at.dtype.element_ty))


def attend(
    qkv: Tensor,
    q_norm: Tensor,
    k_norm: Tensor,
    eps: float,
    cos: Tensor,
    sin: Tensor,
    keys: Tensor,
    values: Tensor,
    rows: Tensor,
    positions: Tensor,
) -> Tensor:
    """As `reference`."""
    assert keys.is_contiguous() and values.is_contiguous() and qkv.is_contiguous()
    kv, length, size = keys.shape[1:]
    group = qkv.shape[1] // size // kv - 2
    out = qkv.new_empty(len(qkv), group * kv * size)
    _attend[(len(qkv), kv)](
        qkv, q_norm, k_norm, cos, sin, keys, values, rows, positions, out, eps, size**-0.5, length,
        KV=kv, GROUP=group, SIZE=size, BLOCK=BLOCK, num_warps=4,
    )  # fmt: skip
    return out
