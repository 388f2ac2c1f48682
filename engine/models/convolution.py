"""The codec's causal convolutions and their activation, in two layouts.

`forward` takes [R, C, T] of any rows, whole or streamed. On the CPU `row` continues one stream in
[T, C]: a convolution is there one matrix product over its windows, a transposed one a product whose
output needs no interleaving, and windows are copied by whole columns. By channel the two
take 20 % longer together (docs/experiments.md). Lengths are
numbers, not tensors: a recording is made for one length.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from engine.models.streaming import Stream

CACHED = 2 << 16  # numbers; longer windows leave the cache, and go tap by tap


class CausalConv(nn.Module):
    def __init__(
        self, inputs: int, outputs: int, kernel: int, dilation: int = 1, groups: int = 1
    ) -> None:
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, kernel, dilation=dilation, groups=groups)
        self.kernel, self.dilation = kernel, dilation
        self.past = (kernel - 1) * dilation
        # [kernel * inputs, outputs]; where channels stay apart [kernel, channels]
        self._matrix: Tensor | None = None

    @torch.no_grad()
    def fold(self) -> None:
        weight = self.conv.weight  # [outputs, inputs, kernel]
        if weight.device.type == "cpu":
            taps = weight[:, 0].T if self.conv.groups > 1 else weight.permute(2, 1, 0).flatten(0, 1)
            self._matrix = taps.contiguous()

    def forward(self, x: Tensor, stream: Stream) -> Tensor:
        out: Tensor = self.conv(stream.extend(x, self.past) if self.past else x)
        return out

    def row(self, x: Tensor, stream: Stream) -> Tensor:
        """[T, inputs] -> [T, outputs]"""
        assert self._matrix is not None and self.conv.bias is not None
        length, channels, bias = int(x.shape[0]), int(x.shape[1]), self.conv.bias
        if self.kernel == 1:
            return torch.addmm(bias, x, self._matrix)
        x = stream.extend_row(x, self.past)
        shape, step = (length, self.kernel, channels), self.dilation * channels
        if self.conv.groups > 1:
            return (x.as_strided(shape, (channels, step, 1)) * self._matrix).sum(1) + bias
        if length * self.kernel * channels > CACHED:
            out = bias.expand(length, -1).clone()
            for k, tap in enumerate(self._matrix.split(channels)):
                out.addmm_(x[k * self.dilation : k * self.dilation + length], tap)
            return out
        if self.dilation == 1:
            windows = x.as_strided((length, self.kernel * channels), (channels, 1)).contiguous()
        else:
            windows = x.as_strided(shape, (channels, step, 1)).reshape(length, -1)
        return torch.addmm(bias, windows, self._matrix)


class CausalTransposedConv(nn.Module):
    """Stride s, kernel s or 2 s: T inputs -> s T outputs; what reaches beyond them is cut off."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int) -> None:
        super().__init__()
        assert kernel in (stride, 2 * stride)
        self.conv = nn.ConvTranspose1d(inputs, outputs, kernel, stride)
        self.stride, self.overlaps = stride, kernel > stride
        # [inputs, stride * outputs]; where it overlaps, the input before comes first
        self._matrix: Tensor | None = None
        self._bias: Tensor | None = None

    @torch.no_grad()
    def fold(self) -> None:
        weight, bias, s = self.conv.weight, self.conv.bias, self.stride
        if weight.device.type == "cpu" and bias is not None:  # weight [inputs, outputs, kernel]
            if self.overlaps:
                weight = torch.cat([weight[:, :, s:], weight[:, :, :s]])
            self._matrix = weight.transpose(1, 2).flatten(1).contiguous()
            self._bias = bias.repeat(s)

    def forward(self, x: Tensor, stream: Stream) -> Tensor:
        out: Tensor = self.conv(stream.extend(x, 1) if self.overlaps else x)
        return out[..., self.stride : -self.stride] if self.overlaps else out

    def row(self, x: Tensor, stream: Stream) -> Tensor:
        """[T, inputs] -> [stride * T, outputs]"""
        assert self._matrix is not None and self._bias is not None
        length, channels = int(x.shape[0]), int(x.shape[1])
        if self.overlaps:
            pairs = stream.extend_row(x, 1).as_strided((length, 2 * channels), (channels, 1))
            x = pairs.contiguous()
        out = torch.addmm(self._bias, x, self._matrix)
        return out.view(self.stride * length, -1)


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

    def row(self, x: Tensor, _: Stream) -> Tensor:
        """[T, C] -> [T, C]"""
        assert self._folded is not None
        frequency, gain = self._folded
        return torch.addcmul(x, (x * frequency[:, 0]).sin_().square_(), gain[:, 0])
