"""The checkpoint's tensor names for a module: fused layers are several tensors there."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from engine.models.layers import FusedLinear


def named_parts(module: nn.Module, prefix: str) -> Iterator[tuple[str, list[str], list[int]]]:
    """(parameter, names in the checkpoint, rows of each) for every parameter of `module`."""
    fused = {n: m for n, m in module.named_modules() if isinstance(m, FusedLinear)}
    for name, parameter in module.named_parameters():
        owner, _, kind = name.rpartition(".")
        if owner in fused:
            parent = owner.rpartition(".")[0]
            parts = fused[owner].parts
            yield name, [f"{prefix}{parent}.{part}.{kind}" for part in parts], list(parts.values())
        else:
            yield name, [prefix + name], [parameter.shape[0]]


def shapes(module: nn.Module, prefix: str) -> dict[str, tuple[int, ...]]:
    """Every tensor that the checkpoint must hold for `module`."""
    found = {}
    for name, parts, rows in named_parts(module, prefix):
        rest = module.get_parameter(name).shape[1:]
        found.update({part: (n, *rest) for part, n in zip(parts, rows, strict=True)})
    return found


@torch.no_grad()
def fill(module: nn.Module, prefix: str, tensor: Callable[[str], Tensor]) -> None:
    """Copy the checkpoint's tensors in, cast to the module's types; `tensor` gives one by name."""
    for name, parts, rows in named_parts(module, prefix):
        target = module.get_parameter(name)
        for part, into in zip(parts, target.split(rows), strict=True):
            into.copy_(tensor(part))
