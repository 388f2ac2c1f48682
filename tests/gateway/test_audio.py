from __future__ import annotations

import array
import hashlib
import struct

import pytest

from gateway.audio import AUDIBLE, encode, first_audible

ALL = array.array("h", range(-32768, 32768)).tobytes()


@pytest.mark.parametrize(
    ("encoding", "digest"),
    [  # of CPython 3.11's audioop.lin2ulaw and lin2alaw over every sample
        ("mulaw", "81d633c9e6972a18c74a58720b96cb8ca0bdd096d4060b646dd708c3b846019a"),
        ("alaw", "38488f6fd710f4686360edc4d38639f96c491595ef93f8eb8d62d5e07ca6ce7b"),
    ],
)
def test_g711_equals_the_reference_for_every_sample(encoding: str, digest: str) -> None:
    assert hashlib.sha256(encode(ALL, encoding)).hexdigest() == digest


def test_floats_are_the_samples_over_full_scale() -> None:
    floats = struct.unpack("<3f", encode(struct.pack("<3h", -32768, 0, 16384), "pcm_f32le"))
    assert floats == (-1.0, 0.0, 0.5)


def test_the_default_passes_through_untouched() -> None:
    assert encode(ALL, "pcm_s16le") is ALL


@pytest.mark.parametrize("sample", [AUDIBLE, -AUDIBLE])
def test_audible_begins_at_the_stated_level(sample: int) -> None:
    quiet = [AUDIBLE - 1, -AUDIBLE + 1]
    assert first_audible(struct.pack("<2h", *quiet)) == -1
    assert first_audible(struct.pack("<3h", *quiet, sample)) == 2
