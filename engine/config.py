"""Sizes and ids of a model, read from the hub's config files; and the engine's own settings. PURE.

Fields bear the names of the files' entries. What is wrong with a folder is told at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.fields import Reader, read_object
from engine.messages import PREDICTOR_RANGES, TALKER_RANGES, Range, Sampling

CONFIG, GENERATION, CODEC = "config.json", "generation_config.json", "speech_tokenizer/config.json"
CONTROL_IDS = 1024  # of the talker's vocabulary, above the codes of codebook 0
DEFAULT, UNPENALISED = Sampling(), Sampling(repetition_penalty=1.0)
KINDS = ("voice_design", "custom_voice", "base")


class ConfigError(Exception):
    """Everything that keeps config files from being used."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


@dataclass(frozen=True)
class CodePredictorConfig:
    vocab_size: int  # entries of a codebook
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    num_code_groups: int  # codes of a frame
    rms_norm_eps: float
    rope_theta: float


@dataclass(frozen=True)
class TalkerConfig:
    vocab_size: int  # codes of codebook 0, then CONTROL_IDS
    text_vocab_size: int
    text_hidden_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    num_code_groups: int
    rms_norm_eps: float
    rope_theta: float
    codec_pad_id: int
    codec_bos_id: int
    codec_eos_token_id: int
    codec_think_id: int
    codec_nothink_id: int
    codec_think_bos_id: int
    codec_think_eos_id: int
    code_predictor: CodePredictorConfig


@dataclass(frozen=True)
class CodecConfig:
    """The decoder of the codec, and its rate."""

    codebook_dim: int
    codebook_size: int
    latent_dim: int
    decoder_dim: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    num_quantizers: int
    num_semantic_quantizers: int
    rms_norm_eps: float
    rope_theta: float
    sliding_window: int  # frames that the pre-transformer sees, the newest included
    layer_scale_initial_scale: float
    upsample_rates: tuple[int, ...]
    upsampling_ratios: tuple[int, ...]
    output_sample_rate: int = 24_000

    @property
    def frame_samples(self) -> int:
        return math.prod(self.upsample_rates) * math.prod(self.upsampling_ratios)

    @classmethod
    def parse(cls, content: Mapping[str, Any]) -> CodecConfig:
        """From speech_tokenizer/config.json. Raises ConfigError."""
        problems: list[str] = []
        config = _codec(Reader(content, CODEC, problems))
        if config is None or problems:
            raise ConfigError(problems)
        return config


@dataclass(frozen=True)
class Generation:
    """How a model wants to be drawn from, where nobody says otherwise."""

    talker: Sampling = DEFAULT
    predictor: Sampling = UNPENALISED
    carry: bool = True  # ours: whether a segment may be opened by the one before it
    segment_seconds: float = 12.0  # ours: the longest segment that it speaks well
    spell_numbers: bool = False  # ours: it reads letters, so numbers must come as English words


@dataclass(frozen=True)
class ModelConfig:
    kind: str  # voice_design | custom_voice | base
    size: str  # 1b7 | 0b6 | ...
    talker: TalkerConfig
    codec: CodecConfig
    languages: dict[str, int]  # without dialects
    speakers: dict[str, int]
    dialects: dict[str, int]  # by speaker: the tag of the dialect that he speaks
    im_start_token_id: int
    im_end_token_id: int
    assistant_token_id: int
    tts_bos_token_id: int
    tts_eos_token_id: int
    tts_pad_token_id: int
    generation: Generation

    @classmethod
    def read(cls, folder: Path) -> ModelConfig:
        """From a folder in the hub's layout. Raises ConfigError."""
        problems: list[str] = []
        files = {name: read_object(folder / name, name, problems) for name in (CONFIG, CODEC)}
        # Without a generation_config.json the defaults hold; they are the reference's own.
        generation: Mapping[str, Any] | None = {}
        if (folder / GENERATION).exists():
            generation = read_object(folder / GENERATION, GENERATION, problems)
        config = None
        if None not in (*files.values(), generation):
            config = _model(files[CONFIG] or {}, files[CODEC] or {}, generation or {}, problems)
        if config is None or problems:
            raise ConfigError(problems)
        return config


@dataclass(frozen=True)
class EngineConfig:
    """How an engine runs."""

    model: str = ""  # folder or hub id; "": the embedded voice
    device: str = "cpu"  # cpu | cuda
    weights: str = "auto"  # full | int8 | auto: int8 where the CPU has it, else full
    slots: int = 8  # utterances that speak at once
    positions: int = 1024  # KV length of a row
    graphs: bool = False  # CUDA: a whole frame is one graph of fused kernels
    group: int = 2  # rows of a call on the CPU with full weights
    chunk: int = 64  # prefill rows of a call
    queue: int = 64  # utterances that may wait for a slot
    max_frames: int = 8192  # of an utterance
    max_lead: float = 2.0  # seconds ahead of playback
    threads: int = 0  # 0: half of the cores; the player and the page need some too


