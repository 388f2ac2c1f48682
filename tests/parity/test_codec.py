"""Our codec makes the samples that the reference package's decoder makes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.config import CodecConfig
from engine.models.codec import Codec
from engine.models.names import fill
from engine.models.shapes import CODEC, codec_shapes
from engine.models.streaming import CodecState
from tests.engine import voice
from tests.engine.tiny import codec_json
from tests.engine.weights import drawn
from tests.parity import reference

pytestmark = pytest.mark.parity

PUBLISHED = Path(__file__).parent.parent / "golden" / "configs" / "codec.config.json"


def codes(config: CodecConfig, rows: int, frames: int) -> Tensor:
    random = torch.Generator().manual_seed(0)
    shape = (rows, config.num_quantizers, frames)
    return torch.randint(config.codebook_size, shape, generator=random)


def streamed(made: Codec, x: Tensor, chunk: int) -> Tensor:
    state = CodecState.allocate(made.config, 2, "cpu", torch.float32)
    rows = torch.arange(len(x))
    return torch.cat([made(part, state, rows) for part in x.split(chunk, 2)], 1)


@torch.no_grad()
def test_tiny_for_longer_than_its_window() -> None:
    theirs, made = reference.codec(codec_json()), voice.codec()
    reference.fill(theirs, CODEC, seed=0)
    x = codes(made.config, 2, 100)
    expected = theirs(x)[:, 0]
    assert 0.01 < expected.std() < 0.5
    for samples in (made(x), streamed(made, x, 1), streamed(made, x, 7)):
        torch.testing.assert_close(samples, expected, rtol=0, atol=1e-5)


@torch.no_grad()
def test_of_the_published_sizes() -> None:
    content = json.loads(PUBLISHED.read_text())
    config = CodecConfig.parse(content)
    theirs = reference.codec(content)
    reference.fill(theirs, CODEC, seed=0)
    x = codes(config, 1, 5)
    expected = theirs(x)[:, 0]
    del theirs
    made = Codec(config)
    shapes = codec_shapes(config)
    fill(made, CODEC, lambda name: drawn({name: shapes[name]})[name])
    made.eval().fold()
    assert 0.01 < expected.std() < 0.5
    for samples in (made(x), streamed(made, x, 1), streamed(made, x, 2)):
        torch.testing.assert_close(samples, expected, rtol=0, atol=1e-5)
