"""Every class of a wrong checkpoint is told, all at once and before a tensor is read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine import checkpoint
from engine.checkpoint import CODEC, TALKER, CheckpointError
from engine.models.shapes import codec_shapes, talker_shapes
from engine.tokenizer import Tokenizer
from tests.engine.tiny import codec_json, config_json, write_checkpoint

NORM = "talker.model.norm.weight"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    write_checkpoint(folder)
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A checkpoint to spoil."""
    return Path(shutil.copytree(whole, tmp_path / "model"))


def silent(line: str) -> None:
    """Progress that nobody reads."""


def told(folder: Path) -> list[str]:
    """What is said to be wrong; it must also be in the message, with a remedy."""
    with pytest.raises(CheckpointError) as caught:
        checkpoint.load(str(folder), "cpu", silent)
    lines = str(caught.value).splitlines()
    assert lines[0] == f"{folder} cannot be loaded:"
    assert "What to do:" in lines[2:-1]
    problems = [p.what for p in caught.value.problems]
    assert lines[1 : 1 + len(problems)] == [f"  - {what}" for what in problems]
    return problems


def change(path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))


def spoil(path: Path, edit: Callable[[dict[str, Tensor]], None]) -> None:
    tensors = load_file(path)
    edit(tensors)
    save_file(tensors, path)


@pytest.mark.parametrize(("kind", "size"), [("voice_design", "1b7"), ("custom_voice", "0b6")])
def test_a_whole_checkpoint_is_loaded(tmp_path: Path, kind: str, size: str) -> None:
    written = write_checkpoint(tmp_path, config_json(kind, size))
    said: list[str] = []
    loaded = checkpoint.load(str(tmp_path), "cpu", said.append)
    assert loaded.config == written
    assert loaded.name == str(tmp_path)
    assert said
    weights = [*loaded.talker.parameters(), *loaded.codec.parameters()]
    assert {p.dtype for p in weights} == {torch.float32}
    assert {p.device.type for p in weights} == {"cpu"}
    assert not any(p.requires_grad for p in weights)
    assert loaded.tokenizer.encode("assistant") == [loaded.config.assistant_token_id]


def test_missing_files_are_all_named(folder: Path) -> None:
    for name in ("config.json", "merges.txt", TALKER, CODEC):
        (folder / name).unlink()
    problems = told(folder)
    assert len(problems) == 4
    for name in ("config.json", "merges.txt", TALKER, CODEC):
        assert sum(name in p for p in problems) >= 1


def test_an_empty_folder_is_told(tmp_path: Path) -> None:
    assert len(told(tmp_path)) >= 4


@pytest.mark.parametrize("name", [TALKER, CODEC])
def test_a_truncated_file_is_named(folder: Path, name: str) -> None:
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: len(content) // 2])
    (problem,) = told(folder)
    assert problem.startswith(f"{name} is truncated")


def test_tensors_missing_extra_misshapen_and_mistyped_are_told_at_once(folder: Path) -> None:
    def talker(t: dict[str, Tensor]) -> None:
        del t[NORM]
        t["talker.surprise"] = torch.ones(2, dtype=torch.bfloat16)
        t["talker.model.codec_embedding.weight"] = torch.ones(3, 3, dtype=torch.bfloat16)

    def codec(t: dict[str, Tensor]) -> None:
        t["decoder.pre_conv.conv.weight"] = t["decoder.pre_conv.conv.weight"].half()

    spoil(folder / TALKER, talker)
    spoil(folder / CODEC, codec)
    lacks, unknown, misshapen, mistyped = told(folder)
    assert lacks.startswith(f"{TALKER} lacks 1 tensor: {NORM}")
    assert unknown == f"{TALKER} has unknown 1 tensor: talker.surprise [2]"
    assert "talker.model.codec_embedding.weight [3, 3] instead of" in misshapen
    assert mistyped == (
        f"{CODEC} has mistyped 1 tensor: decoder.pre_conv.conv.weight F16 instead of F32"
    )


def test_weights_of_another_size_are_told(folder: Path) -> None:
    change(folder / "config.json", lambda c: c["talker_config"].update(intermediate_size=56))
    (misshapen,) = told(folder)
    assert "mlp.gate_proj.weight [48, 32] instead of [56, 32]" in misshapen


