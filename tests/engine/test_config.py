"""Config files: the five published models' are read, and everything wrong is told at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.checkpoint import EMBEDDED
from engine.config import CodecConfig, ConfigError, ModelConfig
from engine.messages import Sampling
from tests.engine.tiny import codec_json, config_json, control, write_configs

PUBLISHED = Path(__file__).parent.parent / "golden" / "configs"
LANGUAGES = 10


def read(folder: Path, name: str) -> ModelConfig:
    """One of the published models."""
    config = json.loads((PUBLISHED / f"{name}.config.json").read_text())
    write_configs(folder, config, json.loads((PUBLISHED / "codec.config.json").read_text()))
    return ModelConfig.read(folder)


def problems(folder: Path, edit: Callable[[dict[str, Any], dict[str, Any]], object]) -> list[str]:
    config, codec = config_json("custom_voice"), codec_json()
    edit(config, codec)
    write_configs(folder, config, codec)
    with pytest.raises(ConfigError) as error:
        ModelConfig.read(folder)
    return error.value.problems


@pytest.mark.parametrize(
    ("name", "kind", "size", "hidden"),
    [
        ("1b7-voice_design", "voice_design", "1b7", 2048),
        ("1b7-custom_voice", "custom_voice", "1b7", 2048),
        ("0b6-custom_voice", "custom_voice", "0b6", 1024),
        ("1b7-base", "base", "1b7", 2048),
        ("0b6-base", "base", "0b6", 1024),
    ],
)
def test_every_published_model_is_read(
    tmp_path: Path, name: str, kind: str, size: str, hidden: int
) -> None:
    config = read(tmp_path, name)
    assert (config.kind, config.size, config.talker.hidden_size) == (kind, size, hidden)
    assert len(config.languages) == LANGUAGES
    assert (len(config.speakers), len(config.dialects)) == ((9, 2) if "custom" in kind else (0, 0))
    assert config.talker.rope_theta == config.talker.code_predictor.rope_theta == 1e6
    assert config.codec.frame_samples == 1920
    assert config.codec.output_sample_rate == 24_000
    assert config.codec.sliding_window == 72
    assert (config.tts_bos_token_id, config.talker.codec_eos_token_id) == (151_672, 2150)


def test_dialects_stand_by_their_speakers(tmp_path: Path) -> None:
    config = read(tmp_path, "1b7-custom_voice")
    assert config.dialects == {"eric": 2062, "dylan": 2074}
    assert config.speakers["eric"] == 2875
    assert not any("dialect" in name for name in config.languages)


def test_generation_is_the_models_own_wish(tmp_path: Path) -> None:
    write_configs(tmp_path, config_json(), codec_json())
    wish = {"do_sample": False, "temperature": 0.5, "repetition_penalty": 1.2, "top_k": 7}
    wish |= {"subtalker_temperature": 1, "subtalker_top_p": 0.8, "max_new_tokens": 8192}
    (tmp_path / "generation_config.json").write_text(json.dumps(wish))
    generation = ModelConfig.read(tmp_path).generation
    assert generation.talker == Sampling(True, 0.5, 7, 1.0, 1.2)
    assert generation.predictor == Sampling(False, 1.0, 50, 0.8, 1.0)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("top_p", 1.5, "top_p is 1.5, not from 0.0 to 1.0"),
        ("subtalker_top_k", 4096, "subtalker_top_k is 4096, not from 0 to 2048"),
        ("top_k", 1.5, "top_k is 1.5, not a whole number"),
        ("temperature", 0, "temperature is 0, not from 0.01 to 2.0"),
    ],
)
def test_a_wish_that_no_client_may_have_is_told(
    tmp_path: Path, name: str, value: float, told: str
) -> None:
    write_configs(tmp_path, config_json(), codec_json())
    (tmp_path / "generation_config.json").write_text(json.dumps({name: value}))
    with pytest.raises(ConfigError, match=rf"^generation_config\.json: {told}$"):
        ModelConfig.read(tmp_path)


def test_the_embedded_voice_wants_its_numbers_spelled(tmp_path: Path) -> None:
    assert ModelConfig.read(EMBEDDED).generation.spell_numbers
    assert not read(tmp_path, "1b7-voice_design").generation.spell_numbers


def test_without_a_generation_file_the_defaults_hold(tmp_path: Path) -> None:
    write_configs(tmp_path, config_json(), codec_json())
    (tmp_path / "generation_config.json").unlink()
    generation = ModelConfig.read(tmp_path).generation
    assert generation.talker == Sampling(False, 0.9, 50, 1.0, 1.05)
    assert generation.predictor == Sampling(False, 0.9, 50, 1.0, 1.0)


def test_all_that_is_missing_is_told_at_once(tmp_path: Path) -> None:
    def edit(config: dict[str, Any], codec: dict[str, Any]) -> None:
        del config["talker_config"]["head_dim"], config["tts_pad_token_id"]
        del config["talker_config"]["code_predictor_config"]["vocab_size"]
        del codec["decoder_config"]["upsample_rates"]

    assert sorted(problems(tmp_path, edit)) == [
        "config.json: talker_config.code_predictor_config.vocab_size is missing",
        "config.json: talker_config.head_dim is missing",
        "config.json: tts_pad_token_id is missing",
        "speech_tokenizer/config.json: decoder_config.upsample_rates is missing",
    ]


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (lambda c, _: c.update(tts_model_type="song"), "tts_model_type is 'song', not one of"),
        (lambda c, _: c.update(tokenizer_type="qwen3_tts_tokenizer_25hz"), "only 'qwen3_tts_tok"),
        (lambda c, _: c["talker_config"].update(hidden_act="gelu"), "hidden_act is 'gelu'"),
        (lambda c, _: c["talker_config"].update(sliding_window=64), "sliding_window is 64"),
        (lambda c, _: c["talker_config"].update(hidden_size="32"), "'32', not a whole number"),
        (lambda c, _: c["talker_config"].update(hidden_size=True), "True, not a whole number"),
        (lambda c, _: c["talker_config"].update(rope_theta=0), "rope_theta is 0, not above 0"),
        (lambda c, _: c["talker_config"].update(num_attention_heads=5), "is no multiple of"),
        (lambda c, _: c["talker_config"].update(num_code_groups=5), "5 codes a frame"),
        (lambda c, _: c["talker_config"].update(codec_eos_token_id=3), "codec_eos_token_id an id"),
        (lambda c, _: c["talker_config"].update(talker_config=None, spk_id=3), "spk_id is not an"),
        (lambda c, _: c["talker_config"]["spk_id"].update(ryan=9999), "gives ryan an id outside"),
        (
            lambda c, _: c["talker_config"]["rope_scaling"].update(rope_type="yarn"),
            "rope_scaling is of an unknown type",
        ),
        (
            lambda c, _: c["talker_config"]["spk_is_dialect"].update(eric="scots_dialect"),
            "gives eric the unknown 'scots_dialect'",
        ),
        (lambda _, d: d.update(decode_upsample_rate=1280), "is 1280, but a frame has 1920"),
        (lambda _, d: d["decoder_config"].update(decoder_dim=24), "cannot be halved 4 times"),
        (lambda _, d: d["decoder_config"].update(upsample_rates=[8, 5.5]), "not a list of whole"),
        (lambda _, d: d["decoder_config"].update(codebook_size=32), "config.json 32"),
        (lambda _, d: d["decoder_config"].update(num_semantic_quantizers=4), "is not below 4"),
    ],
)
def test_what_cannot_be_served_is_told(
    tmp_path: Path, edit: Callable[[dict[str, Any], dict[str, Any]], object], told: str
) -> None:
    (problem,) = problems(tmp_path, edit)
    assert told in problem


@pytest.mark.parametrize("content", ["{", "[]", "\udcff"])
def test_a_file_that_is_no_object_is_told(tmp_path: Path, content: str) -> None:
    write_configs(tmp_path, config_json(), codec_json())
    (tmp_path / "config.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError, match=r"^config\.json is not "):
        ModelConfig.read(tmp_path)


def test_the_codec_stands_alone() -> None:
    config = CodecConfig.parse(codec_json())
    assert config.frame_samples == 1920
    with pytest.raises(ConfigError, match="decoder_config is missing"):
        CodecConfig.parse({})


def test_control_ids_follow_the_codebook(tmp_path: Path) -> None:
    """Nothing in the code knows a production id."""
    write_configs(tmp_path, config_json(), codec_json())
    talker = ModelConfig.read(tmp_path).talker
    assert (talker.codec_eos_token_id, talker.codec_pad_id) == (control(2150), control(2148))
