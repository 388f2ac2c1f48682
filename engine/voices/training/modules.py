"""The engine's own modules, set up to learn: starts that keep a signal alive, fast activations,
embeddings whose gradients a CUDA graph can hold, and a reading head for the talker.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from engine.config import CodecConfig, TalkerConfig
from engine.models import names
from engine.models.attention import whole
from engine.models.codec import CausalConv, Codec, SnakeBeta
from engine.models.layers import RMSNorm
from engine.models.talker import Talker
from engine.voices.training import sizes
from engine.voices.training.snake import Snake

READS = 5  # talker layers under the reading head
PHONES, AHEAD = 178, 8  # the teacher's phoneme ids; 20-ms places of the next two frames


def codec_for_training() -> Codec:
    codec = Codec(CodecConfig.parse(sizes.CODEC))
    for module in codec.modules():
        if isinstance(module, SnakeBeta):
            module.forward = _snake(module)  # type: ignore[method-assign]
    last: CausalConv = codec.decoder[-1]  # type: ignore[assignment]
    plain = last.forward

    def exact(x: Tensor, stream: Any) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            return plain(x.float(), stream)

    last.forward = exact  # type: ignore[method-assign]  # bf16 samples would bury high frequencies
    return codec


def _snake(module: SnakeBeta) -> Any:
    return lambda x, _=None: Snake.apply(x, module.alpha, module.beta)


def chosen(table: Tensor, ids: Tensor) -> Tensor:
    """Rows of `table`; its gradient is an index_add, which asks the host nothing."""
    return table.index_select(0, ids.reshape(-1)).view(*ids.shape, -1)


def _lookup(module: nn.Embedding) -> Any:
    return lambda ids: chosen(module.weight, ids)


def _fused(layer: nn.Module) -> Any:
    """`layer` over whole sequences in few kernels, compiled once for all layers of its shape."""
    kind = type(layer)
    run = torch.compile(lambda x, cos, sin: kind.forward(layer, x, (cos, sin), 0, whole),
                        dynamic=False)  # fmt: skip
    return lambda x, angles, *_: run(x, *angles)


class Speaker(nn.Module):
    """The talker with its code predictor, and the head that reads phonemes out of its middle: which
    sound when is what a talker has to find in the text, and the codes alone teach it slowly.
    """

    def __init__(self, config: TalkerConfig) -> None:
        super().__init__()
        self.talker = Talker(config)
        self.reading = nn.Sequential(
            RMSNorm(config.hidden_size, 1e-6), nn.Linear(config.hidden_size, AHEAD * PHONES)
        )
        self._middle: list[Tensor] = []
        start(self)
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                module.forward = _lookup(module)  # type: ignore[method-assign]
        self.talker.model.layers[READS - 1].register_forward_hook(
            lambda _m, _i, out: self._middle.append(out)
        )

    def fuse(self) -> None:
        torch._dynamo.config.recompile_limit = 64
        for stack in (self.talker.model, self.talker.code_predictor.model):
            for layer in stack.layers:
                layer.forward = _fused(layer)  # type: ignore[method-assign]

    def unfuse(self) -> None:
        for stack in (self.talker.model, self.talker.code_predictor.model):
            for layer in stack.layers:
                layer.__dict__.pop("forward", None)

    def vectors(self, text: Tensor, codec: Tensor, frames: Tensor, shown: Tensor) -> Tensor:
        """Inputs [B, L, d] of ids [B, L] (-1: none), frames [B, L, q] where `shown` [B, L]."""
        talker = self.talker
        table = talker.text_projection(talker.model.text_embedding.weight).float()
        x = chosen(table, text.clamp(min=0)) * (text >= 0)[..., None]
        x = x + talker.codec_vectors(codec.clamp(min=0)) * (codec >= 0)[..., None]
        heard = talker.frame_vectors(frames.flatten(0, 1)).view_as(x)
        return x + heard * shown[..., None]

    def hear(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs -> hidden [B, L, d], phoneme logits [B, L, AHEAD, PHONES]."""
        self._middle.clear()
        hidden = self.talker(x)
        return hidden, self.reading(self._middle.pop()).unflatten(-1, (AHEAD, PHONES))

    def complete(self, hidden: Tensor, codes: Tensor) -> Tensor:
        """Teacher-forced logits [N, q - 1, V] of codes 1.. of frames [N, q]."""
        talker = self.talker
        out: Tensor = talker.code_predictor(hidden, codes, talker.model.codec_embedding)
        return out


def start(module: nn.Module) -> None:
    for name, parameter in module.named_parameters():
        if parameter.dim() > 1:
            quiet = name.endswith(("o_proj.weight", "down_proj.weight"))
            nn.init.normal_(parameter, std=0.005 if quiet else 0.02)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
        else:
            nn.init.ones_(parameter)


def named(module: nn.Module, values: dict[str, Tensor] | None = None) -> dict[str, Tensor]:
    """Parameters, or other `values` of them, by their names in the checkpoint."""
    state: dict[str, Tensor] = {}
    for name, parts, rows in names.named_parts(module, ""):
        value = values[name] if values else module.get_parameter(name)
        state.update(zip(parts, value.detach().split(rows), strict=True))
    return state
