"""Weights that are a function of their names: the same in every process and library version, so a
golden file holds what comes out and nothing of what goes in.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor


def drawn(shapes: Mapping[str, tuple[int, ...]], seed: int = 0) -> dict[str, Tensor]:
    """fp32 tensors by name, of sizes that keep a signal's size: it neither dies nor bursts."""
    return {name: _drawn(name, shape, seed) for name, shape in shapes.items()}


def _drawn(name: str, shape: tuple[int, ...], seed: int) -> Tensor:
    # RandomState's stream is frozen for good; torch's and default_rng's are not.
    random = np.random.RandomState(zlib.crc32(f"{seed} {name}".encode()))
    noise = torch.from_numpy(random.standard_normal(shape).astype(np.float32))
    if "norm" in name and name.endswith("weight"):
        return 1 + 0.2 * noise
    if name.endswith("cluster_usage"):
        return 0.5 + noise.abs()
    if name.endswith(("alpha", "beta", "bias", "scale", "gamma")):
        return 0.3 * noise
    if "embedding" in name:
        return noise
    if "conv2" in name:  # beside a residual
        noise *= 0.3
    if shape[0] == 1:  # the codec's last conv: samples stay off the clamp
        noise *= 0.1
    return noise * math.prod(shape[1:]) ** -0.5
