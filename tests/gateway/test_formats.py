"""Sound in the client's format: the same, whole or frame by frame; G.711; Opus."""

from __future__ import annotations

import subprocess
import sys

import av
import numpy as np
import pytest
import soxr

from gateway import audio, formats
from gateway.encoder import Encoder, Piece, encoder
from gateway.formats import Format

from .house import ROOT

RATE, FRAME = 24_000, 1920
OTHERS = [r for r in formats.RATES if r != RATE]


def speech(frames: int) -> bytes:
    """Something between a voice and a hiss, as loud as speech is."""
    t = np.arange(frames * FRAME) / RATE
    pitch = np.cumsum(160 + 60 * np.sin(2 * np.pi * 1.7 * t)) / RATE
    voice = sum(np.sin(2 * np.pi * n * pitch) / n for n in range(1, 20))
    hiss = np.random.default_rng(7).standard_normal(len(t))
    sound = (5000 * voice + 300 * hiss) * (0.6 + 0.4 * np.sin(2 * np.pi * 3 * t))
    return sound.astype("<i2").tobytes()


def tone(frames: int, hertz: float = 250.0) -> bytes:
    """At 250 Hz each frame begins on a crest, where a border is heard the most."""
    wave = 8000 * np.cos(2 * np.pi * hertz * np.arange(frames * FRAME) / RATE)
    return np.rint(wave).astype("<i2").tobytes()


def cut(pcm: bytes) -> list[bytes]:
    return [pcm[at : at + 2 * FRAME] for at in range(0, len(pcm), 2 * FRAME)]


def pieces(there: Encoder, pcm: bytes) -> list[Piece]:
    return [*(there.encode(frame) for frame in cut(pcm)), there.finish()]


def at_once(pcm: bytes, rate: int) -> audio.Floats:
    whole: audio.Floats = soxr.resample(audio.floats_of(pcm), RATE, rate, quality="HQ")
    return whole


def roughness(samples: audio.Floats) -> float:
    """The greatest bend between three samples: a click is one."""
    return float(np.abs(np.diff(samples, 2)).max())


@pytest.mark.parametrize("frames", [1, 2, 37])
@pytest.mark.parametrize("rate", OTHERS)
@pytest.mark.parametrize("encoding", audio.ENCODINGS)
def test_frame_by_frame_equals_the_whole_at_once(encoding: str, rate: int, frames: int) -> None:
    pcm = speech(frames)
    made = pieces(encoder(Format(encoding, rate), RATE), pcm)
    assert b"".join(p.data for p in made) == audio.encode_floats(at_once(pcm, rate), encoding)
    assert sum(p.samples for p in made) == frames * FRAME * rate // RATE
    assert all(p.samples and not p.skip for p in made)


