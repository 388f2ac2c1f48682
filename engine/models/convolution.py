"""The codec's causal convolutions and their activation.

On the CPU one row's convolution is a matrix product over its windows: the library's own paths for a
single short row take up to eight times as long (256 channels, 4 samples, dilation 3: 633 against
216 us; by channel: 79 against 13 us; transposed, 32 channels, 640 samples: 120 against 74 us; torch
2.13, one thread, 2026-12-01).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from engine.models.streaming import Stream


class CausalConv(nn.Module):
    def __init__(
        self, inputs: int, outputs: int, kernel: int, dilation: int = 1, groups: int = 1
    ) -> None:
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, kernel, dilation=dilation, groups=groups)
        self.past = (kernel - 1) * dilation
        self._matrix: Tensor | None = None  # [outputs, inputs * kernel] or [channels, 1, kernel]
        self._bias: Tensor | None = None  # [outputs, 1]

    @torch.no_grad()
    def fold(self) -> None:
        """On the CPU: one matrix, or one row of taps a channel where channels stay apart."""
        if self.conv.weight.device.type == "cpu":
            assert self.conv.bias is not None
            apart = self.conv.groups > 1
            self._matrix = self.conv.weight if apart else self.conv.weight.flatten(1).contiguous()
            self._bias = self.conv.bias[:, None]

    def forward(self, x: Tensor, stream: Stream) -> Tensor:
        length = x.shape[2]
        if self.past:
            x = stream.extend(x, self.past)
        if self._matrix is None or self._bias is None or len(x) > 1:
            out: Tensor = self.conv(x)
            return out
        kernel, (dilation,) = self.conv.kernel_size[0], self.conv.dilation
        strides = x.stride(1), dilation * x.stride(2), x.stride(2)
        windows = x.as_strided((x.shape[1], kernel, length), strides)
        if self.conv.groups > 1:
            return (torch.bmm(self._matrix, windows)[:, 0] + self._bias)[None]
        windows = windows.reshape(-1, length)
        return torch.addmm(self._bias, self._matrix, windows)[None]


class CausalTransposedConv(nn.Module):
    """Stride s, kernel s or 2 s: T inputs -> s T outputs; what reaches beyond them is cut off."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int) -> None:
        super().__init__()
        assert kernel in (stride, 2 * stride)
        self.conv = nn.ConvTranspose1d(inputs, outputs, kernel, stride)
        self.stride, self.overlaps = stride, kernel > stride
        # [outputs * stride, 2 inputs]: the input before, this one
        self._matrix: Tensor | None = None
        self._bias: Tensor | None = None

    @torch.no_grad()
    def fold(self) -> None:
        weight, s = self.conv.weight, self.stride  # [inputs, outputs, kernel]
        if weight.device.type == "cpu" and self.overlaps:
            assert self.conv.bias is not None
            both = torch.cat([weight[:, :, s:], weight[:, :, :s]])
            self._matrix = both.permute(1, 2, 0).reshape(-1, len(both)).contiguous()
            self._bias = self.conv.bias.repeat_interleave(s)[:, None]

    def forward(self, x: Tensor, stream: Stream) -> Tensor:
        if not self.overlaps:
            out: Tensor = self.conv(x)
            return out
        length, x = x.shape[2], stream.extend(x, 1)
        if self._matrix is None or self._bias is None or len(x) > 1:
            return self.conv(x)[..., self.stride : -self.stride]
        pairs = torch.cat([x[0, :, :-1], x[0, :, 1:]])
        out = torch.addmm(self._bias, self._matrix, pairs).view(-1, self.stride, length)
        return out.transpose(1, 2).reshape(1, -1, self.stride * length)


class SnakeBeta(nn.Module):
    """y = x + sin^2(x e^alpha) / (e^beta + 1e-9), by channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.zeros(channels))
        self.beta = nn.Parameter(torch.zeros(channels))
        self._folded: tuple[Tensor, Tensor] | None = None

    @torch.no_grad()
    def fold(self) -> None:
        self._folded = self._constants()

    def _constants(self) -> tuple[Tensor, Tensor]:
        return self.alpha.exp()[:, None], 1 / (self.beta.exp() + 1e-9)[:, None]

    def forward(self, x: Tensor, _: Stream | None = None) -> Tensor:
        frequency, gain = self._folded or self._constants()
        return torch.addcmul(x, torch.sin(x * frequency).square(), gain)
