"""The codec's activation for training: one kernel forward, two backward, half precision kept."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def _forward(x: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    wide = x.float()
    sine = torch.sin(wide * alpha.exp()[:, None])
    return (wide + sine * sine * (-beta).exp()[:, None]).to(x.dtype)


def _backward(
    x: Tensor, alpha: Tensor, beta: Tensor, grad: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    wide, flow = x.float(), grad.float()
    rate, scale = alpha.exp()[:, None], (-beta).exp()[:, None]
    sine, cosine = torch.sin(wide * rate), torch.cos(wide * rate)
    slope = 2 * sine * cosine * rate * scale
    to_alpha = (flow * slope * wide).sum((0, 2))
    to_beta = -(flow * sine * sine * scale).sum((0, 2))
    return (flow * (1 + slope)).to(x.dtype), to_alpha, to_beta


class Snake(torch.autograd.Function):
    """x + sin(e^alpha x)^2 / e^beta over channels; x [B, C, T], alpha and beta [C] fp32."""

    fused = False

    @staticmethod
    def forward(ctx: Any, x: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
        ctx.save_for_backward(x, alpha, beta)
        return (_fused_forward if Snake.fused else _forward)(x, alpha, beta)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return (_fused_backward if Snake.fused else _backward)(
            *ctx.saved_tensors, grad.contiguous()
        )


torch._dynamo.config.recompile_limit = 64  # one kernel for each width and length
_fused_forward = torch.compile(_forward, dynamic=False)
_fused_backward = torch.compile(_backward, dynamic=False)