@pytest.mark.parametrize("rate", OTHERS)
def test_no_click_at_a_border(rate: int) -> None:
    bend = 8000 / 32768 * (2 * np.pi * 250 / rate) ** 2
    made = pieces(encoder(Format("pcm_f32le", rate), RATE), tone(30))
    smooth = np.frombuffer(b"".join(p.data for p in made), "<f4")[rate // 20 : -rate // 20]
    assert roughness(smooth) < 1.1 * bend
    apart = np.concatenate([at_once(frame, rate) for frame in cut(tone(30))])
    assert roughness(apart[rate // 20 : -rate // 20]) > 5 * bend  # as it would be heard


@pytest.mark.parametrize("rate", OTHERS)
def test_the_sound_lags_by_less_than_a_frame(rate: int) -> None:
    there, given = encoder(Format("pcm_s16le", rate), RATE), 0
    for number, frame in enumerate(cut(speech(60))):
        given += there.encode(frame).samples
        assert number * FRAME * rate // RATE < given <= (number + 1) * FRAME * rate // RATE


@pytest.mark.parametrize("rate", OTHERS)
def test_settling_gives_all_so_far_and_leaves_no_click(rate: int) -> None:
    there, made = encoder(Format("pcm_f32le", rate), RATE), []
    pcm = tone(21, 253.0)  # at the border in the midst of a period, at full loudness
    for number, frame in enumerate(cut(pcm)):
        made.append(there.encode(frame))
        if number == 10:
            made.append(there.settle())
            assert there.settle().samples == 0
            assert sum(p.samples for p in made) == 11 * FRAME * rate // RATE
    made += [there.settle(), there.finish()]
    assert made[-1].samples == 0
    assert sum(p.samples for p in made) == 21 * FRAME * rate // RATE
    whole, got = at_once(pcm, rate), np.frombuffer(b"".join(p.data for p in made), "<f4")
    inner = slice(rate // 20, -rate // 20)
    off = np.abs(got - whole)[inner].max() / np.abs(whole).max()
    assert 0 < off < 0.001  # -60 dB: it is an estimate, and nobody hears that


def test_loud_sound_is_clipped_and_never_wraps() -> None:
    square = np.where(np.arange(5 * FRAME) // 40 % 2, 32767, -32768).astype("<i2").tobytes()
    made = pieces(encoder(Format("pcm_s16le", 48_000), RATE), square)
    got = np.frombuffer(b"".join(p.data for p in made), "<i2")
    whole = at_once(square, 48_000)
    assert np.abs(whole).max() > 1.0  # the filter overshoots
    assert not np.any((np.abs(whole) > 0.5) & (np.sign(got) != np.sign(whole)))


def test_the_default_is_the_engines_own_bytes() -> None:
    pcm = speech(1)
    piece = encoder(Format("pcm_s16le", RATE), RATE).encode(pcm)
    assert piece.data is pcm
    assert piece == (pcm, FRAME, 0)


@pytest.mark.parametrize(
    ("encoding", "known"),
    [  # ITU-T G.711 tables 1 and 2: the ends, zero, and a step beside each
        ("mulaw", {0: 0xFF, -4: 0x7E, 4: 0xFE, 32767: 0x80, -32768: 0x00, 1000: 0xCE}),
        ("alaw", {0: 0xD5, -1: 0x55, 16: 0xD4, 32767: 0xAA, -32768: 0x2A, 1000: 0xFA}),
    ],
)
def test_known_values_of_g711(encoding: str, known: dict[int, int]) -> None:
    pcm = np.array(list(known), "<i2").tobytes()
    assert list(audio.encode(pcm, encoding)) == list(known.values())


@pytest.mark.parametrize("encoding", ["mulaw", "alaw"])
def test_g711_round_trip_through_another_decoder(encoding: str) -> None:
    """Each code comes back as itself, each sample within half a step of its segment."""
    every = np.arange(-32768, 32768).astype("<i2")
    back = decode(audio.encode(every.tobytes(), encoding), f"pcm_{encoding}")
    assert audio.encode(back.astype("<i2").tobytes(), encoding) == audio.encode(
        every.tobytes(), encoding
    )
    error = np.abs(back.astype(int) - every)
    # a segment has 16 steps: half of one is a 32nd of its first value; mu-law drops two bits before
    assert np.all(error <= np.maximum(8, (np.abs(every.astype(int)) + 132) / 32) + 4)


def decode(data: bytes, codec: str) -> np.ndarray:
    there = av.CodecContext.create(codec, "r")
    assert isinstance(there, av.AudioCodecContext)
    there.sample_rate, there.layout = 8000, "mono"
    frames = there.decode(av.Packet(data))
    return np.concatenate([f.to_ndarray()[0] for f in frames])


def heard(made: list[Piece], to: int) -> audio.Floats:
    """What a client hears that decodes at 48 kHz and follows the page, at `to`'s count."""
    there = av.CodecContext.create("libopus", "r")
    assert isinstance(there, av.AudioCodecContext)
    there.layout = "mono"
    step = 48_000 // to
    sound = []
    for piece in made:
        (frame,) = there.decode(av.Packet(piece.data))
        samples = frame.to_ndarray()[0].astype(np.float32) / 32768
        sound.append(samples[piece.skip * step :][: piece.samples * step])
        assert len(sound[-1]) == piece.samples * step
    return np.concatenate(sound)


def likeness(whole: audio.Floats, got: audio.Floats) -> float:
    """Signal to noise in dB."""
    return float(10 * np.log10(np.mean(whole**2) / np.mean((whole - got) ** 2)))


@pytest.mark.parametrize("rate", [8000, 16_000, 24_000, 48_000])
def test_opus_decodes_to_nearly_the_input(rate: int) -> None:
    pcm = speech(30)
    made = pieces(encoder(Format("opus", rate), RATE), pcm)
    assert len(made) == 31
    assert made[0].skip == rate * 312 // 48_000
    assert not any(p.skip for p in made[1:])
    assert sum(p.samples for p in made) == 30 * FRAME * rate // RATE
    whole, got = at_once(pcm, 48_000), heard(made, rate)
    assert len(got) == len(whole)
    assert likeness(whole, got) > 12
    assert likeness(whole[:-312], got[312:]) < 6  # so a wrong place would be seen
    assert sum(len(p.data) for p in made) < len(pcm) / 8


def test_an_encoder_that_heard_nothing_has_nothing() -> None:
    for format in formats.served(RATE):
        there = encoder(format, RATE)
        assert there.settle().samples == 0
        assert there.finish() == (b"", 0, 0)


def test_what_is_served_and_what_is_said_of_the_rest() -> None:
    there = formats.served(RATE)
    assert there[0] == ("pcm_s16le", RATE)
    assert len(set(there)) == len(there) == 4 * 5 + 4
    assert Format("opus", 44_100) not in there
    assert formats.why_not(Format("opus", 44_100), RATE) == (
        "opus is not served at 44100; there is 24000, 8000, 16000, 48000"
    )
    assert "pcm_s16le, pcm_f32le, mulaw, alaw, opus" in formats.why_not(Format("mp3", 8000), RATE)


def test_without_pyav_there_is_no_opus_and_the_fix_is_said() -> None:
    script = (
        "import sys; sys.modules['av'] = None\n"
        "from gateway import formats\n"
        "assert all(f.encoding != 'opus' for f in formats.served(24000))\n"
        "assert len(formats.served(24000)) == 20\n"
        "print(formats.why_not(formats.Format('opus', 24000), 24000))\n"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert told.returncode == 0, told.stderr
    assert told.stdout.strip() == (
        "opus is not served: the server needs PyAV: pip install 'vivavoce[opus]'"
    )
