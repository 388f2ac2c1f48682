"""Positions: the model's rate inside, the client's on the wire."""

from __future__ import annotations

import pytest

from gateway.formats import Format
from gateway.utterance import Utterance

FRAME = 1920


def utterance(wire_rate: int) -> Utterance:
    return Utterance(
        name="u", id=1, seed=0, rate=24_000, frame_samples=FRAME,
        format=Format("pcm_s16le", wire_rate), progress=True, journal=False, opened_at=0.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rate", "frame"),
    [(8000, 640), (12000, 960), (16000, 1280), (24000, 1920), (44100, 3528), (48000, 3840)],
)
def test_frame_borders_convert_without_rest(rate: int, frame: int) -> None:
    there = utterance(rate)
    for number in (0, 1, 7, 8192):
        assert there.to_wire(number * FRAME) == number * frame
        assert there.from_wire(number * frame) == number * FRAME


def test_the_models_rate_changes_nothing() -> None:
    there = utterance(24_000)
    for samples in (0, 1, 1919, 2**53):
        assert there.to_wire(samples) == there.from_wire(samples) == samples


def test_what_the_client_played_never_becomes_more() -> None:
    there = utterance(44_100)
    for played in range(3529):
        inside = there.from_wire(played)
        assert inside * 147 <= played * 80 < (inside + 1) * 147
