"""The talker's next input: the sum of a frame's embeddings and the text's, in one pass."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor


def reference(codes: Tensor, first: Tensor, rest: Tensor, text: Tensor) -> Tensor:
    """Codes [R, q], tables [V0, d] and [q - 1, V, d], text [R, d] -> [R, d]; each sum rounded."""
    x = first[codes[:, 0]]
    for j, table in enumerate(rest):
        x = x + table[codes[:, j + 1]]
    return x + text


@triton.jit
def _frames(
    codes_at, first_at, rest_at, text_at, out_at,
    CODES: tl.constexpr, VOCABULARY: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(0)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    here = d < WIDTH
    kind = out_at.dtype.element_ty
    code = tl.load(codes_at + r * CODES)
    x = tl.load(first_at + code * WIDTH + d, mask=here, other=0.0).to(tl.float32)
    for j in tl.static_range(1, CODES):
        code = tl.load(codes_at + r * CODES + j)
        row_at = rest_at + ((j - 1) * VOCABULARY + code) * WIDTH
        x = (x + tl.load(row_at + d, mask=here, other=0.0).to(tl.float32)).to(kind).to(tl.float32)
    x += tl.load(text_at + r * WIDTH + d, mask=here, other=0.0).to(tl.float32)
    tl.store(out_at + r * WIDTH + d, x.to(kind), mask=here)


def frames(codes: Tensor, first: Tensor, rest: Tensor, text: Tensor) -> Tensor:
    """As `reference`."""
    out = text.new_empty(text.shape)
    rows, width = text.shape
    _frames[(rows, triton.cdiv(width, 512))](
        codes.contiguous(), first, rest, text, out,
        CODES=codes.shape[1], VOCABULARY=rest.shape[1], WIDTH=width, BLOCK=512, num_warps=4,
    )  # fmt: skip
    return out
