"""Pieces that the talker, the code predictor and the codec share. Parameter names are the
checkpoint's.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class FusedLinear(nn.Linear):
    """Several bias-free linear layers of the checkpoint in one: their rows, in the order of
    `parts`.
    """

    def __init__(self, inputs: int, parts: dict[str, int]) -> None:
        super().__init__(inputs, sum(parts.values()), bias=False)
        self.parts = parts  # checkpoint name -> rows


class RMSNorm(nn.Module):
    """Normalised in fp32, cast back, then scaled (model.md 2)."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps
        self._folded: ShortNorm | None = None

    @torch.no_grad()
    def fold(self) -> None:
        """On the CPU in fp32: fewer and cheaper operations, the same numbers up to rounding."""
        if ShortNorm.serves(self.weight):
            self._folded = ShortNorm(self.weight, self.eps)

    def forward(self, x: Tensor) -> Tensor:
        if self._folded is not None:
            return self._folded(x)
        return normalised(x, self.eps) * self.weight


def normalised(x: Tensor, eps: float) -> Tensor:
    """RMS 1 along the last dimension, worked out in fp32."""
    return F.rms_norm(x.float(), x.shape[-1:], None, eps).to(x.dtype)


class ShortNorm:
    """RMSNorm by length: sqrt(mean x^2 + eps) = sqrt(|x|^2 + eps n) / sqrt(n). 8 us where rms_norm,
    which takes itself apart on the CPU, needs 16.
    """

    def __init__(self, weight: Tensor, eps: float) -> None:
        size = weight.shape[-1]
        self._weight = weight.detach() * size**0.5
        self._least = torch.tensor((eps * size) ** 0.5)

    @staticmethod
    def serves(weight: Tensor) -> bool:
        return weight.device.type == "cpu" and weight.dtype == torch.float32

    def __call__(self, x: Tensor) -> Tensor:
        length = torch.hypot(torch.linalg.vector_norm(x, dim=-1, keepdim=True), self._least)
        return x / length * self._weight


class MLP(nn.Module):
    """SwiGLU without biases."""

    def __init__(self, size: int, inner: int) -> None:
        super().__init__()
        self.gate_up_proj = FusedLinear(size, {"gate_proj": inner, "up_proj": inner})
        self.down_proj = nn.Linear(inner, size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up_proj(x).chunk(2, -1)
        down: Tensor = self.down_proj(F.silu(gate) * up)
        return down


class LayerScale(nn.Module):
    def __init__(self, size: int, initial: float) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((size,), initial))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * x


def rope_angles(positions: Tensor, head_dim: int, theta: float) -> tuple[Tensor, Tensor]:
    """Cosine and sine [..., head_dim] fp32 for integer positions [...]; NeoX pairing (i, i +
    head_dim / 2), the first half's sine negated for `rotate`.
    """
    steps = torch.arange(0, head_dim, 2, device=positions.device, dtype=torch.float32)
    angles = positions[..., None].float() * theta ** (-steps / head_dim)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1)


def rotate(x: Tensor, angles: tuple[Tensor, Tensor]) -> Tensor:
    """RoPE in fp32 on the last dimension; the angles broadcast over heads."""
    cos, sin = angles
    return torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, -1), sin).to(x.dtype)
