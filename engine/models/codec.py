"""The codec's decoder: frames of codes to 24-kHz samples, strictly causal, exact in any chunks
(model.md 6).

Offline and streaming are the same forward; only the state differs.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from engine.config import CodecConfig
from engine.models.convolution import CausalConv, CausalTransposedConv, SnakeBeta
from engine.models.layers import RMSNorm
from engine.models.pre_transformer import PreTransformer
from engine.models.quantizer import Quantizer
from engine.models.recorded import Recorded
from engine.models.streaming import DILATIONS, CodecState, Stream


class ResidualUnit(nn.Module):
    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.act1 = SnakeBeta(channels)
        self.conv1 = CausalConv(channels, channels, 7, dilation)
        self.act2 = SnakeBeta(channels)
        self.conv2 = CausalConv(channels, channels, 1)

    def forward(self, x: Tensor, stream: Stream) -> Tensor:
        out: Tensor = self.conv2(self.act2(self.conv1(self.act1(x), stream)), stream)
        return x + out

    def row(self, x: Tensor, stream: Stream) -> Tensor:
        inner = self.conv1.row(self.act1.row(x, stream), stream)
        return self.conv2.row(self.act2.row(inner, stream), stream).add_(x)


class ConvNeXt(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.dwconv = CausalConv(channels, channels, 7, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.pwconv1 = nn.Linear(channels, 4 * channels)
        self.pwconv2 = nn.Linear(4 * channels, channels)
        self.gamma = nn.Parameter(torch.full((channels,), 1e-6))

    def forward(self, x: Tensor, stream: Stream) -> Tensor:
        return x + self._mixed(self.dwconv(x, stream).transpose(1, 2)).transpose(1, 2)

    def row(self, x: Tensor, stream: Stream) -> Tensor:
        return x + self._mixed(self.dwconv.row(x, stream))

    def _mixed(self, x: Tensor) -> Tensor:
        """[..., C] -> [..., C]"""
        out: Tensor = self.gamma * self.pwconv2(F.gelu(self.pwconv1(self.norm(x))))
        return out


class Chain(nn.ModuleList):
    """Layers one after the other."""

    def forward(self, x: Tensor, stream: Stream) -> Tensor:
        for layer in self:
            x = layer(x, stream)
        return x

    def row(self, x: Tensor, stream: Stream) -> Tensor:
        """One stream's [T, C], on the CPU: see convolution."""
        for layer in self:
            x = layer.row(x, stream)  # type: ignore[operator]
        return x


class Upsample(Chain):
    """A transposed convolution without overlap, then a ConvNeXt block."""

    def __init__(self, channels: int, ratio: int) -> None:
        super().__init__(
            [CausalTransposedConv(channels, channels, ratio, ratio), ConvNeXt(channels)]
        )


class DecoderBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        units = [ResidualUnit(outputs, dilation) for dilation in DILATIONS]
        up = CausalTransposedConv(inputs, outputs, 2 * stride, stride)
        self.block = Chain([SnakeBeta(inputs), up, *units])

    def forward(self, x: Tensor, stream: Stream) -> Tensor:
        out: Tensor = self.block(x, stream)
        return out

    def row(self, x: Tensor, stream: Stream) -> Tensor:
        return self.block.row(x, stream)


class Codec(nn.Module):
    def __init__(self, c: CodecConfig) -> None:
        super().__init__()
        self.config = c
        self.quantizer = Quantizer(c)
        self.pre_conv = CausalConv(c.codebook_dim, c.latent_dim, 3)
        self.pre_transformer = PreTransformer(c)
        self.upsample = Chain(Upsample(c.latent_dim, r) for r in c.upsampling_ratios)
        widths = [c.decoder_dim >> i for i in range(len(c.upsample_rates) + 1)]
        blocks = [DecoderBlock(widths[i], widths[i + 1], r) for i, r in enumerate(c.upsample_rates)]
        first, last = CausalConv(c.latent_dim, widths[0], 7), CausalConv(widths[-1], 1, 7)
        self.decoder = Chain([first, *blocks, SnakeBeta(widths[-1]), last])
        self._run: Callable[..., Tensor] = self._one

    def fold(self, record: bool = False) -> None:
        """Work out what inference need not work out again; `record`, on a CPU alone, replays a
        stream's calls without Python. Training must not call it.
        """
        self._run = Recorded(self._one, [*self.children()]) if record else self._one
        for module in self.modules():
            if isinstance(
                module, CausalConv | CausalTransposedConv | SnakeBeta | Quantizer | RMSNorm
            ):
                module.fold()
            elif isinstance(module, nn.Linear) and module.weight.device.type == "cpu":
                # in memory as its transpose, in which a short row's product takes half the time
                module.weight.data = module.weight.data.T.contiguous().T

    def latents(self, codes: Tensor) -> Tensor:
        """Codes [R, q, T] -> [R, codebook_dim, T]."""
        out: Tensor = self.quantizer(codes)
        return out

    def synthesize(
        self, latents: Tensor, state: CodecState | None = None, rows: Tensor | None = None
    ) -> Tensor:
        """Latents [R, codebook_dim, T] -> samples [R, T * frame_samples] in -1..1; continues `rows`
        of `state`.
        """
        if state is None or rows is None:
            return self._synthesize(latents, Stream(None, None), past=0)
        past = self.config.sliding_window - 1
        if rows.device.type != "cpu":
            return self._synthesize(latents, Stream(state, rows), past)
        # Row by row: a matrix product's last bits depend on how many rows it has.
        each = [(x, state.row(r)) for x, r in zip(latents.split(1), rows.tolist(), strict=True)]
        return torch.cat([self._run(x, s.keys, s.values, s.positions, *s.tails) for x, s in each])

    def _one(
        self, latents: Tensor, keys: Tensor, values: Tensor, positions: Tensor, *tails: Tensor
    ) -> Tensor:
        """One row, and its state's tensors."""
        stream = Stream(CodecState(list(tails), keys, values, positions), slice(None))
        x = self.pre_conv.row(latents[0].T, stream)
        x = self.pre_transformer(x[None], stream, self.config.sliding_window - 1)[0]
        x = self.decoder.row(self.upsample.row(x, stream), stream)
        stream.advance(int(latents.shape[2]))
        return x.T.clamp(-1, 1)

    def _synthesize(self, latents: Tensor, stream: Stream, past: int) -> Tensor:
        x = self.pre_conv(latents, stream).transpose(1, 2)
        x = self.pre_transformer(x, stream, past).transpose(1, 2)
        x = self.decoder(self.upsample(x, stream), stream)
        stream.advance(latents.shape[2])
        return x[:, 0].clamp(-1, 1)

    def forward(
        self, codes: Tensor, state: CodecState | None = None, rows: Tensor | None = None
    ) -> Tensor:
        """Codes [R, q, T] -> samples [R, T * frame_samples]."""
        return self.synthesize(self.latents(codes), state, rows)
