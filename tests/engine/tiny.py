"""A random checkpoint in the hub's layout, small enough to write in a test: the true architecture
and files, sizes of a few dozen.
"""

from __future__ import annotations

import copy
import json
import math
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.config import ModelConfig
from engine.models.shapes import codec_shapes, talker_shapes

TOKENIZER = Path(__file__).parent.parent / "golden" / "tokenizer"
CODES = 64  # entries of a codebook; the production control ids stand CODES - 2,048 lower here
LANGUAGES = {
    "chinese": 2055,
    "english": 2050,
    "german": 2053,
    "italian": 2070,
    "portuguese": 2071,
    "spanish": 2054,
    "japanese": 2058,
    "korean": 2064,
    "french": 2061,
    "russian": 2069,
}
DIALECTS = {"beijing_dialect": 2074, "sichuan_dialect": 2062}
SPEAKERS = {"serena": 3066, "ryan": 3061, "eric": 2875, "dylan": 2878}
SPOKEN: dict[str, bool | str] = {
    "serena": False,
    "ryan": False,
    "eric": "sichuan_dialect",
    "dylan": "beijing_dialect",
}
GENERATION = {
    "do_sample": True,
    "repetition_penalty": 1.05,
    "temperature": 0.9,
    "top_p": 1.0,
    "top_k": 50,
    "subtalker_dosample": True,
    "subtalker_temperature": 0.9,
    "subtalker_top_p": 1.0,
    "subtalker_top_k": 50,
    "max_new_tokens": 8192,
}


def control(production: int) -> int:
    """The id here of a control id of the production models."""
    return production - 2048 + CODES


def config_json(kind: str = "voice_design", size: str = "1b7") -> dict[str, Any]:
    """config.json. `kind`: voice_design | custom_voice | base; `size`: 1b7 (with a projection to
    the code predictor's width) | 0b6 (without).
    """
    custom = kind == "custom_voice"
    languages = LANGUAGES | (DIALECTS if custom else {})
    width = 32 if size == "1b7" else 24
    predictor = {
        "attention_bias": False,
        "head_dim": 8,
        "hidden_act": "silu",
        "hidden_size": 24,
        "intermediate_size": 40,
        "max_position_embeddings": 65536,
        "num_attention_heads": 4,
        "num_code_groups": 4,
        "num_hidden_layers": 2,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-06,
        "rope_scaling": None,
        "rope_theta": 1000000,
        "sliding_window": None,
        "tie_word_embeddings": False,
        "use_sliding_window": False,
        "vocab_size": CODES,
    }
    talker = {
        "attention_bias": False,
        "code_predictor_config": predictor,
        "codec_bos_id": control(2149),
        "codec_eos_token_id": control(2150),
        "codec_language_id": {name: control(i) for name, i in languages.items()},
        "codec_nothink_id": control(2155),
        "codec_pad_id": control(2148),
        "codec_think_bos_id": control(2156),
        "codec_think_eos_id": control(2157),
        "codec_think_id": control(2154),
        "head_dim": 8,
        "hidden_act": "silu",
        "hidden_size": width,
        "intermediate_size": 48,
        "max_position_embeddings": 32768,
        "num_attention_heads": 4,
        "num_code_groups": 4,
        "num_hidden_layers": 2,
        "num_key_value_heads": 2,
        "position_id_per_seconds": 13,
        "rms_norm_eps": 1e-06,
        "rope_scaling": {
            "interleaved": True,
            "mrope_section": [2, 1, 1],
            "rope_type": "default",
            "type": "default",
        },
        "rope_theta": 1000000,
        "sliding_window": None,
        "spk_id": {name: control(i) for name, i in SPEAKERS.items()} if custom else {},
        "spk_is_dialect": SPOKEN if custom else {},
        "text_hidden_size": 16,
        "text_vocab_size": 2048,
        "use_sliding_window": False,
        "vocab_size": CODES + 1024,
    }
    return {
        "architectures": ["Qwen3TTSForConditionalGeneration"],
        "assistant_token_id": 323,
        "im_end_token_id": 2044,
        "im_start_token_id": 2043,
        "model_type": "qwen3_tts",
        "talker_config": copy.deepcopy(talker),
        "tokenizer_type": "qwen3_tts_tokenizer_12hz",
        "tts_bos_token_id": 2046,
        "tts_eos_token_id": 2047,
        "tts_model_size": size,
        "tts_model_type": kind,
        "tts_pad_token_id": 2045,
    }


