"""A tiny model's modules with weights by name, folded as a checkpoint's are."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from engine.config import CodecConfig, ModelConfig
from engine.models.attention import KVCache
from engine.models.codec import Codec
from engine.models.names import fill
from engine.models.shapes import CODEC, TALKER, codec_shapes, talker_shapes
from engine.models.talker import Talker
from tests.engine.tiny import read_config
from tests.engine.weights import drawn


@cache
def config(kind: str = "voice_design", size: str = "1b7") -> ModelConfig:
    with TemporaryDirectory() as folder:
        return read_config(Path(folder), kind, size)


def talker(
    size: str = "1b7", seed: int = 0, fold: bool = True, kind: str = "voice_design"
) -> Talker:
    c = config(kind, size)
    made = Talker(c.talker)
    fill(made, TALKER, drawn(talker_shapes(c), seed).__getitem__)
    if fold:
        made.fold()
    return made.eval().requires_grad_(False)


def codec(
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    fold: bool = True,
    sizes: CodecConfig | None = None,
) -> Codec:
    c = sizes or config().codec
    made = Codec(c).to(dtype)
    fill(made, CODEC, drawn(codec_shapes(c), seed).__getitem__)
    if fold:
        made.fold()
    return made.eval().requires_grad_(False)


def cache_for(made: Talker, rows: int = 4, positions: int = 64) -> KVCache:
    c, weight = config().talker, made.codec_head.weight
    return KVCache.allocate(
        c.num_hidden_layers,
        rows,
        c.num_key_value_heads,
        positions,
        c.head_dim,
        weight.device,
        weight.dtype,
    )
