"""What the reference package once said, said again: codes to the bit, samples to 1e-5. Needs no
reference package (tests/parity has it made anew).
"""

from __future__ import annotations

import pytest
import torch

from engine.models.streaming import CodecState
from tests.engine import voice
from tests.parity import golden, ours
from tests.parity.golden import EAGER, EVERY, FRAMES, SETTINGS, Setting


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_codes(setting: Setting) -> None:
    said = ours.speak(ours.tiny(setting), setting.cases, setting.layout, FRAMES)
    stored = golden.codes()[str(setting)]
    assert all(torch.equal(a, b) for a, b in zip(said, stored, strict=True))
    lengths = {len(codes) for codes in stored}
    assert len(lengths) == (3 if setting.eager == EAGER else 1)


def test_samples_of_a_stream() -> None:
    made = voice.codec()
    state = CodecState.allocate(made.config, 1, "cpu", torch.float32)
    parts = golden.codec_input(made.config).split(1, 2)
    samples = torch.cat([made(part, state, torch.tensor([0]))[0] for part in parts])
    stored = golden.samples()
    torch.testing.assert_close(samples[::EVERY], stored, rtol=0, atol=1e-5)
    assert 0.01 < stored.std() < 0.5
