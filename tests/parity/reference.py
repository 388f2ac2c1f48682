"""The reference package (qwen-tts 0.1.1), run on our prompts and weights. Its audio front ends are
not needed here, and neither are the libraries that they import.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from engine.config import ModelConfig
from engine.tokenizer import Tokenizer
from tests.engine.weights import drawn
from tests.parity.cases import Case


def _stand_in(name: str, **names: object) -> None:
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None)
    module.__dict__.update(names)
    sys.modules[name] = module


def _load(name: str) -> Any:
    """One of the package's modules, without what the packages above it import."""
    if "qwen_tts.core" not in sys.modules:
        found = importlib.util.find_spec("qwen_tts")
        if found is None or found.submodule_search_locations is None:
            raise ModuleNotFoundError(
                "the reference package is not here: pip install --no-deps qwen-tts==0.1.1"
            )
        (place,) = found.submodule_search_locations
        for package in ("qwen_tts", "qwen_tts.core", "qwen_tts.inference"):
            inside = package.split(".")[1:]
            _stand_in(package, __path__=["/".join([place, *inside])])
        _stand_in("qwen_tts.inference.qwen3_tts_tokenizer", Qwen3TTSTokenizer=None)
        _stand_in("librosa")
        _stand_in("librosa.filters", mel=None)
    return importlib.import_module(f"qwen_tts.core.{name}")


def model(config: dict[str, Any]) -> Any:
    """The reference's model by a config.json, weights as yet unset."""
    configs = _load("models.configuration_qwen3_tts")
    models = _load("models.modeling_qwen3_tts")
    made = models.Qwen3TTSForConditionalGeneration._from_config(
        configs.Qwen3TTSConfig(**config), attn_implementation="sdpa"
    )
    return made.eval()


def codec(config: dict[str, Any]) -> Any:
    """The reference's codec decoder by a speech_tokenizer/config.json."""
    folder = "tokenizer_12hz"
    configs = _load(f"{folder}.configuration_qwen3_tts_tokenizer_v2")
    models = _load(f"{folder}.modeling_qwen3_tts_tokenizer_v2")
    made = models.Qwen3TTSTokenizerV2Decoder._from_config(
        configs.Qwen3TTSTokenizerV2DecoderConfig(**config["decoder_config"]),
        attn_implementation="sdpa",
    )
    return made.eval()


@torch.no_grad()
def fill(module: nn.Module, prefix: str, seed: int) -> None:
    """Weights by name, one after another: the whole is never there twice."""
    for name, parameter in module.named_parameters():
        full = prefix + name
        parameter.copy_(drawn({full: tuple(parameter.shape)}, seed)[full])


@torch.no_grad()
def speak(
    made: Any,
    config: ModelConfig,
    tokenizer: Tokenizer,
    cases: Sequence[Case],
    layout: str,
    frames: int,
) -> list[Tensor]:
    """Greedy codes [T, q] of each case, all in one batch."""
    start, end, newline = (
        [config.im_start_token_id],
        [config.im_end_token_id],
        tokenizer.encode("\n"),
    )
    role = [*start, config.assistant_token_id, *newline]
    targets = [[*role, *tokenizer.encode(c.text), *end, *newline, *role] for c in cases]
    described = [
        [*start, *tokenizer.encode("user\n"), *tokenizer.encode(c.instruct), *end, *newline]
        if c.instruct
        else None
        for c in cases
    ]
    codes, _ = made.generate(
        input_ids=[torch.tensor([ids]) for ids in targets],
        instruct_ids=[None if ids is None else torch.tensor([ids]) for ids in described],
        languages=[c.language for c in cases],
        speakers=[c.speaker or None for c in cases],
        non_streaming_mode=layout == "full",
        max_new_tokens=frames + 1,  # the last code 0 is never completed
        do_sample=False,
        subtalker_dosample=False,
        repetition_penalty=1.05,
    )
    return list(codes)