def _model(
    content: Mapping[str, Any],
    codec_content: Mapping[str, Any],
    generation: Mapping[str, Any],
    problems: list[str],
) -> ModelConfig | None:
    top = Reader(content, CONFIG, problems)
    top.expect("model_type", "qwen3_tts")
    top.expect("tokenizer_type", "qwen3_tts_tokenizer_12hz")
    kind = top.one_of("tts_model_type", KINDS)
    size = top.text("tts_model_size")
    names = [f"{name}_token_id" for name in ("im_start", "im_end", "assistant")]
    names += [f"tts_{name}_token_id" for name in ("bos", "eos", "pad")]
    ids = {name: top.integer(name, least=0) for name in names}
    part = top.inner("talker_config")
    talker = _talker(part)
    languages, speakers = part.ids("codec_language_id"), part.ids("spk_id")
    spoken = part.mapping("spk_is_dialect")
    codec = _codec(Reader(codec_content, CODEC, problems))
    drawn = _generation(Reader(generation, GENERATION, problems))
    dialects: dict[str, int] = {}
    for speaker, dialect in spoken.items():
        if isinstance(dialect, str) and dialect:
            if dialect in languages:
                dialects[speaker.lower()] = languages[dialect]
            else:
                part.wrong("spk_is_dialect", f"gives {speaker} the unknown {dialect!r}")
    if talker is None or codec is None or drawn is None or problems:
        return None
    problems += _disagreements(talker, codec, {**languages, **speakers})
    return ModelConfig(
        kind=kind,
        size=size,
        talker=talker,
        codec=codec,
        languages={n.lower(): i for n, i in languages.items() if "dialect" not in n},
        speakers={n.lower(): i for n, i in speakers.items()},
        dialects=dialects,
        generation=drawn,
        **ids,
    )


def _talker(part: Reader) -> TalkerConfig | None:
    inner = part.inner("code_predictor_config")
    for reader in (part, inner):
        reader.expect("hidden_act", "silu")
        for name in ("attention_bias", "use_sliding_window", "tie_word_embeddings"):
            reader.expect(name, False)
        reader.expect("sliding_window", None)
    if part.mapping("rope_scaling").get("rope_type", "default") != "default":
        part.wrong("rope_scaling", "is of an unknown type")
    predictor = inner.build(CodePredictorConfig)
    talker = part.build(TalkerConfig, code_predictor=predictor)
    for reader, config in ((part, talker), (inner, predictor)):
        _heads(reader, config)
    return talker


def _codec(top: Reader) -> CodecConfig | None:
    top.expect("model_type", "qwen3_tts_tokenizer_12hz")
    part = top.inner("decoder_config")
    part.expect("hidden_act", "silu")
    part.expect("attention_bias", False)
    rate = top.integer("output_sample_rate")
    frame = top.integer("decode_upsample_rate")
    config = part.build(CodecConfig, output_sample_rate=rate)
    if config is None:
        return None
    _heads(part, config)
    if frame and config.frame_samples != frame:
        made = config.frame_samples
        top.wrong("decode_upsample_rate", f"is {frame}, but a frame has {made} samples")
    if config.codebook_dim % 2:
        part.wrong("codebook_dim", "is odd")
    if config.decoder_dim % 2 ** len(config.upsample_rates):
        part.wrong("decoder_dim", f"cannot be halved {len(config.upsample_rates)} times")
    if not 0 < config.num_semantic_quantizers < config.num_quantizers:
        part.wrong("num_semantic_quantizers", f"is not below {config.num_quantizers}")
    return config


def _generation(part: Reader) -> Generation | None:
    base = Generation()
    return Generation(
        talker=_sampling(part, "", base.talker, TALKER_RANGES, "do_sample"),
        predictor=_sampling(
            part, "subtalker_", base.predictor, PREDICTOR_RANGES, "subtalker_dosample"
        ),
        carry=part.flag("carry", base.carry),
        segment_seconds=part.number("segment_seconds", base.segment_seconds),
        spell_numbers=part.flag("spell_numbers", base.spell_numbers),
    )


def _sampling(
    part: Reader, prefix: str, base: Sampling, ranges: Mapping[str, Range], switch: str
) -> Sampling:
    given: dict[str, Any] = {
        name: part.within(prefix + name, getattr(base, name), *ends)
        for name, ends in ranges.items()
    }
    return replace(base, greedy=not part.flag(switch, True), **given)


def _heads(part: Reader, config: CodePredictorConfig | TalkerConfig | CodecConfig | None) -> None:
    if config is None:
        return
    if config.num_attention_heads % config.num_key_value_heads:
        part.wrong("num_attention_heads", "is no multiple of num_key_value_heads")
    if config.head_dim % 2:
        part.wrong("head_dim", "is odd")


def _disagreements(talker: TalkerConfig, codec: CodecConfig, tags: Mapping[str, int]) -> list[str]:
    """What the parts of a model do not agree on."""
    predictor, found = talker.code_predictor, []
    if not talker.num_code_groups == predictor.num_code_groups == codec.num_quantizers:
        found.append(
            f"{CONFIG} has {talker.num_code_groups} codes a frame for the talker, "
            f"{predictor.num_code_groups} for the code predictor; {CODEC} {codec.num_quantizers}"
        )
    codes = talker.vocab_size - CONTROL_IDS
    if not codes == predictor.vocab_size == codec.codebook_size:
        found.append(
            f"{CONFIG} has {codes} entries of a codebook for the talker, "
            f"{predictor.vocab_size} for the code predictor; {CODEC} {codec.codebook_size}"
        )
    control = {n: v for n, v in vars(talker).items() if n.startswith("codec_")} | dict(tags)
    outside = [n for n, i in control.items() if not codes <= i < talker.vocab_size]
    return found + [f"{CONFIG} gives {name} an id outside of its vocabulary" for name in outside]
