"""One code a row from a row of logits (model.md 5.2). Knows no model and no plan.

A row's code is a function of its logits, its settings and (seed, counter, codebook): who shares the
call, in which order and on which device has no part in it.

The order among tokens: the greater score first, of equal scores the lower id. Top-k keeps all that
equal the k-th; top-p keeps the shortest beginning of the order that holds the mass (summed in that
order in float64), so it may cut between equals. The draw is Gumbel-max on scores in float64:
logits, never probabilities.

Two forms agree. On the CPU it goes row by row in numpy (16 draws of 2 rows: 0.9 ms, 1.6 in torch).
Elsewhere all rows go at once and the host never waits: what it must know to choose its operations
it learned in `set`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from sys import float_info

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.messages import Sampling
from engine.randomness import uniform, uniform_at

LEAST = float_info.min  # a mass that the likeliest code alone holds


@dataclass
class SlotSampling:
    """Every slot's settings; the last slot is scratch. In the tensors a stage that is off holds
    what changes nothing: top_k 0, top_p inf. A greedy slot keeps the equals of its best score and
    draws without noise.
    """

    greedy: Tensor  # [slots + 1] bool
    temperature: Tensor  # [slots + 1] float32
    top_k: Tensor  # [slots + 1] int64
    top_p: Tensor  # [slots + 1] float64
    repetition_penalty: Tensor  # [slots + 1] float32
    host: list[Sampling] = field(default_factory=list)  # the same, for the host

    @classmethod
    def allocate(cls, slots: int, device: torch.device | str) -> SlotSampling:
        """Slots that were never set are greedy."""
        n = slots + 1
        return cls(
            greedy=torch.ones(n, dtype=torch.bool, device=device),
            temperature=torch.ones(n, device=device),
            top_k=torch.ones(n, dtype=torch.int64, device=device),
            top_p=torch.full((n,), inf, dtype=torch.float64, device=device),
            repetition_penalty=torch.ones(n, device=device),
            host=[Sampling(greedy=True, repetition_penalty=1.0)] * n,
        )

    def set(self, slot: int, s: Sampling) -> None:
        assert s.temperature > 0 and s.top_k >= 0 and 0 <= s.top_p <= 1, s
        assert s.repetition_penalty > 0, s
        s = replace(s, top_p=s.top_p or LEAST)
        self.host[slot] = s
        self.greedy[slot] = s.greedy
        self.temperature[slot] = 1.0 if s.greedy else s.temperature
        self.top_k[slot] = 1 if s.greedy else s.top_k
        self.top_p[slot] = inf if s.greedy or s.top_p == 1 else s.top_p
        self.repetition_penalty[slot] = s.repetition_penalty

    @property
    def most(self) -> int:
        """The greatest top-k of any slot; 0: no slot has one."""
        return max(1 if s.greedy else s.top_k for s in self.host)

    @property
    def any_top_p(self) -> bool:
        return any(s.top_p < 1 and not s.greedy for s in self.host)


def draw_first(
    logits: Tensor,
    params: SlotSampling,
    rows: Tensor,
    seeds: Tensor,
    counters: Tensor,
    seen: Tensor,
    allowed: Tensor,
    eos: int,
    eos_barred: Tensor,
) -> Tensor:
    """Code 0 [R] of logits [R, V] fp32: penalty on `seen` [R, V], EOS barred by row [R], `allowed`
    [V], then as `draw`.
    """
    penalty = params.repetition_penalty.index_select(0, rows)[:, None]
    moved = torch.where(logits < 0, logits * penalty, logits / penalty)
    logits = torch.where(seen, moved, logits)
    logits = torch.where(allowed, logits, -inf)
    logits[:, eos].masked_fill_(eos_barred, -inf)
    return draw(logits, params, rows, seeds, counters, 0)


def draw(
    logits: Tensor,
    params: SlotSampling,
    rows: Tensor,
    seeds: Tensor,
    counters: Tensor,
    codebook: int,
) -> Tensor:
    """A code [R] int64 from logits [R, V] fp32 by the settings of slots `rows` [R]: temperature,
    top-k, top-p, draw. `seeds` and `counters` [R] int64 name the draw.
    """
    if logits.device.type != "cpu":
        return draw_batch(logits, params, rows, seeds, counters, codebook)
    names = zip(rows.tolist(), seeds.tolist(), counters.tolist(), strict=True)
    scores = logits.detach().numpy()
    codes = [
        _draw_row(row, params.host[slot], seed, counter, codebook)
        for row, (slot, seed, counter) in zip(scores, names, strict=True)
    ]
    return torch.tensor(codes, dtype=torch.int64)


def _draw_row(
    logits: NDArray[np.float32], s: Sampling, seed: int, counter: int, codebook: int
) -> int:
    if s.greedy:
        return int(logits.argmax())
    scores = logits / np.float32(s.temperature)
    n = len(scores)
    if 0 < s.top_k < n:
        kth = np.partition(scores, n - s.top_k)[n - s.top_k]
        ids = np.flatnonzero(~(scores < kth))  # not a number stays, to be drawn and heard of
        scores = scores[ids]
    else:
        ids = np.arange(n)
    if s.top_p < 1:
        order = np.argsort(-scores, kind="stable")
        best = scores[order].astype(np.float64)
        mass = np.cumsum(np.exp(best - best[0]))
        before = np.concatenate(([0.0], mass[:-1]))
        kept = np.sort(order[before < s.top_p * mass[-1]])
        ids, scores = ids[kept], scores[kept]
    noise = -np.log(-np.log(uniform_at(seed, counter, codebook, ids)))
    return int(ids[(scores + noise).argmax()])


def draw_batch(
    logits: Tensor,
    params: SlotSampling,
    rows: Tensor,
    seeds: Tensor,
    counters: Tensor,
    codebook: int,
) -> Tensor:
    """`draw` for all rows at once, on any device; no shape depends on what the tensors hold."""
    scores = logits / params.temperature.index_select(0, rows)[:, None]
    n = scores.shape[1]
    if most := min(params.most, n):
        k = params.top_k.index_select(0, rows)[:, None].clamp(max=n)
        kth = scores.topk(most).values.gather(1, (k - 1).clamp_(min=0))
        scores = torch.where((scores >= kth) | (k == 0), scores, -inf)
    if params.any_top_p:
        scores = _keep_mass(scores, params.top_p.index_select(0, rows)[:, None])
    noise = uniform(seeds, counters, codebook, n).log_().neg_().log_().neg_()
    noise.masked_fill_(params.greedy.index_select(0, rows)[:, None], 0)
    return (scores + noise).argmax(1)


def _keep_mass(scores: Tensor, top_p: Tensor) -> Tensor:
    """Scores outside of the mass `top_p` [R, 1] become -inf."""
    best, order = scores.sort(dim=1, descending=True, stable=True)
    mass = (best.double() - best[:, :1]).exp_().cumsum(1)
    before = torch.nn.functional.pad(mass[:, :-1], (1, 0))
    kept = before < top_p * mass[:, -1:]
    return torch.where(torch.empty_like(kept).scatter_(1, order, kept), scores, -inf)
