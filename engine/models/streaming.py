"""What the codec remembers of each stream, and one call's view of it (model.md 6.6).

State is an argument: a forward with it continues its rows' streams, one without starts at silence.
A zero tail equals the reference's zero padding, because padding stands before each convolution's
input.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.config import CodecConfig

DILATIONS = (1, 3, 9)  # of a block's residual units, kernel 7


def tail_shapes(c: CodecConfig) -> Iterator[tuple[int, int]]:
    """(channels, inputs) that each causal layer remembers, in the order they run."""
    yield c.codebook_dim, 2  # pre_conv, kernel 3
    for _ in c.upsampling_ratios:
        yield c.latent_dim, 6  # ConvNeXt, kernel 7; its transposed convolution overlaps nothing
    yield c.latent_dim, 6
    for i, _ in enumerate(c.upsample_rates):
        yield c.decoder_dim >> i, 1  # transposed convolution, kernel twice its stride
        for dilation in DILATIONS:
            yield c.decoder_dim >> i + 1, 6 * dilation
    yield c.decoder_dim >> len(c.upsample_rates), 6


def reach(c: CodecConfig) -> int:
    """Frames behind which the codec remembers nothing of a stream's beginning."""
    convolutions, ratio = 0, 1.0
    rates = [1.0, *(ratio := ratio * r for r in c.upsampling_ratios)]
    rates.append(rates[-1])
    for r in c.upsample_rates:
        rates += [ratio, *[ratio * r] * len(DILATIONS)]
        ratio *= r
    rates.append(ratio)
    for rate, (_, inputs) in zip(rates, tail_shapes(c), strict=True):
        convolutions += ceil(inputs / rate)
    return convolutions + c.num_hidden_layers * (c.sliding_window - 1)


@dataclass
class CodecState:
    """Tensors of [slots + 1, ...]; the last slot is scratch."""

    tails: list[Tensor]  # [slots + 1, channels, inputs]; on the CPU, inputs outermost in memory
    keys: Tensor  # [slots + 1, layers, kv heads, window - 1, head dim]: behind RoPE, newest last
    values: Tensor
    positions: Tensor  # [slots + 1] int64: frames so far
    _views: dict[int, CodecState] = field(default_factory=dict, repr=False)

    @classmethod
    def allocate(
        cls, c: CodecConfig, slots: int, device: torch.device | str, dtype: torch.dtype
    ) -> CodecState:
        n = slots + 1
        kv = (n, c.num_hidden_layers, c.num_key_value_heads, c.sliding_window - 1, c.head_dim)
        tails = [torch.zeros(n, *shape, device=device, dtype=dtype) for shape in tail_shapes(c)]
        if torch.device(device).type == "cpu":
            tails = [t.mT.contiguous().mT for t in tails]
        return cls(
            tails,
            torch.zeros(kv, device=device, dtype=dtype),
            torch.zeros(kv, device=device, dtype=dtype),
            torch.zeros(n, dtype=torch.int64, device=device),
        )

    def row(self, slot: int) -> CodecState:
        """Views of one slot, every tensor [1, ...]."""
        views = self._views.get(slot)
        if views is None:
            one = slice(slot, slot + 1)
            tails = [tail[one] for tail in self.tails]
            views = CodecState(tails, self.keys[one], self.values[one], self.positions[one])
            self._views[slot] = views
        return views

    def reset(self, slots: Sequence[int]) -> None:
        """These slots start at silence."""
        for slot in slots:
            for tail in self.tails:
                tail[slot] = 0
            # Masked until overwritten; but a NaN would come through the mask, as 0 times NaN.
            self.keys[slot] = self.values[slot] = 0
            self.positions[slot] = 0


class Stream:
    """One call over `rows` of a state: each layer takes its memory in the order the layers run."""

    def __init__(self, state: CodecState | None, rows: Tensor | slice | None) -> None:
        self._state, self._rows = state, rows
        self._tails = iter(state.tails if state else ())

    def extend(self, x: Tensor, inputs: int) -> Tensor:
        """x [R, C, T] -> [R, C, inputs + T] with the last inputs of the past in front."""
        if self._state is None or self._rows is None:
            return F.pad(x, (inputs, 0))
        tail = next(self._tails)
        assert tail.shape[1:] == (x.shape[1], inputs), "layers take their tails in order"
        x = torch.cat([tail[self._rows], x], -1)
        tail[self._rows] = x[..., -inputs:]
        return x

    def extend_row(self, x: Tensor, inputs: int) -> Tensor:
        """`extend` for one row's x [T, C] -> [inputs + T, C]; there must be a state."""
        tail = next(self._tails)[0].T
        assert tail.shape == (inputs, x.shape[1]), "layers take their tails in order"
        x = torch.cat([tail, x])
        tail.copy_(x[-inputs:])
        return x

    def positions(self, frames: int, like: Tensor) -> Tensor:
        """Frame numbers [R or 1, frames] of this call."""
        new = torch.arange(frames, device=like.device)[None]
        if self._state is None or self._rows is None:
            return new
        return self._state.positions[self._rows][:, None] + new

    def extend_keys(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """k, v [R, KV, T, D] with the window's past in front."""
        if self._state is None or self._rows is None:
            return k, v
        past = self._state.keys.shape[3]
        k = torch.cat([self._state.keys[self._rows, layer], k], 2)
        v = torch.cat([self._state.values[self._rows, layer], v], 2)
        self._state.keys[self._rows, layer] = k[:, :, -past:]
        self._state.values[self._rows, layer] = v[:, :, -past:]
        return k, v

    def advance(self, frames: int) -> None:
        if self._state is not None and self._rows is not None:
            self._state.positions[self._rows] += frames
