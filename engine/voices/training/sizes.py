"""Dimensions of the embedded checkpoint, as the hub's config files say them.

Control ids stand where production's do, lower by the smaller codebook: 1,024 + (id - 2,048).
"""

# ruff: noqa: E501  (tables of words)
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CODES, LEVELS = 1_024, 8
WORDS = 1_024  # ids of the tokenizer, control ids last
CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tts_pad>", "<tts_text_bos>", "<tts_text_eod>")  # fmt: skip
WIDTH = 256  # of the codec's latents


def _control(production: int) -> int:
    return CODES + production - 2_048


CODEC: dict[str, Any] = {
    "architectures": ["Qwen3TTSTokenizerV2Model"],
    "model_type": "qwen3_tts_tokenizer_12hz",
    "encoder_valid_num_quantizers": LEVELS,
    "input_sample_rate": 24_000,
    "output_sample_rate": 24_000,
    "decode_upsample_rate": 1_920,
    "encode_downsample_rate": 1_920,
    "decoder_config": {
        "attention_bias": False,
        "attention_dropout": 0.0,
        "codebook_dim": WIDTH,
        "codebook_size": CODES,
        "decoder_dim": 256,
        "head_dim": 64,
        "hidden_act": "silu",
        "hidden_size": 256,
        "intermediate_size": 512,
        "latent_dim": 256,
        "layer_scale_initial_scale": 0.01,
        "max_position_embeddings": 8_000,
        "num_attention_heads": 4,
        "num_hidden_layers": 3,
        "num_key_value_heads": 4,
        "num_quantizers": LEVELS,
        "num_semantic_quantizers": 1,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10_000,
        "semantic_codebook_size": CODES,
        "sliding_window": 24,
        "upsample_rates": [8, 5, 4, 3],
        "upsampling_ratios": [2, 2],
        "vector_quantization_hidden_dimension": WIDTH,
    },
}

_PREDICTOR: dict[str, Any] = {
    "attention_bias": False,
    "attention_dropout": 0.0,
    "head_dim": 64,
    "hidden_act": "silu",
    "hidden_size": 256,
    "intermediate_size": 768,
    "layer_types": ["full_attention"] * 3,
    "max_position_embeddings": 64,
    "num_attention_heads": 4,
    "num_code_groups": LEVELS,
    "num_hidden_layers": 3,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-6,
    "rope_scaling": None,
    "rope_theta": 10_000,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "use_sliding_window": False,
    "vocab_size": CODES,
}
_TALKER: dict[str, Any] = {
    "attention_bias": False,
    "attention_dropout": 0.0,
    "code_predictor_config": _PREDICTOR,
    "codec_bos_id": _control(2_149),
    "codec_eos_token_id": _control(2_150),
    "codec_language_id": {"english": _control(2_050)},
    "codec_nothink_id": _control(2_155),
    "codec_pad_id": _control(2_148),
    "codec_think_bos_id": _control(2_156),
    "codec_think_eos_id": _control(2_157),
    "codec_think_id": _control(2_154),
    "head_dim": 64,
    "hidden_act": "silu",
    "hidden_size": 384,
    "intermediate_size": 1_152,
    "max_position_embeddings": 8_192,
    "num_attention_heads": 6,
    "num_code_groups": LEVELS,
    "num_hidden_layers": 8,
    "num_key_value_heads": 2,
    "position_id_per_seconds": 13,
    "rms_norm_eps": 1e-6,
    "rope_scaling": {"interleaved": True, "mrope_section": [12, 10, 10], "rope_type": "default", "type": "default"},
    "rope_theta": 100_000,
    "sliding_window": None,
    "spk_id": {},
    "spk_is_dialect": {},
    "text_hidden_size": 384,
    "text_vocab_size": WORDS,
    "use_sliding_window": False,
    "vocab_size": CODES + 1_024,
}  # fmt: skip
SAMPLING: dict[str, Any] = {
    "do_sample": True,
    "max_new_tokens": 8_192,
    "repetition_penalty": 1.0,
    "temperature": 0.7,
    "top_k": 30,
    "top_p": 1.0,
    "subtalker_dosample": True,
    "subtalker_temperature": 0.7,
    "subtalker_top_k": 30,
    "subtalker_top_p": 1.0,
    "carry": False,
    "segment_seconds": 6.0,
    "spell_numbers": True,
}


def model(assistant: int) -> dict[str, Any]:
    """config.json; `assistant`: the id of that word, which must be one token."""
    control = {name: WORDS - len(CONTROL) + i for i, name in enumerate(CONTROL)}
    return {
        "architectures": ["Qwen3TTSForConditionalGeneration"],
        "assistant_token_id": assistant,
        "im_end_token_id": control["<|im_end|>"],
        "im_start_token_id": control["<|im_start|>"],
        "model_type": "qwen3_tts",
        "talker_config": _TALKER,
        "tokenizer_type": "qwen3_tts_tokenizer_12hz",
        "tts_bos_token_id": control["<tts_text_bos>"],
        "tts_eos_token_id": control["<tts_text_eod>"],
        "tts_model_size": "nano",
        "tts_model_type": "voice_design",
        "tts_pad_token_id": control["<tts_pad>"],
    }


def write(folder: Path) -> None:
    """The config files, into a folder that has its vocab.json."""
    assistant = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))["assistant"]
    (folder / "speech_tokenizer").mkdir(exist_ok=True)
    for name, content in (
        ("config.json", model(assistant)),
        ("generation_config.json", SAMPLING),
        ("speech_tokenizer/config.json", CODEC),
    ):
        (folder / name).write_text(json.dumps(content, indent=2) + "\n")