def test_a_broken_config_does_not_hide_a_truncated_file(folder: Path) -> None:
    (folder / "config.json").write_text("{")
    (folder / CODEC).write_bytes(b"")
    problems = told(folder)
    assert any("config.json" in p for p in problems)
    assert any(CODEC in p for p in problems)


def test_a_config_that_the_code_cannot_serve_is_told(folder: Path) -> None:
    change(folder / "config.json", lambda c: c["talker_config"].pop("num_hidden_layers"))
    assert any("num_hidden_layers" in p for p in told(folder))


def test_a_tokenizer_of_another_model_is_told(folder: Path) -> None:
    change(folder / "config.json", lambda c: c.update(tts_pad_token_id=7, assistant_token_id=8))
    pad, assistant = told(folder)
    assert pad == "<tts_pad> is 2045 for the tokenizer and 7 for config.json"
    assert assistant == "the tokenizer's id of 'assistant' is not 8"


def test_more_ids_than_the_talker_has_are_told(tmp_path: Path) -> None:
    config = config_json()
    config["talker_config"]["text_vocab_size"] = 2040
    write_checkpoint(tmp_path, config)
    assert "the tokenizer has 2048 ids, the talker only 2040" in told(tmp_path)


def test_the_encoders_of_voice_cloning_are_known_and_stay_unloaded(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, config_json("base"))
    spoil(tmp_path / TALKER, lambda t: t.update({"speaker_encoder.fc.bias": torch.ones(3)}))
    loaded = checkpoint.load(str(tmp_path), "cpu", silent)
    assert loaded.config.kind == "base"


def test_a_speaker_encoder_outside_of_base_is_unknown(folder: Path) -> None:
    extra = {"speaker_encoder.fc.bias": torch.ones(3, dtype=torch.bfloat16)}
    spoil(folder / TALKER, lambda t: t.update(extra))
    assert told(folder) == [f"{TALKER} has unknown 1 tensor: speaker_encoder.fc.bias [3]"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_any_one_type_of_weights_will_do(folder: Path, dtype: torch.dtype) -> None:
    for name in (TALKER, CODEC):
        spoil(folder / name, lambda t: t.update({n: x.to(dtype) for n, x in t.items()}))
    loaded = checkpoint.load(str(folder), "cpu", silent)
    assert next(loaded.talker.parameters()).dtype == torch.float32


def test_nothing_is_read_before_all_is_known_to_fit(folder: Path) -> None:
    """The file is as long as its whole header says, but the disk has no such bytes: one of a
    terabyte is refused for its shapes.
    """
    name, size = "talker.model.norm.weight", 1 << 39
    entry = {name: {"dtype": "BF16", "shape": [size], "data_offsets": [0, 2 * size]}}
    header = json.dumps(entry).encode()
    with (folder / TALKER).open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + 2 * size)
    _, misshapen = told(folder)
    assert f"{name} [{size}] instead of" in misshapen


def test_a_model_that_is_nowhere_is_told() -> None:
    with pytest.raises(CheckpointError, match=r"nowhere cannot be loaded:\n  - nowhere is no fold"):
        checkpoint.load("nowhere", "cpu", silent)


def test_random_weights_need_config_files_alone(tmp_path: Path) -> None:
    from tests.engine.tiny import write_configs

    write_configs(tmp_path, config_json(), codec_json())
    one, same = (checkpoint.random(tmp_path, "cpu", seed=3) for _ in range(2))
    other = checkpoint.random(tmp_path, "cpu", seed=4)
    values = [list(m.talker.state_dict().values()) for m in (one, same, other)]
    assert all(map(torch.equal, values[0], values[1]))
    assert not all(map(torch.equal, values[0], values[2]))
    for module in (one.talker, one.codec):
        assert all(torch.isfinite(p).all() for p in module.parameters())
    assert one.tokenizer.encode("hé") == Tokenizer.load(checkpoint.EMBEDDED).encode("hé")


def test_the_names_of_a_written_checkpoint_are_those_of_the_modules(whole: Path) -> None:
    config = checkpoint.load(str(whole), "cpu", silent).config
    assert set(load_file(whole / TALKER)) == set(talker_shapes(config))
    codec = {n for n in load_file(whole / CODEC) if not n.startswith("encoder.")}
    assert codec == set(codec_shapes(config.codec))
