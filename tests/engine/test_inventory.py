"""Every way in which a weights file can be wrong has its line, and all are told at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.inventory import check

NAME = "model.safetensors"
EXPECTED = {"a.weight": (3, 2), "b.weight": (4,), "c.bias": ()}


def tensors(**changes: Tensor | None) -> dict[str, Tensor]:
    """What is expected, in BF16, with changes: a tensor instead, or None for none."""
    made = {name: torch.ones(shape, dtype=torch.bfloat16) for name, shape in EXPECTED.items()}
    changed = made | {name.replace("_", "."): t for name, t in changes.items()}
    return {name: t for name, t in changed.items() if t is not None}


def found(folder: Path, made: dict[str, Tensor] | None = None) -> list[str]:
    if made is not None:
        save_file(made, folder / NAME)
    problems = check(folder, NAME, EXPECTED, unloaded=("encoder.",))
    assert all(p.remedy for p in problems)
    return [p.what for p in problems]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_a_whole_file_of_any_one_type_will_do(tmp_path: Path, dtype: torch.dtype) -> None:
    assert found(tmp_path, {name: t.to(dtype) for name, t in tensors().items()}) == []


def test_metadata_is_no_tensor(tmp_path: Path) -> None:
    save_file(tensors(), tmp_path / NAME, metadata={"format": "pt"})
    assert found(tmp_path) == []


def test_known_tensors_of_any_shape_and_type_stay_unloaded(tmp_path: Path) -> None:
    made = tensors() | {"encoder.x": torch.ones(5, dtype=torch.float64)}
    assert found(tmp_path, made) == []


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    assert found(tmp_path, tensors(b_weight=None)) == [f"{NAME} lacks 1 tensor: b.weight [4]"]


def test_an_extra_tensor_is_named(tmp_path: Path) -> None:
    made = tensors() | {"decoder.x": torch.ones(5, dtype=torch.bfloat16)}
    assert found(tmp_path, made) == [f"{NAME} has unknown 1 tensor: decoder.x [5]"]


def test_a_misshapen_tensor_is_named_with_both_shapes(tmp_path: Path) -> None:
    turned = torch.ones(2, 3, dtype=torch.bfloat16)
    assert found(tmp_path, tensors(a_weight=turned)) == [
        f"{NAME} has misshapen 1 tensor: a.weight [2, 3] instead of [3, 2]"
    ]


def test_a_tensor_of_another_type_than_the_others_is_named(tmp_path: Path) -> None:
    assert found(tmp_path, tensors(b_weight=torch.ones(4))) == [
        f"{NAME} has mistyped 1 tensor: b.weight F32 instead of BF16"
    ]


def test_quantised_weights_are_mistyped(tmp_path: Path) -> None:
    made = {name: t.to(torch.float8_e4m3fn) for name, t in tensors().items()}
    assert found(tmp_path, made) == [
        f"{NAME} has mistyped 3 tensors: a.weight F8_E4M3 instead of BF16; "
        "b.weight F8_E4M3 instead of BF16; c.bias F8_E4M3 instead of BF16"
    ]


def test_all_is_told_at_once_and_long_lists_are_cut(tmp_path: Path) -> None:
    one = torch.ones(1, dtype=torch.bfloat16)
    made = tensors(a_weight=torch.ones(3, 2), b_weight=None, c_bias=one)
    made |= {f"x{i:02}": one.clone() for i in range(15)}
    lacks, unknown, misshapen, mistyped = found(tmp_path, made)
    assert "b.weight" in lacks
    assert "15 tensors" in unknown and "x11" in unknown and "x12" not in unknown
    assert unknown.endswith("and 3 more")
    assert "c.bias [1] instead of []" in misshapen
    assert "a.weight F32" in mistyped


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert found(tmp_path) == [f"{NAME} is missing"]


@pytest.mark.parametrize("bytes_left", [0, 5, 8, 40, -1])
def test_a_truncated_file_is_told(tmp_path: Path, bytes_left: int) -> None:
    save_file(tensors(), tmp_path / NAME)
    whole = (tmp_path / NAME).read_bytes()
    (tmp_path / NAME).write_bytes(whole[:bytes_left])
    (what,) = found(tmp_path)
    assert "truncated" in what


def test_bytes_beyond_the_last_tensor_are_told(tmp_path: Path) -> None:
    save_file(tensors(), tmp_path / NAME)
    with (tmp_path / NAME).open("ab") as file:
        file.write(b"xx")
    (what,) = found(tmp_path)
    assert "longer than its header says" in what


def test_a_pointer_to_the_weights_is_told_from_the_weights(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\n")
    (problem,) = check(tmp_path, NAME, EXPECTED)
    assert "Git LFS pointer" in problem.what
    assert "git lfs pull" in problem.remedy


@pytest.mark.parametrize(
    "header",
    [
        b"[1]",
        b"not json",
        b'{"a.weight": 3}',
        b'{"a.weight": {"dtype": "BF16", "shape": [1]}}',
        b'{"a.weight": {"dtype": "BF16", "shape": 7, "data_offsets": [0, 2]}}',
    ],
)
def test_a_broken_header_is_told(tmp_path: Path, header: bytes) -> None:
    (tmp_path / NAME).write_bytes(len(header).to_bytes(8, "little") + header)
    assert found(tmp_path) == [f"{NAME} has a broken header"]


@pytest.mark.parametrize(
    "spans", [[[0, 12], [14, 22]], [[0, 12], [10, 18]], [[0, 10], [10, 18]], [[2, 14], [14, 22]]]
)
def test_a_header_that_contradicts_itself_is_told(tmp_path: Path, spans: list[list[int]]) -> None:
    entries = zip(("a.weight", "b.weight"), ([3, 2], [4]), spans, strict=True)
    header = json.dumps(
        {n: {"dtype": "BF16", "shape": shape, "data_offsets": at} for n, shape, at in entries}
    ).encode()
    body = b"\0" * spans[-1][-1]
    (tmp_path / NAME).write_bytes(len(header).to_bytes(8, "little") + header + body)
    assert found(tmp_path) == [f"{NAME} has a header that contradicts itself"]
