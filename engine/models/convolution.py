"""The codec's causal convolutions and their activation.

On the CPU one row's convolution is a matrix product over its windows: the library's own paths for a
single short row take up to eight times as long (256 channels, 4 samples, dilation 3: 633 against
216 us; by channel: 79 against 13 us; transposed, 32 channels, 640 samples: 120 against 74 us; torch
2.13, one thread, 2026-12-01). A few columns go as rows, by the transposed matrix: half the time.
Many are taken tap by tap: their windows would fill a megabyte.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from engine.models.streaming import Stream

FEW, MANY = 8, 512  # columns


class Product:
    """Columns [inputs, T] -> [outputs, T]: matrix [outputs, inputs] times column, plus bias."""

    def __init__(self, matrix: Tensor, bias: Tensor) -> None:
        self._matrix, self._bias = matrix.contiguous(), bias[:, None]
        self._transposed, self._row = self._matrix.T.contiguous(), bias

    def __call__(self, x: Tensor) -> Tensor:
        if x.shape[1] > FEW:
            return torch.addmm(self._bias, self._matrix, x)
        return torch.addmm(self._row, x.T, self._transposed).T.contiguous()


class CausalConv(nn.Module):
    def __init__(
        self, inputs: int, outputs: int, kernel: int, dilation: int = 1, groups: int = 1
    ) -> None:
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, kernel, dilation=dilation, groups=groups)
        self.past = (kernel - 1) * dilation
        self._taps: Tensor | None = None  # [channels, 1, kernel]
        self._product: Product | None = None  # windows [kernel * inputs, T] -> [outputs, T]
        self._by_tap: tuple[Tensor, ...] = ()  # [outputs, inputs] each

    @torch.no_grad()
    def fold(self) -> None:
        """On the CPU: one matrix, or one row of taps a channel where channels stay apart."""
        weight, bias = self.conv.weight, self.conv.bias
        if weight.device.type != "cpu" or bias is None:
            return
        if self.conv.groups > 1:
            self._taps = weight
        else:
            self._product = Product(weight.transpose(1, 2).flatten(1), bias)
            self._by_tap = weight.permute(2, 0, 1).contiguous().unbind()

    def forward(self, x: Tensor, stream: Stream) -> Tensor:
        length = x.shape[2]
        if self.past:
            x = stream.extend(x, self.past)
        if len(x) > 1 or (self._taps is None and self._product is None):
            out: Tensor = self.conv(x)
            return out
        (kernel,), (dilation,) = self.conv.kernel_size, self.conv.dilation
        windows = [x[0, :, k * dilation : k * dilation + length] for k in range(kernel)]
        if self._taps is not None:
            assert self.conv.bias is not None
            bias = self.conv.bias[:, None, None]
            return torch.baddbmm(bias, self._taps, torch.stack(windows, 1))[None, :, 0]
        assert self._product is not None and self.conv.bias is not None
        if length < MANY:
            return self._product(torch.cat(windows))[None]
        out = torch.addmm(self.conv.bias[:, None], self._by_tap[0], windows[0])
        for tap, window in zip(self._by_tap[1:], windows[1:], strict=True):
            out.addmm_(tap, window)
        return out[None]


class CausalTransposedConv(nn.Module):
    """Stride s, kernel s or 2 s: T inputs -> s T outputs; what reaches beyond them is cut off."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int) -> None:
        super().__init__()
        assert kernel in (stride, 2 * stride)
        self.conv = nn.ConvTranspose1d(inputs, outputs, kernel, stride)
        self.stride, self.overlaps = stride, kernel > stride
        # [inputs, T], or the inputs before and these [2 inputs, T] -> [outputs * stride, T]
        self._product: Product | None = None

    @torch.no_grad()
    def fold(self) -> None:
        weight, bias, s = self.conv.weight, self.conv.bias, self.stride
        if weight.device.type == "cpu" and bias is not None:  # weight [inputs, outputs, kernel]
            if self.overlaps:
                weight = torch.cat([weight[:, :, s:], weight[:, :, :s]])
            matrix = weight.permute(1, 2, 0).flatten(0, 1)
            self._product = Product(matrix, bias.repeat_interleave(s))

    def forward(self, x: Tensor, stream: Stream) -> Tensor:
        length = x.shape[2]
        if self.overlaps:
            x = stream.extend(x, 1)
        if self._product is None or len(x) > 1:
            out: Tensor = self.conv(x)
            return out[..., self.stride : -self.stride] if self.overlaps else out
        inputs = torch.cat([x[0, :, :-1], x[0, :, 1:]]) if self.overlaps else x[0]
        out = self._product(inputs).view(-1, self.stride, length)
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
