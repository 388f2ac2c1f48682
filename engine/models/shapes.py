"""Names and shapes of every tensor that a checkpoint must hold (model.md 1.4, 1.5). Takes no
memory.
"""

from __future__ import annotations

import torch

from engine.config import CodecConfig, ModelConfig
from engine.models.codec import Codec
from engine.models.names import shapes
from engine.models.talker import Talker

TALKER, CODEC = "talker.", "decoder."  # prefixes in the two files


def talker_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """model.safetensors, without a Base model's speaker encoder."""
    with torch.device("meta"):
        return shapes(Talker(config.talker), TALKER)


def codec_shapes(config: CodecConfig) -> dict[str, tuple[int, ...]]:
    """speech_tokenizer/model.safetensors, without its encoder."""
    with torch.device("meta"):
        return shapes(Codec(config), CODEC)
