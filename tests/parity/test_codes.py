"""Our engine says the codes that the reference package says, and the golden files hold them."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.models.shapes import TALKER
from engine.tokenizer import Tokenizer
from tests.engine import voice
from tests.engine.tiny import TOKENIZER, config_json
from tests.parity import golden, ours, reference
from tests.parity.cases import DESIGNED, Case
from tests.parity.golden import EAGER, FRAMES, SETTINGS, Setting

pytestmark = pytest.mark.parity


@cache
def theirs(kind: str, size: str, eager: float) -> Any:
    made = reference.model(config_json(kind, size))
    reference.fill(made.talker, TALKER, seed=0)
    with torch.no_grad():
        made.talker.codec_head.weight[made.config.talker_config.codec_eos_token_id] *= eager
    return made


def expected(setting: Setting, cases: list[Case] | None = None) -> list[Tensor]:
    config = voice.config(setting.kind, setting.size)
    return reference.speak(
        theirs(setting.kind, setting.size, setting.eager),
        config,
        Tokenizer.load(TOKENIZER),
        cases or setting.cases,
        setting.layout,
        FRAMES,
    )


def compare(setting: Setting, cases: list[Case] | None = None) -> list[Tensor]:
    said = ours.speak(ours.tiny(setting), cases or setting.cases, setting.layout, FRAMES)
    for a, b in zip(said, expected(setting, cases), strict=True):
        assert torch.equal(a, b)
    return said


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_three_of_unequal_lengths_side_by_side(setting: Setting) -> None:
    said = compare(setting)
    stored = golden.codes()[str(setting)]
    assert all(torch.equal(a, b) for a, b in zip(said, stored, strict=True))


@pytest.mark.parametrize("layout", ["full", "stream"])
@pytest.mark.parametrize("case", DESIGNED, ids=lambda case: case.text[:5])
def test_alone(layout: str, case: Case) -> None:
    compare(Setting("voice_design", "1b7", layout, EAGER), [case])
