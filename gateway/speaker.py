"""The sound card: PCM in, sound out, through a callback that never waits (F60 to F62).

Needs the extra `audio` and PortAudio. `NoSpeaker` says what is missing.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

LATENCY = 0.1  # seconds the device may hold
START = 0.12  # seconds of speech in the ring before it sounds
CAPACITY = 30.0  # seconds the ring holds; a writer waits beyond
CLOSE_SECONDS = 1.0
HANG_SECONDS = 5.0  # a device that takes nothing for so long is broken


class NoSpeaker(Exception):
    """No device, no PortAudio or no Python package for it; the message says which."""


class Ring:
    """Bytes on their way from one thread to another. Silence where there are none."""

    def __init__(self, start: int, capacity: int) -> None:
        assert 0 < start <= capacity
        self.start = start
        self.capacity = capacity
        self.taken = 0  # bytes of speech, not of silence
        self.underruns = 0  # gaps after the start, each counted once
        self._bytes = bytearray()
        self._lock = threading.Lock()
        self._sounding = False
        self._ended = False

    def __len__(self) -> int:
        return len(self._bytes)

    def put(self, data: bytes) -> bool:
        """Append all of `data`, or nothing where it does not fit."""
        with self._lock:
            if self._bytes and len(self._bytes) + len(data) > self.capacity:
                return False
            self._bytes += data
            return True

    def end(self) -> None:
        """No more comes: what is held sounds however little it is, and dry is no underrun."""
        self._ended = True

    def take(self, size: int) -> bytes:
        """`size` bytes, filled up with silence."""
        with self._lock:
            if not self._sounding and not (self._ended or len(self._bytes) >= self.start):
                return bytes(size)
            data = bytes(self._bytes[:size])
            del self._bytes[:size]
            self._sounding = len(data) == size
            if not self._sounding and not self._ended:
                self.underruns += 1
            self.taken += len(data)
        return data + bytes(size - len(data))


class Speaker:
    """Plays s16le at `rate` on the default device, resampled where the device refuses the rate."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        sounddevice = _sounddevice()
        self._device_rate = _device_rate(sounddevice, rate)
        self._resampler = _resampler(rate, self._device_rate)
        second = 2 * self._device_rate
        self._loop: asyncio.AbstractEventLoop | None = None  # of the one who waits
        self._taken = asyncio.Event()
        self._ring = Ring(int(START * self._device_rate) * 2, int(CAPACITY * second))
        self._stream = sounddevice.RawOutputStream(
            samplerate=self._device_rate,
            channels=1,
            dtype="int16",
            blocksize=0,
            latency=LATENCY,
            callback=self._fill,
        )
        self._stream.start()

    @property
    def played(self) -> int:
        """Samples of speech the device has taken, in the speech's own rate."""
        return self._ring.taken // 2 * self.rate // self._device_rate

    @property
    def underruns(self) -> int:
        return self._ring.underruns

    async def write(self, pcm: bytes) -> None:
        """Queue `pcm`, waiting while the ring is full."""
        data = self._resample(pcm, last=False)
        await self._taken_until(lambda: self._ring.put(data))

    async def drain(self) -> None:
        """Return when all of it has sounded. TimeoutError where the device takes nothing."""
        if tail := self._resample(b"", last=True):
            await self._taken_until(lambda: self._ring.put(tail))
        self._ring.end()
        await self._taken_until(lambda: not len(self._ring))
        await asyncio.sleep(float(self._stream.latency))

    async def _taken_until(self, holds: Callable[[], bool]) -> None:
        self._loop = asyncio.get_running_loop()
        while not holds():
            self._taken.clear()
            async with asyncio.timeout(HANG_SECONDS):
                await self._taken.wait()

    def close(self) -> None:
        """Silence at once; a device that hangs is left to itself after a second."""
        closer = threading.Thread(target=self._close, daemon=True)
        closer.start()
        closer.join(CLOSE_SECONDS)

    def _close(self) -> None:
        self._stream.abort()
        self._stream.close()

    def _fill(self, out: Any, frames: int, when: Any, status: Any) -> None:
        out[:] = self._ring.take(len(out))
        if self._loop:
            with suppress(RuntimeError):  # the loop has closed
                self._loop.call_soon_threadsafe(self._taken.set)

    def _resample(self, pcm: bytes, last: bool) -> bytes:
        if self._resampler is None:
            return pcm
        import numpy as np

        resampled = self._resampler.resample_chunk(np.frombuffer(pcm, "<i2"), last=last)
        return bytes(resampled.tobytes())


def _sounddevice() -> Any:
    try:
        import sounddevice
    except ImportError as error:
        raise NoSpeaker("sounddevice is not installed (pip install 'vivavoce[audio]')") from error
    except OSError as error:
        raise NoSpeaker("PortAudio is missing (Debian: apt install libportaudio2)") from error
    try:
        sounddevice.query_devices(kind="output")
    except (sounddevice.PortAudioError, ValueError) as error:
        raise NoSpeaker("there is no sound device") from error
    return sounddevice


def _device_rate(sounddevice: Any, rate: int) -> int:
    """`rate` where the device takes it, else the device's own."""
    try:
        sounddevice.check_output_settings(channels=1, dtype="int16", samplerate=rate)
    except sounddevice.PortAudioError:
        return int(sounddevice.query_devices(kind="output")["default_samplerate"])
    return rate


def _resampler(rate: int, device_rate: int) -> Any:
    if rate == device_rate:
        return None
    import soxr

    return soxr.ResampleStream(rate, device_rate, 1, dtype="int16")
