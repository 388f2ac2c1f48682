"""Real playback: PulseAudio's null sink is the sound card, its monitor what a listener hears."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.client.test_say import say
from tests.gateway.house import ROOT, asynchronous, gateway

pytestmark = pytest.mark.desk

SECOND = 24_000
SETTINGS = """
load-module module-native-protocol-unix auth-anonymous=1 socket={folder}/native
load-module module-null-sink sink_name=desk rate=48000
set-default-sink desk
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A sound server of the test's own, which the processes it starts find."""
    (tmp_path / "desk.pa").write_text(SETTINGS.format(folder=tmp_path))
    for name in ("HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("PULSE_SERVER", f"unix:{tmp_path}/native")
    tmp_path.chmod(0o700)
    options = ["--exit-idle-time=-1", "--disable-shm=yes", "--daemonize=yes"]
    subprocess.run(
        ["pulseaudio", "-n", "-F", tmp_path / "desk.pa", *options], check=True, capture_output=True
    )
    yield tmp_path
    subprocess.run(["pulseaudio", "--kill"], check=True)


class Microphone:
    """Records the monitor from `async with` to its end, at 24 kHz."""

    async def __aenter__(self) -> Microphone:
        raw = ["--raw", "--format=s16le", f"--rate={SECOND}", "--channels=1", "--latency-msec=20"]
        self._process = await asyncio.create_subprocess_exec(
            "parec", "-d", "desk.monitor", *raw, stdout=PIPE
        )
        assert self._process.stdout
        first = await self._process.stdout.read(1)  # it listens
        self._rest = asyncio.create_task(self._process.stdout.read())
        self._first = first
        return self

    async def __aexit__(self, *_: object) -> None:
        self._process.terminate()
        data = self._first + await self._rest
        await self._process.wait()
        self.heard = np.frombuffer(data[: len(data) & ~1], "<i2").astype(np.float32)


def sounding(heard: np.ndarray) -> np.ndarray:
    """From the first to the last sample that is not silent."""
    loud = np.flatnonzero(np.abs(heard) > 100)
    assert loud.size, "nothing was heard"
    return heard[loud[0] : loud[-1] + 1]


def pitch(sound: np.ndarray) -> float:
    spectrum = np.abs(np.fft.rfft(sound * np.hanning(sound.size)))
    return float(spectrum.argmax() * SECOND / sound.size)


@asynchronous
async def test_say_is_heard_whole(desk: Path) -> None:
    async with gateway() as server, Microphone() as microphone:
        process = await say(server, "one two three four")
        _, told = await process.communicate()
        assert process.returncode == 0, told.decode()
    sound = sounding(microphone.heard)
    assert sound.size / SECOND == pytest.approx(0.96, abs=0.08)
    assert pitch(sound) == pytest.approx(250, abs=3)


@asynchronous
async def test_a_device_that_refuses_the_rate_gets_its_own(desk: Path) -> None:
    """The same second of sine, resampled to the device's rate: same length, same pitch."""
    script = """
import asyncio, math, struct
import sounddevice
from gateway.speaker import Speaker

check = sounddevice.check_output_settings
def picky(**settings):
    if settings["samplerate"] == 24000:
        raise sounddevice.PortAudioError("Invalid sample rate")
    check(**settings)
sounddevice.check_output_settings = picky

async def main():
    speaker = Speaker(24000)
    tone = [int(8000 * math.sin(2 * math.pi * 250 * i / 24000)) for i in range(24000)]
    for at in range(0, 24000, 1920):
        piece = tone[at : at + 1920]
        await speaker.write(struct.pack(f"<{len(piece)}h", *piece))
    await speaker.drain()
    print(speaker._device_rate, speaker.played)
    speaker.close()

asyncio.run(main())
"""
    async with Microphone() as microphone:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", script, stdout=PIPE, stderr=DEVNULL, cwd=ROOT, env=os.environ
        )
        out, _ = await process.communicate()
        assert process.returncode == 0
    rate, played = map(int, out.split())
    assert rate in (44_100, 48_000)
    assert played == pytest.approx(SECOND, abs=5)
    sound = sounding(microphone.heard)
    assert sound.size / SECOND == pytest.approx(1.0, abs=0.08)
    assert pitch(sound) == pytest.approx(250, abs=3)
