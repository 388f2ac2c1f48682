"""Sampling equals an oracle written after model.md 5.2, and a row's code is its own affair."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import pytest
import torch
from torch import Tensor

from engine import sampling
from engine.messages import Sampling
from engine.sampling import SlotSampling, draw, draw_batch, draw_first

Draw = Callable[[Tensor, SlotSampling, Tensor, Tensor, Tensor, int], Tensor]
FORMS = pytest.mark.parametrize("form", [draw, draw_batch], ids=["rows", "batch"])
LARGEST_SEED = 2**53 - 1
NONE = frozenset[int]()


def oracle_number(seed: int, counter: int, codebook: int, i: int) -> float:
    """A number in (0, 1) of its place, in unbounded integers."""
    place = (0xDB4F0B9175AE2165, 0xBBE0563303A4615F, 0xA0F2EC75A1FE1575, 0x89E182857D9ED689)
    named = (seed, counter, codebook, i)
    z = sum(a * b for a, b in zip(place, named, strict=True)) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return ((z >> 32) ^ 2**31) / 2**32 + 2.0**-33


def oracle(
    logits: list[float],
    s: Sampling,
    name: tuple[int, int, int],
    seen: frozenset[int] = NONE,
    barred: frozenset[int] = NONE,
) -> int:
    """One row, stage by stage (model.md 5.2); single precision up to the temperature."""
    single = np.array(logits, dtype=np.float32)
    for i in seen:
        penalty = np.float32(s.repetition_penalty)
        single[i] = single[i] * penalty if single[i] < 0 else single[i] / penalty
    for i in barred:
        single[i] = -math.inf
    if not s.greedy:
        single = single / np.float32(s.temperature)
    scores = single.tolist()
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
    if s.greedy:
        return order[0]
    if 0 < s.top_k < len(order):
        least = scores[order[s.top_k - 1]]
        order = [i for i in order if scores[i] >= least]
    if s.top_p < 1:
        weights = [math.exp(scores[i] - scores[order[0]]) for i in order]
        held = list(accumulate(weights, initial=0.0))  # before each, and the whole
        mass = s.top_p * held[-1]
        order = order[:1] + [i for i, h in zip(order[1:], held[1:], strict=False) if h < mass]
    best_score, best_id = -math.inf, -1
    for i in sorted(order):
        score = scores[i] - math.log(-math.log(oracle_number(*name, i)))
        if score > best_score:
            best_score, best_id = score, i
    return best_id


@dataclass
class Case:
    logits: Tensor  # [R, V]
    settings: list[Sampling]
    seeds: Tensor
    counters: Tensor
    codebook: int
    seen: Tensor  # [R, V] bool
    allowed: Tensor  # [V] bool
    eos: int
    eos_barred: Tensor  # [R] bool
    params: SlotSampling
    rows: Tensor

    def expected(self) -> list[int]:
        names = zip(self.seeds.tolist(), self.counters.tolist(), strict=True)
        return [
            oracle(x, s, (*n, self.codebook))
            for x, s, n in zip(self.logits.tolist(), self.settings, names, strict=True)
        ]

    def expected_first(self) -> list[int]:
        suppressed = frozenset(torch.nonzero(~self.allowed)[:, 0].tolist())
        codes = []
        for r, (x, s) in enumerate(zip(self.logits.tolist(), self.settings, strict=True)):
            seen = frozenset(torch.nonzero(self.seen[r])[:, 0].tolist())
            barred = suppressed | ({self.eos} if self.eos_barred[r] else NONE)
            name = (int(self.seeds[r]), int(self.counters[r]), 0)
            codes.append(oracle(x, s, name, seen, barred))
        return codes

    def first(self) -> Tensor:
        p, n = self.params, (self.rows, self.seeds, self.counters)
        return draw_first(self.logits, p, *n, self.seen, self.allowed, self.eos, self.eos_barred)


def settings(r: np.random.Generator, vocab: int) -> Sampling:
    temperatures = [0.01, 2.0, 1.0, float(np.exp(r.uniform(np.log(0.01), np.log(2))))]
    return Sampling(
        greedy=bool(r.random() < 0.15),
        temperature=float(r.choice(temperatures)),
        top_k=int(r.choice([0, 1, 2, 7, 50, vocab - 1, vocab, vocab + 9])),
        top_p=float(r.choice([0.0, 0.01, 0.25, 0.5, 0.9, 0.999, 1.0, 1.0, 1.0, r.uniform(0, 1)])),
        repetition_penalty=float(r.choice([0.1, 0.5, 1.0, 1.05, 2.0])),
    )


def cases(count: int, seed: int) -> Iterator[Case]:
    """Calls of 1 to 8 rows, `count` rows in all. Half of the calls have few levels: many ties."""
    r = np.random.default_rng(seed)
    while count > 0:
        rows, vocab = int(min(r.integers(1, 9), count)), int(r.choice([9, 33, 64, 130]))
        count -= rows
        logits = r.normal(size=(rows, vocab)) * r.choice([0.1, 2, 20])
        if r.random() < 0.5:
            logits = np.round(logits / (step := r.choice([0.5, 1, 8]))) * step
        slots = r.permutation(10)[:rows]
        params = SlotSampling.allocate(9, "cpu")
        chosen = [settings(r, vocab) for _ in range(rows)]
        if r.random() < 0.3:  # all alike, as most engines run
            chosen = [chosen[0]] * rows
        for slot, s in zip(slots, chosen, strict=True):
            params.set(int(slot), s)
        eos = vocab - 2
        allowed = torch.arange(vocab) < vocab - 4
        allowed[eos] = True
        yield Case(
            logits=torch.tensor(logits, dtype=torch.float32),
            settings=chosen,
            seeds=torch.tensor(r.choice([0, 1, LARGEST_SEED, int(r.integers(2**53))], rows)),
            counters=torch.tensor(r.integers(0, 8192, rows)),
            codebook=int(r.integers(1, 16)),
            seen=torch.tensor(r.random((rows, vocab)) < 0.3),
            allowed=allowed,
            eos=eos,
            eos_barred=torch.tensor(r.random(rows) < 0.5),
            params=params,
            rows=torch.tensor(slots),
        )


def test_a_draw_equals_the_oracle() -> None:
    for c in cases(10_500, seed=1):
        expected = c.expected()
        for form in (draw, draw_batch):
            codes = form(c.logits, c.params, c.rows, c.seeds, c.counters, c.codebook)
            assert codes.dtype == torch.int64
            assert codes.tolist() == expected, c


def test_a_first_draw_equals_the_oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    for c in cases(10_500, seed=2):
        expected = c.expected_first()
        for form in (draw, draw_batch):
            monkeypatch.setattr(sampling, "draw", form)
            before = c.logits.clone()
            assert c.first().tolist() == expected, c
            assert torch.equal(c.logits, before)


@FORMS
def test_a_row_does_not_depend_on_its_company_or_its_place(form: Draw) -> None:
    r = np.random.default_rng(3)
    for c in cases(2_000, seed=4):
        together = form(c.logits, c.params, c.rows, c.seeds, c.counters, c.codebook)
        order = torch.tensor(r.permutation(len(c.rows)))
        mixed = form(
            c.logits[order],
            c.params,
            c.rows[order],
            c.seeds[order],
            c.counters[order],
            c.codebook,
        )
        assert torch.equal(mixed, together[order])
        for i, s in enumerate(c.settings):
            lonely = SlotSampling.allocate(0, "cpu")
            lonely.set(0, s)
            one = slice(i, i + 1)
            alone = form(
                c.logits[one],
                lonely,
                torch.tensor([0]),
                c.seeds[one],
                c.counters[one],
                c.codebook,
            )
            assert torch.equal(alone, together[one])


def test_the_batch_form_never_asks_the_device() -> None:
    """A meta tensor has a shape and no values: what needs one, or a shape made of one, fails."""
    params = SlotSampling.allocate(3, "meta")
    params.set(0, Sampling(top_p=0.9))
    params.set(1, Sampling(greedy=True))
    params.set(2, Sampling(top_k=0))

    def meta(*shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
        return torch.empty(*shape, dtype=dtype, device="meta")

    names = meta(5), meta(5), meta(5)
    masks = meta(5, 64, dtype=torch.bool), meta(64, dtype=torch.bool)
    logits = meta(5, 64, dtype=torch.float32)
    barred = meta(5, dtype=torch.bool)
    assert draw(logits, params, *names, 3).shape == (5,)
    assert draw_first(logits, params, *names, *masks, 62, barred).shape == (5,)


@FORMS
def test_a_slot_forgets_its_former_settings(form: Draw) -> None:
    params = SlotSampling.allocate(1, "cpu")
    logits = torch.zeros(1, 16)
    rows, seeds, counters = torch.tensor([0]), torch.tensor([7]), torch.tensor([0])
    params.set(0, Sampling(greedy=True, top_k=3, top_p=0.1, temperature=0.5))
    assert form(logits, params, rows, seeds, counters, 1).tolist() == [0]
    params.set(0, Sampling(top_k=0))
    drawn = form(logits, params, rows, seeds, counters, 1).tolist()
    assert drawn == [oracle([0.0] * 16, Sampling(top_k=0), (7, 0, 1))]
    assert drawn != [0]


@pytest.mark.parametrize(
    "wrong",
    [
        Sampling(temperature=0),
        Sampling(top_k=-1),
        Sampling(top_p=-0.1),
        Sampling(top_p=1.1),
        Sampling(repetition_penalty=0),
    ],
)
def test_settings_out_of_range_never_reach_a_slot(wrong: Sampling) -> None:
    with pytest.raises(AssertionError):
        SlotSampling.allocate(1, "cpu").set(0, wrong)


@pytest.mark.gpu
def test_a_gpu_draws_what_a_cpu_draws() -> None:
    for c in cases(4_000, seed=5):
        params = SlotSampling.allocate(9, "cuda")
        for slot, s in enumerate(c.params.host):
            params.set(slot, s)
        names = c.rows.cuda(), c.seeds.cuda(), c.counters.cuda()
        codes = draw(c.logits.cuda(), params, *names, c.codebook)
        assert codes.tolist() == c.expected(), c


@FORMS
@pytest.mark.parametrize("vary", ["seed", "counter"])
def test_draws_follow_the_softmax(form: Draw, vary: str) -> None:
    n, settings = 40_000, Sampling(temperature=1.5, top_k=0)
    row = torch.tensor([2.0, 1.0, 0.5, 0.0, -1.0, -3.0])
    params = SlotSampling.allocate(0, "cpu")
    params.set(0, settings)
    name = {"seed": torch.full((n,), LARGEST_SEED - n), "counter": torch.zeros(n).long()}
    name[vary] += torch.arange(n)
    rows = torch.zeros(n, dtype=torch.int64)
    drawn = form(row.expand(n, -1), params, rows, name["seed"], name["counter"], 5)
    expected = torch.softmax(row.double() / settings.temperature, 0) * n
    found = torch.bincount(drawn, minlength=len(row))
    assert chi_square(found, expected) < 20.5  # 5 degrees of freedom, 1 in 1,000


@FORMS
def test_top_k_and_top_p_bound_what_is_drawn_and_keep_its_shares(form: Draw) -> None:
    n = 20_000
    shares = torch.tensor([0.4, 0.3, 0.15, 0.1, 0.05])
    params = SlotSampling.allocate(0, "cpu")
    params.set(0, Sampling(temperature=1, top_k=4, top_p=0.8))
    zeros = torch.zeros(n, dtype=torch.int64)
    drawn = form(shares.log().expand(n, -1), params, zeros, torch.arange(n), zeros, 2)
    kept = torch.tensor([0.4, 0.3, 0.15]) / 0.85  # of 0.95: 0.42, 0.74, 0.89 hold 0.8
    assert chi_square(torch.bincount(drawn, minlength=5)[:3], kept * n) < 13.8
    assert int(drawn.max()) == 2


def chi_square(found: Tensor, expected: Tensor) -> float:
    return float(((found - expected) ** 2 / expected).sum())
