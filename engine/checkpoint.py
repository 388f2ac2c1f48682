"""A checkpoint to modules. Strict in both directions: all that is wrong is told at once, from the
files' headers, before any memory is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open

from engine import hub, inventory
from engine.config import ConfigError, ModelConfig
from engine.inventory import Problem
from engine.models import packed
from engine.models.codec import Codec
from engine.models.names import fill
from engine.models.shapes import codec_shapes, talker_shapes
from engine.models.talker import Talker
from engine.tokenizer import Tokenizer

EMBEDDED = Path(__file__).parent / "voices" / "nano"
TALKER, CODEC = "model.safetensors", "speech_tokenizer/model.safetensors"
ENCODERS = {TALKER: ("speaker_encoder.",), CODEC: ("encoder.",)}  # known, for cloning, not loaded

_CONFIG = "Name a checkpoint of the Qwen3-TTS 12 Hz family with the config files it came with."
_TOKENIZER = "Take vocab.json, merges.txt and tokenizer_config.json from the weights' repository."


class CheckpointError(Exception):
    """Everything that keeps a checkpoint from being used, and what to do."""

    def __init__(self, name: str, problems: list[Problem]) -> None:
        self.problems = problems
        wrong = [f"  - {p.what}" for p in problems]
        remedies = dict.fromkeys(f"  - {p.remedy}" for p in problems)
        super().__init__("\n".join([f"{name} cannot be loaded:", *wrong, "What to do:", *remedies]))


@dataclass(frozen=True)
class Loaded:
    name: str
    config: ModelConfig
    talker: Talker
    codec: Codec
    tokenizer: Tokenizer


def load(model: str, device: str, progress: Callable[[str], None], weights: str = "full") -> Loaded:
    """The model in a folder or at a hub id; "" is the embedded voice. `weights` as in EngineConfig.
    Raises CheckpointError.
    """
    name = model or "the embedded voice"
    int8 = _int8(name, device, weights)
    try:
        folder = hub.locate(model, progress) if model else EMBEDDED
    except hub.NotFound as error:
        raise CheckpointError(name, [error.problem]) from None
    config, tokenizer = inspect(folder, name)
    progress(f"reading {name}")
    talker, codec = empty(config, device)
    for module, prefix, file in ((talker, "talker.", TALKER), (codec, "decoder.", CODEC)):
        with safe_open(folder / file, "pt", device=device) as tensors:
            fill(module, prefix, tensors.get_tensor)
    talker.fold(int8, record=device == "cpu")
    codec.fold(record=device == "cpu")
    return Loaded(name, config, talker, codec, tokenizer)


def _int8(name: str, device: str, weights: str) -> bool:
    able = device == "cpu" and packed.supported()
    if weights == "int8" and not able:
        remedy = "Leave --weights out: it then takes the fastest that this machine has."
        raise CheckpointError(name, [Problem("int8 weights need an x86 CPU", remedy)])
    return able and weights in ("auto", "int8")


def random(folder: Path, device: str, seed: int) -> Loaded:
    """Random weights of the sizes in a folder's config files, with the embedded voice's tokenizer:
    for speed, not for speech. Raises ConfigError.
    """
    config = ModelConfig.read(folder)
    talker, codec = empty(config, device)
    generator = torch.Generator(device).manual_seed(seed)
    for module in (talker, codec):
        for name, parameter in module.named_parameters():
            if name.endswith(("norm.weight", "layernorm.weight", "cluster_usage")):
                parameter.data.fill_(1)
            elif parameter.dim() > 1:
                fan_in = 1 if "embedding" in name else parameter[0].numel()
                parameter.data.normal_(std=fan_in**-0.5, generator=generator)
            else:
                parameter.data.zero_()
        module.fold()
    return Loaded(f"random {config.size}", config, talker, codec, Tokenizer.load(EMBEDDED))


def empty(config: ModelConfig, device: str) -> tuple[Talker, Codec]:
    """Modules without weights yet: talker in bf16 on CUDA, fp32 on the CPU; codec in fp32."""
    with torch.device("meta"):
        talker, codec = Talker(config.talker), Codec(config.codec)
    if device == "cuda":
        talker = talker.bfloat16()
    built = talker.to_empty(device=device), codec.to_empty(device=device)
    for module in built:
        module.eval().requires_grad_(False)
    return built


def inspect(folder: Path, name: str) -> tuple[ModelConfig, Tokenizer]:
    """Config and tokenizer of a folder whose weights' headers fit them. Raises CheckpointError."""
    problems: list[Problem] = []
    config, tokenizer = None, None
    try:
        config = ModelConfig.read(folder)
    except ConfigError as error:
        problems += [Problem(what, _CONFIG) for what in error.problems]
    try:
        tokenizer = Tokenizer.load(folder)
    except (OSError, ValueError) as error:
        problems.append(Problem(str(error), _TOKENIZER))
    if config and tokenizer:
        problems += [Problem(what, _TOKENIZER) for what in _disagreements(config, tokenizer)]
    problems += _weights(folder, config)
    if problems or not config or not tokenizer:
        raise CheckpointError(name, problems)
    return config, tokenizer


def _weights(folder: Path, config: ModelConfig | None) -> list[Problem]:
    """What is wrong with both files; without a config, only whether they can be read."""
    if config is None:
        return [p for file in (TALKER, CODEC) for p in inventory.unreadable(folder, file)]
    unloaded = ENCODERS[TALKER] if config.kind == "base" else ()
    problems = inventory.check(folder, TALKER, talker_shapes(config), unloaded)
    return problems + inventory.check(folder, CODEC, codec_shapes(config.codec), ENCODERS[CODEC])


def _disagreements(config: ModelConfig, tokenizer: Tokenizer) -> list[str]:
    """Ids that config.json and the tokenizer do not agree on."""
    ids = {
        "<|im_start|>": config.im_start_token_id,
        "<|im_end|>": config.im_end_token_id,
        "<tts_pad>": config.tts_pad_token_id,
        "<tts_text_bos>": config.tts_bos_token_id,
        "<tts_text_eod>": config.tts_eos_token_id,
    }
    found = [
        f"{token} is {tokenizer.special[token]} for the tokenizer and {i} for config.json"
        for token, i in ids.items()
        if tokenizer.special.get(token, i) != i
    ]
    for word in ("assistant", "user", "\n"):
        if len(encoded := tokenizer.encode(word)) != 1:
            found.append(f"the tokenizer makes {len(encoded)} ids of {word!r} instead of one")
    if tokenizer.encode("assistant") != [config.assistant_token_id]:
        found.append(f"the tokenizer's id of 'assistant' is not {config.assistant_token_id}")
    if tokenizer.vocab_size > config.talker.text_vocab_size:
        held = config.talker.text_vocab_size
        found.append(f"the tokenizer has {tokenizer.vocab_size} ids, the talker only {held}")
    return found
