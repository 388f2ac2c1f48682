"""y = act(norm(x) W^T + bias) + residual for few rows: the decode step's linear layers.

A tile of 16 rows reads the weights once; what bounds it is memory. The norm costs no pass of its
own: x is scaled by the norm's weight on the way in, the row's 1 / rms on the way out.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional as F

ROWS = 16  # of a tile: the least that the matrix units take


def reference(
    x: Tensor,
    weight: Tensor,
    norm: Tensor | None = None,
    eps: float = 0.0,
    bias: Tensor | None = None,
    act: str = "",
    residual: Tensor | None = None,
) -> Tensor:
    """x [R, K], weight [N, K] (gated: [2 N, K], gates first), norm [K], bias [N], residual [R, N]
    -> [R, N]. `act`: "" | silu | gated (silu of the gate times the rest).
    """
    if norm is not None:
        x = F.rms_norm(x, x.shape[1:], norm, eps)
    y = F.linear(x, weight, bias)
    if act == "silu":
        y = F.silu(y)
    elif act == "gated":
        gate, up = y.chunk(2, 1)
        y = F.silu(gate) * up
    return y if residual is None else y + residual


@triton.jit
def _linear(
    x_at, weight_at, norm_at, bias_at, residual_at, out_at, rows, outputs, eps,
    INPUTS: tl.constexpr, ACT: tl.constexpr, NORM: tl.constexpr, BIAS: tl.constexpr,
    RESIDUAL: tl.constexpr, TILE: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    r = tl.program_id(1) * TILE + tl.arange(0, TILE)
    k = tl.arange(0, STEP)
    here = (r < rows)[:, None]
    x_places = x_at + r[:, None] * INPUTS + k[None, :]
    w_places = weight_at + n[None, :] * INPUTS + k[:, None]
    y = tl.zeros([TILE, COLUMNS], tl.float32)
    up = tl.zeros([TILE, COLUMNS], tl.float32)
    squares = tl.zeros([TILE], tl.float32)
    for at in range(0, INPUTS, STEP):
        x = tl.load(x_places + at, mask=here, other=0.0)
        if NORM:
            wide = x.to(tl.float32)
            squares += tl.sum(wide * wide, 1)
            x = (wide * tl.load(norm_at + at + k).to(tl.float32)[None, :]).to(x.dtype)
        y = tl.dot(x, tl.load(w_places + at), y, input_precision="ieee")
        if ACT == "gated":
            rest = tl.load(w_places + outputs * INPUTS + at)
            up = tl.dot(x, rest, up, input_precision="ieee")
    if NORM:
        scale = (1 / tl.sqrt(squares / INPUTS + eps))[:, None]
        y *= scale
        up *= scale
    if BIAS:
        y += tl.load(bias_at + n).to(tl.float32)[None, :]
    if ACT == "silu":
        y = y / (1 + tl.exp(-y))
    if ACT == "gated":
        y = y / (1 + tl.exp(-y)) * up
    places = r[:, None] * outputs + n[None, :]
    if RESIDUAL:
        y += tl.load(residual_at + places, mask=here, other=0.0).to(tl.float32)
    tl.store(out_at + places, y.to(out_at.dtype.element_ty), mask=here)


def serves(inputs: int, outputs: int) -> bool:
    return inputs % 128 == 0 and outputs % 16 == 0


def shape(inputs: int, outputs: int) -> tuple[int, int, int, int]:
    """Columns and inputs of a tile, warps, stages; by measurement (docs/experiments.md)."""
    columns = 32 if outputs >= 4096 else 16
    step = 256 if inputs % 256 == 0 else 128
    return columns, step, 4, 4


def linear(
    x: Tensor,
    weight: Tensor,
    norm: Tensor | None = None,
    eps: float = 0.0,
    bias: Tensor | None = None,
    act: str = "",
    residual: Tensor | None = None,
    tile: tuple[int, int, int, int] | None = None,
) -> Tensor:
    """As `reference`; sums in fp32, one rounding at the end."""
    rows, inputs = x.shape
    outputs = len(weight) // (2 if act == "gated" else 1)
    columns, step, warps, stages = tile or shape(inputs, outputs)
    out = x.new_empty(rows, outputs)
    # Twice the rows in a tile where there are many: the weights are read half as often.
    height = ROWS if rows <= ROWS else 2 * ROWS
    _linear[(outputs // columns, triton.cdiv(rows, height))](
        x, weight, norm, bias, residual, out, rows, outputs, eps,
        INPUTS=inputs, ACT=act, NORM=norm is not None, BIAS=bias is not None,
        RESIDUAL=residual is not None, TILE=height, COLUMNS=columns, STEP=step,
        num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return out
