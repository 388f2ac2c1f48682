"""KV rows, and the ways to attend: over a whole sequence, a chunk of a prompt, one step of many
rows.

On the CPU a decode step attends row by row over that row's own length, so that a row's numbers
never depend on its company; on CUDA rows are gathered up to a common length and masked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

# (layer, q [R, T, heads, D], k and v [R, T, kv heads, D]) -> [R, T, heads, D]
Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]


@dataclass
class KVCache:
    """Keys behind RoPE, and values: [layers, rows + 1, kv heads, positions, head dim]. The last row
    is scratch.
    """

    keys: Tensor
    values: Tensor

    @classmethod
    def allocate(
        cls,
        layers: int,
        rows: int,
        kv_heads: int,
        positions: int,
        head_dim: int,
        device: torch.device | str,
        dtype: torch.dtype,
    ) -> KVCache:
        shape = (layers, rows + 1, kv_heads, positions, head_dim)
        return cls(
            torch.zeros(shape, device=device, dtype=dtype),
            torch.zeros(shape, device=device, dtype=dtype),
        )

    @property
    def scratch(self) -> int:
        return self.keys.shape[1] - 1


def attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False
) -> Tensor:
    """q [R, T, H, D], k and v [R, KV, L, D] -> [R, T, H, D]; each KV head serves H / KV query
    heads.
    """
    grouped = bool(q.shape[2] != k.shape[1])  # in a recording, shapes are tensors
    if q.shape[1] == 1 and mask is None and q.device.type == "cpu":
        return _one(q, k, v)
    if grouped and q.shape[1] == 1:  # one KV head's queries as if they were positions: no copies
        one = F.scaled_dot_product_attention(q[:, 0].unflatten(1, (k.shape[1], -1)), k, v, mask)
        return one.flatten(1, 2)[:, None]
    out = F.scaled_dot_product_attention(
        q.transpose(1, 2), k, v, attn_mask=mask, is_causal=causal, enable_gqa=grouped
    )
    return out.transpose(1, 2)


def _one(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """`attention` for one position on the CPU, where the library's own takes twice as long."""
    rows, _, heads, size = q.shape
    each = (q * size**-0.5).view(rows * k.shape[1], -1, size)
    scores = torch.bmm(each, k.flatten(0, 1).transpose(1, 2)).softmax(-1)
    return torch.bmm(scores, v.flatten(0, 1)).view(rows, 1, heads, size)


def whole(_: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal over the sequence itself; keeps nothing."""
    return attention(q, k.transpose(1, 2), v.transpose(1, 2), causal=True)


class Chunk:
    """Positions `start`.. of one KV row; the keys before them are in the cache."""

    def __init__(self, cache: KVCache, row: int, start: int, length: int) -> None:
        self._cache, self._row, self._start, self._end = cache, row, start, start + length
        places = torch.arange(self._end, device=cache.keys.device)
        self._mask = places[None, :] <= places[start:, None]

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        keys, values = self._cache.keys[layer, self._row], self._cache.values[layer, self._row]
        keys[:, self._start : self._end] = k[0].transpose(0, 1)
        values[:, self._start : self._end] = v[0].transpose(0, 1)
        return attention(q, keys[None, :, : self._end], values[None, :, : self._end], self._mask)


class Place:
    """A chunk whose row, start and length are tensors, for a graph: what lies behind its length
    goes to the scratch row.
    """

    def __init__(self, cache: KVCache, row: Tensor, start: Tensor, length: Tensor, t: int) -> None:
        """`row`, `start`, `length`: [1] int64; `t`: positions of the call."""
        self._cache, self._row = cache, row
        new = torch.arange(t, device=row.device)
        places = torch.arange(cache.keys.shape[3], device=row.device)
        self.positions = (start + new).clamp(max=len(places) - 1)
        self._rows = torch.where(new < length, row, cache.scratch)
        self._mask = places[None, :] <= self.positions[:, None]

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        keys, values = self._cache.keys[layer], self._cache.values[layer]
        keys[self._rows, :, self.positions] = k[0]
        values[self._rows, :, self.positions] = v[0]
        return attention(q, keys[self._row], values[self._row], self._mask)


class Step:
    """One position each of many KV rows: rows and positions [R] int64. `longest`: no position
    reaches it.
    """

    def __init__(self, cache: KVCache, rows: Tensor, positions: Tensor, longest: int) -> None:
        self._cache, self._rows, self._positions = cache, rows, positions
        self._each: list[tuple[Tensor, Tensor]] | None = None
        if rows.device.type == "cpu":  # tensors, not numbers: a recording must not freeze them
            self._each = list(zip(rows.unbind(), positions.unbind(), strict=True))
        else:
            self._longest = min(longest, cache.keys.shape[3])
            places = torch.arange(self._longest, device=rows.device)
            self._mask = (places <= positions[:, None])[:, None, None, :]

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        keys, values = self._cache.keys[layer], self._cache.values[layer]
        if self._each is None:
            keys[self._rows, :, self._positions] = k[:, 0]
            values[self._rows, :, self._positions] = v[:, 0]
            near = slice(0, self._longest)
            return attention(q, keys[self._rows, :, near], values[self._rows, :, near], self._mask)
        out = []
        for i, (row, at) in enumerate(self._each):
            keys[row, :, at], values[row, :, at] = k[i, 0], v[i, 0]
            seen = slice(0, at + 1)
            out.append(
                attention(q[i : i + 1], keys[row, None, :, seen], values[row, None, :, seen])
            )
        return torch.cat(out)


class Brief:
    """The code predictor's few positions, the same for all rows: keys and values [layers, R, KV,
    codes, D].
    """

    def __init__(self, keys: Tensor, values: Tensor, at: int) -> None:
        """`at`: the first position that is new."""
        self._keys, self._values, self._at = keys, values, at

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        keys, values, end = self._keys[layer], self._values[layer], self._at + q.shape[1]
        keys[:, :, self._at : end] = k.transpose(1, 2)
        values[:, :, self._at : end] = v.transpose(1, 2)
        return attention(q, keys[:, :, :end], values[:, :, :end], causal=bool(q.shape[1] > 1))
