"""A code of each row of logits, by `engine.sampling`'s law without top-p; equal to it bit for bit.

One program a row: penalty, temperature, the k-th score by bisection of its bits, noise in float64,
the greatest. The code's row of a table goes out with it: the code predictor's next input.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from engine.randomness import CODEBOOK, COUNTER, FIRST, ID, SECOND, SEED, WORD, signed
from engine.sampling import SlotSampling

_SEED, _COUNTER, _ID = (
    tl.constexpr(signed(SEED)),
    tl.constexpr(signed(COUNTER)),
    tl.constexpr(signed(ID)),
)
_A, _B = tl.constexpr(signed(FIRST)), tl.constexpr(signed(SECOND))


@triton.jit
def _sample(
    logits_at, slots_at, greedy_at, temperature_at, top_k_at, seeds_at, counters_at, codes_at,
    table_at, out_at, penalty_at, seen_at, allowed_at, barred_at,
    place, eos, codes_stride,
    VOCABULARY: tl.constexpr, SPAN: tl.constexpr, WITH_EOS: tl.constexpr, TABLE: tl.constexpr,
    WIDTH: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(0)
    slot = tl.load(slots_at + r)
    ids = tl.arange(0, SPAN)
    real = ids < VOCABULARY
    x = tl.load(logits_at + r * VOCABULARY + ids, mask=real, other=float("-inf")).to(tl.float32)
    if WITH_EOS:
        penalty = tl.zeros([SPAN], tl.float32) + tl.load(penalty_at + slot)
        seen = tl.load(seen_at + slot * VOCABULARY + ids, mask=real, other=0) != 0
        moved = tl.where(x < 0, x * penalty, tl.div_rn(x, penalty))
        x = tl.where(seen, moved, x)
        allowed = tl.load(allowed_at + ids, mask=real, other=0) != 0
        barred = tl.load(barred_at + r) != 0
        x = tl.where(allowed & ~((ids == eos) & barred), x, float("-inf"))
    x = tl.div_rn(x, tl.zeros([SPAN], tl.float32) + tl.load(temperature_at + slot))
    bits = x.to(tl.int32, bitcast=True)
    order = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).to(tl.int64)  # integers in the scores' order
    order = tl.where(real, order + 0x80000000, 0)
    k = tl.load(top_k_at + slot)
    k = tl.where((k == 0) | (k > VOCABULARY), VOCABULARY, k)
    least = k * 0
    for i in range(32):
        higher = least | (k * 0 + 1 << (31 - i))
        least = tl.where(tl.sum((order >= higher).to(tl.int32), 0) >= k, higher, least)
    back = least - 0x80000000
    kth_bits = (tl.zeros([SPAN], tl.int64) + back).to(tl.int32)
    kth = (kth_bits ^ ((kth_bits >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)
    kept = real & ~(x < kth)
    z = tl.load(seeds_at + slot) * _SEED + tl.load(counters_at + r) * _COUNTER + place
    z = ids.to(tl.int64) * _ID + z
    z ^= (z >> 30) & 0x3FFFFFFFF
    z *= _A
    z ^= (z >> 27) & 0x1FFFFFFFFF
    z *= _B
    half = tl.full([SPAN], 2147483648.5, tl.float64)
    u = ((z >> 32).to(tl.float64) + half) * tl.full([SPAN], 2.0**-32, tl.float64)
    noise = -tl.log(-tl.log(u))
    noise = tl.where(tl.load(greedy_at + slot) != 0, tl.full([SPAN], 0.0, tl.float64), noise)
    score = tl.where(kept, x.to(tl.float64) + noise, tl.full([SPAN], float("-inf"), tl.float64))
    code = tl.argmax(score, 0, tie_break_left=True)
    tl.store(codes_at + r * codes_stride, code.to(tl.int64))
    if TABLE:
        d = tl.arange(0, WIDTH)
        tl.store(out_at + r * WIDTH + d, tl.load(table_at + code.to(tl.int64) * WIDTH + d))


def sample(
    logits: Tensor,
    params: SlotSampling,
    slots: Tensor,
    seeds: Tensor,
    counters: Tensor,
    codebook: int,
    codes: Tensor,
    table: Tensor | None = None,
    first: tuple[Tensor, Tensor, Tensor, int] | None = None,
) -> Tensor | None:
    """Logits [R, V] -> codes [R] (any stride) by the settings and `seeds` of `slots` [R];
    `counters` [R]. `table` [V, w]: returns the codes' rows. `first`: seen [slots, V], allowed [V],
    barred [R] and the id of EOS, for code 0.
    """
    rows, vocabulary = logits.shape
    width = table.shape[1] if table is not None else 1
    out = table.new_empty(rows, width) if table is not None else None
    seen, allowed, barred, eos = first or (None, None, None, 0)
    _sample[(rows,)](
        logits, slots, params.greedy, params.temperature, params.top_k, seeds, counters, codes,
        table, out, params.repetition_penalty, seen, allowed, barred,
        signed(codebook * CODEBOOK & WORD), eos, codes.stride(0),
        VOCABULARY=vocabulary, SPAN=triton.next_power_of_2(vocabulary), WITH_EOS=first is not None,
        TABLE=table is not None, WIDTH=width, num_warps=8,
    )  # fmt: skip
    return out
