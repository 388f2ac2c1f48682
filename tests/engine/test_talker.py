"""The talker: steps and chunks equal one whole pass, and company changes nothing."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from engine.config import ModelConfig
from engine.models.layers import rope_angles, rotate
from engine.models.names import shapes
from engine.models.shapes import codec_shapes, talker_shapes
from engine.models.talker import Talker
from tests.engine.tiny import write_configs
from tests.engine.voice import cache_for, config, talker

GOLDEN = Path(__file__).parent.parent / "golden"


def inputs(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, config().talker.hidden_size, generator=generator)


def listed(name: str) -> dict[str, tuple[int, ...]]:
    """Names and shapes of a published file."""
    lines = gzip.decompress((GOLDEN / name).read_bytes()).decode().splitlines()
    pairs = (line.split("\t") for line in lines)
    return {tensor: tuple(json.loads(shape)) for tensor, shape in pairs}


def published(folder: Path, name: str) -> ModelConfig:
    files = (GOLDEN / "configs" / f"{n}.config.json" for n in (name, "codec"))
    write_configs(folder, *(json.loads(file.read_text()) for file in files))
    return ModelConfig.read(folder)


def test_every_tensor_of_voice_design_1b7_is_expected_by_name_and_shape(tmp_path: Path) -> None:
    found = talker_shapes(published(tmp_path, "1b7-voice_design"))
    assert found == listed("tensors-voice_design-1b7.txt.gz")
    assert len(found) == 404


def test_every_tensor_of_the_codecs_decoder_is_expected_by_name_and_shape(tmp_path: Path) -> None:
    found = codec_shapes(published(tmp_path, "1b7-voice_design").codec)
    names = listed("tensors-codec.txt.gz").items()
    assert found == {n: shape for n, shape in names if n.startswith("decoder.")}
    assert len(found) == 271


def test_the_small_models_have_no_projection_to_the_predictor(tmp_path: Path) -> None:
    found = talker_shapes(published(tmp_path, "0b6-custom_voice"))
    assert len(found) == 402
    assert not any("small_to_mtp_projection" in name for name in found)
    assert found["talker.text_projection.linear_fc2.weight"] == (1024, 2048)


def test_shapes_take_no_memory(tmp_path: Path) -> None:
    with torch.device("meta"):
        made = Talker(published(tmp_path, "1b7-voice_design").talker)
    assert {p.device.type for p in made.parameters()} == {"meta"}
    assert sum(p.numel() for p in made.parameters()) == 1_916_676_352
    assert len(shapes(made, "")) == 404


@pytest.mark.parametrize("chunks", [(12,), (1, 11), (5, 5, 2), (1,) * 12])
def test_prefill_in_any_chunks_equals_the_whole(chunks: tuple[int, ...]) -> None:
    made, x = talker(), inputs(12)
    cache, start, parts = cache_for(made), 0, []
    for part in x.split(list(chunks)):
        parts.append(made.prefill(part, cache, 2, start))
        start += len(part)
    assert_close(torch.cat(parts), made(x[None])[0], rtol=0, atol=2e-6)


def test_steps_after_a_prefill_equal_the_whole() -> None:
    """Rows of unequal lengths in one call, KV rows out of order."""
    made, x = talker(), inputs(3, 20)
    cache, rows, lengths = cache_for(made), torch.tensor([3, 0, 2]), [4, 9, 1]
    for i, length in enumerate(lengths):
        made.prefill(x[i, :length], cache, int(rows[i]), 0)
    whole = made(x)
    for n in range(11):
        at = torch.tensor(lengths) + n
        hidden = made.step(x[torch.arange(3), at], cache, rows, at)
        assert_close(hidden, whole[torch.arange(3), at], rtol=0, atol=2e-6)


def test_a_row_never_depends_on_its_company() -> None:
    """The same call size, other rows: the same bits."""
    made, x = talker(), inputs(6)
    made_alone, made_busy = [], []
    for busy, out in ((False, made_alone), (True, made_busy)):
        cache = cache_for(made)
        made.prefill(x[:3], cache, 1, 0)
        if busy:
            made.prefill(inputs(30, seed=5), cache, 0, 0)
            made.prefill(100 * inputs(2, seed=6), cache, 2, 0)
        for n, row in enumerate(x[3:]):
            company = inputs(1, seed=n)[0] * 7 if busy else torch.zeros_like(row)
            rows = torch.tensor([1, 0 if busy else cache.scratch])
            positions = torch.tensor([3 + n, 30 + n if busy else 0])
            hidden = made.step(torch.stack([row, company]), cache, rows, positions)[0]
            out += [hidden, made.logits(hidden[None])]
    assert all(torch.equal(a, b) for a, b in zip(made_alone, made_busy, strict=True))


def test_a_row_used_again_reads_nothing_old() -> None:
    made, x = talker(), inputs(9)
    cache = cache_for(made)
    first = made.prefill(x, cache, 1, 0)
    cache.keys[:, 1], cache.values[:, 1] = 1e4, 1e4
    assert torch.equal(made.prefill(x, cache, 1, 0), first)


def test_vectors_are_those_of_the_tables() -> None:
    made, c = talker(), config().talker
    frames = torch.randint(0, c.code_predictor.vocab_size, (5, c.num_code_groups))
    tables = [made.model.codec_embedding, *made.code_predictor.model.codec_embedding]
    summed = torch.zeros(5, c.hidden_size, dtype=torch.float64)
    for table, codes in zip(tables, frames.T, strict=True):
        summed += table.weight[codes].double()
    assert_close(made.frame_vectors(frames).double(), summed, rtol=0, atol=2e-6)
    raw = made.model.text_embedding.weight[[3, 8]]
    p = made.text_projection
    inner = torch.nn.functional.silu(raw @ p.linear_fc1.weight.T + p.linear_fc1.bias)
    expected = inner @ p.linear_fc2.weight.T + p.linear_fc2.bias
    assert_close(made.text_vectors(torch.tensor([3, 8])), expected)
    assert torch.equal(made.codec_vectors(frames[:, 0]), tables[0].weight[frames[:, 0]])


def test_rope_turns_pairs_by_their_distance() -> None:
    """What attention sees of two positions is how far apart they are; far out too (fp32 angles)."""
    x = inputs(2)[:, :8].double()
    for near, far in ((0, 0), (0, 5), (8000, 8005)):
        angles = rope_angles(torch.tensor([near, far]), 8, 1e4)
        q, k = rotate(x, (angles[0].double(), angles[1].double()))
        if far == near:
            assert_close(q @ k, x[0] @ x[1], rtol=0, atol=1e-6)
        elif near == 0:
            reference = q @ k
        else:
            assert_close(q @ k, reference, rtol=0, atol=2e-2)
    pair = rotate(torch.tensor([[1.0, 0, 0, 0]]), rope_angles(torch.tensor([1]), 4, 1e4))
    one = torch.tensor(1.0)
    assert_close(pair[0], torch.stack([one.cos(), 0 * one, one.sin(), 0 * one]))


def test_the_whole_pass_is_causal_and_trains() -> None:
    made = talker(fold=False).requires_grad_(True)
    x = inputs(1, 8).requires_grad_(True)
    made(x)[0, 4].square().sum().backward()
    assert x.grad is not None
    assert x.grad[0, :5].abs().amin(0).max() > 0
    assert x.grad[0, 5:].abs().max() == 0
    layer = made.model.layers[0].self_attn.qkv_proj.weight.grad
    assert layer is not None and layer.abs().max() > 0


def test_bfloat16_runs_and_stays_near() -> None:
    made, x = talker(), inputs(8)
    exact = made(x[None])[0]
    half = talker(fold=False).bfloat16()
    half.fold()
    cache = cache_for(half)
    near = half.prefill(x[:6].bfloat16(), cache, 0, 0)
    rows, positions = torch.tensor([0, cache.scratch]), torch.tensor([6, 0])
    step = half.step(x[[6, 6]].bfloat16(), cache, rows, positions)
    assert near.dtype == step.dtype == torch.bfloat16
    assert half.logits(step).dtype == torch.float32
    error = (torch.cat([near, step[:1]]).float() - exact[:7]).abs().mean() / exact.abs().mean()
    assert error < 0.03