def codec_json() -> dict[str, Any]:
    """speech_tokenizer/config.json: 1,920 samples a frame, as the production codec."""
    decoder = {
        "attention_bias": False,
        "codebook_dim": 16,
        "codebook_size": CODES,
        "decoder_dim": 32,
        "head_dim": 8,
        "hidden_act": "silu",
        "hidden_size": 16,
        "intermediate_size": 24,
        "latent_dim": 24,
        "layer_scale_initial_scale": 0.01,
        "max_position_embeddings": 8000,
        "num_attention_heads": 2,
        "num_hidden_layers": 2,
        "num_key_value_heads": 2,
        "num_quantizers": 4,
        "num_semantic_quantizers": 1,
        "rms_norm_eps": 1e-05,
        "rope_theta": 10000,
        "sliding_window": 72,
        "upsample_rates": [8, 5, 4, 3],
        "upsampling_ratios": [2, 2],
    }
    return {
        "architectures": ["Qwen3TTSTokenizerV2Model"],
        "decode_upsample_rate": 1920,
        "decoder_config": decoder,
        "encode_downsample_rate": 1920,
        "encoder_valid_num_quantizers": 4,
        "input_sample_rate": 24000,
        "model_type": "qwen3_tts_tokenizer_12hz",
        "output_sample_rate": 24000,
    }


def write_configs(folder: Path, config: dict[str, Any], codec: dict[str, Any]) -> None:
    """Everything but the weights and the tokenizer."""
    (folder / "speech_tokenizer").mkdir(parents=True, exist_ok=True)
    for name, content in (
        ("config.json", config),
        ("generation_config.json", GENERATION),
        ("speech_tokenizer/config.json", codec),
    ):
        (folder / name).write_text(json.dumps(content, indent=2) + "\n")


def read_config(folder: Path, kind: str = "voice_design", size: str = "1b7") -> ModelConfig:
    """The tiny model's config, by way of its files in `folder`."""
    write_configs(folder, config_json(kind, size), codec_json())
    return ModelConfig.read(folder)


def write_checkpoint(
    folder: Path,
    config: dict[str, Any] | None = None,
    codec: dict[str, Any] | None = None,
    seed: int = 0,
) -> ModelConfig:
    """A whole checkpoint folder: random weights that neither die nor burst, BF16 and F32 as on the
    hub, and the codec's encoder by a few of its names. Returns its config.
    """
    write_configs(folder, config or config_json(), codec or codec_json())
    for path in TOKENIZER.iterdir():
        if path.name != "ids.json":
            shutil.copyfile(path, folder / path.name)
    read = ModelConfig.read(folder)
    random = torch.Generator().manual_seed(seed)
    talker = {n: _random(n, s, random).bfloat16() for n, s in talker_shapes(read).items()}
    decoder = {n: _random(n, s, random) for n, s in codec_shapes(read.codec).items()}
    encoder = {
        "encoder.downsample.conv.weight": torch.zeros(4, 4, 4),
        "encoder.quantizer.semantic_residual_vector_quantizer.layers.0.codebook.initialized": (
            torch.ones(1)
        ),
    }
    save_file(talker, folder / "model.safetensors")
    save_file(decoder | encoder, folder / "speech_tokenizer" / "model.safetensors")
    return read


def _random(name: str, shape: tuple[int, ...], random: torch.Generator) -> Tensor:
    noise = torch.randn(shape, generator=random)
    if "norm" in name and name.endswith("weight"):
        return 1 + 0.1 * noise
    if name.endswith("cluster_usage"):
        return 0.5 + noise.abs()
    if name.endswith(("alpha", "beta", "bias", "scale", "gamma")):
        return 0.1 * noise
    fan_in = math.prod(shape[1:]) if len(shape) > 1 and "embedding" not in name else 1
    return noise * fan_in**-0.5
