"""Speech of designed voices: one teacher's network, its parts bent before synthesis.

usage: python -m engine.voices.training.generate CORPUS.txt.gz FOLDER HOURS [PROCESSES]

Writes shards: NAME.i16 (24 kHz mono), NAME.u8 (phonemes and pitch) and NAME.json, a list of groups.
A group is one voice reading one to six sentences; each sentence fills whole codec frames, so that
any run of sentences is also a run of codes. A shard's json appears only when all is whole;
FOLDER/stop ends the work.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import sys
import time
from multiprocessing import Process
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

from engine.voices.training.chat import spoken, written
from engine.voices.training.describe import Voice, design
from engine.voices.training.encoder import OCTAVE
from engine.voices.training.teacher import STEP, Reader, session

RATE, FRAME = 24_000, 1_920
BINS = np.arange(601, dtype=np.float32)  # of the teacher's spectra, 0 to 12 kHz
GAP = 3  # silent frames before each group
SHARD = 48  # groups
RIPPLE, REST = 4.5, 3.0  # bins of 20 Hz; nepers below 300 Hz, none above 900
Array = NDArray[np.float32]
Sounds = NDArray[np.uint8]  # [frames, 8]: phonemes, then pitches (`steps`), of each 20 ms


def warp(spectra: Array, factor: float, floor: float) -> Array:
    """Stretch the frequency axis of log spectra [601, T]: the vocal tract shrinks by `factor`."""
    source = BINS / factor
    low = np.minimum(source.astype(int), 600)
    high = np.minimum(low + 1, 600)
    weight = (source - low)[:, None].astype(np.float32)
    bent = spectra[low] * (1 - weight) + spectra[high] * weight
    bent[source > 600] = floor
    return bent


def bend(parts: list[Array], voice: Voice) -> list[Array]:
    """(harmonics, their phase, noise, rest, its phase, f0), made this voice's."""
    lh, th, ln, lr, phi, f0 = parts
    voiced = f0 > 40
    if voiced.any():
        mean = np.exp(np.log(f0[voiced]).mean())
        f0 = np.where(voiced, mean * voice.pitch * (np.maximum(f0, 1) / mean) ** voice.span, 0)
        f0 = f0.astype(np.float32)
    if abs(np.log(voice.pitch)) > 0.2:
        # The envelope and the rest still hold the teacher's harmonics: they drown the new ones.
        lh = gaussian_filter1d(lh, RIPPLE, axis=0)
        lr = np.where(voiced, lr - REST * np.clip(1.5 - BINS / 30, 0, 1)[:, None], lr)
    lh, ln, lr = (warp(x, voice.formant, floor) for x, floor in ((lh, -12), (ln, -9), (lr, -12)))
    nearest = np.minimum((BINS / voice.formant).astype(int), 600)
    th, phi = th[nearest], phi[nearest]
    tilt = (voice.tilt * (BINS / 300 - 0.5))[:, None].astype(np.float32)
    lh, ln, lr = lh + tilt, ln + tilt, lr + tilt
    lh = lh + np.float32(0.5 * np.log(voice.pitch))  # more harmonics when lower: keep the level
    if voice.whisper:
        ln, f0, lr = np.logaddexp(ln, lh - 0.6), f0 * 0, lr - 3
    elif voice.breath:
        ln, lh = np.logaddexp(ln, lh - 3.2), lh - 0.2
    return [x.astype(np.float32) for x in (lh, th, ln, lr, phi, f0)]


class Teacher:
    """hibari-tts, one thread."""

    def __init__(self) -> None:
        from hibari import dsp

        self._reader, self._session, self._synth = Reader(), session(), dsp.synth

    def read(self, text: str, voice: Voice, rng: np.random.Generator) -> tuple[Array, Sounds]:
        """Speech with 80 ms of silence before it and 120 to 280 ms behind it, in whole frames; what
        sounds at each 20 ms of it.
        """
        ids = self._reader.ids(text)
        made = self._session.run(None, {"ids": ids, "speed": np.float32([voice.rate])})
        parts = [part[0].astype(np.float32) for part in made[:-1]]
        bent = bend(parts, voice)
        wave = self._synth(*bent, rng)
        level = np.sqrt(np.convolve(wave**2, np.full(240, 1 / 240, np.float32), "same"))
        loud = np.flatnonzero(level > 0.05 * level.max())
        first = max(0, loud[0] - RATE * 8 // 100)
        wave = wave[first : loud[-1] + int(rng.uniform(0.12, 0.28) * RATE)]
        wave[-480:] *= np.linspace(1, 0, 480, dtype=np.float32)[-len(wave[-480:]) :]
        wave = np.pad(wave, (0, -len(wave) % FRAME))
        ends = np.cumsum(made[-1]) * STEP - first
        places = np.arange(FRAME // 8, len(wave), FRAME // 4)
        phones = np.append(ids[0], 0)[
            np.minimum(np.searchsorted(ends, places, "right"), ids.shape[1])
        ]
        f0 = bent[5].reshape(-1)
        pitches = steps(np.append(f0, 0)[np.minimum((places + first) * 2 // STEP, len(f0))])
        sounds = np.stack([phones.reshape(-1, 4), pitches.reshape(-1, 4)], 1)
        return wave, sounds.reshape(-1, 8).astype(np.uint8)


def steps(f0: Array) -> NDArray[np.uint8]:
    """Pitch in sixtieths of an octave above 49.4 Hz; 0: unvoiced."""
    scale = np.rint(1 + OCTAVE * np.log2(np.maximum(f0, 1) / 50)).clip(1, 255)
    return np.where(f0 > 40, scale, 0).astype(np.uint8)


def group(
    teacher: Teacher, texts: list[str], seed: int
) -> tuple[NDArray[np.int16], Sounds, dict[str, Any]]:
    """One voice reading `texts`: PCM in whole frames, what sounds in it, and what it is."""
    voice, tags = design(random.Random(seed))
    rng = np.random.default_rng(seed)
    read = [teacher.read(spoken(text), voice, rng) for text in texts]
    whole = np.concatenate([wave for wave, _ in read])
    speech = whole[np.abs(whole) > 1e-4]
    aim = rng.uniform(0.055, 0.08) * (0.6 if voice.whisper else 1)
    gain = min(aim / np.sqrt((speech**2).mean()), 0.95 / np.abs(whole).max())
    said = [[written(t), len(sounds)] for t, (_, sounds) in zip(texts, read, strict=True)]
    facts = {"tags": tags, "said": said, "seed": seed}
    sounds = np.concatenate([sounds for _, sounds in read])
    return (whole * gain * 32767).astype(np.int16), sounds, facts


def groups(lines: list[str]) -> list[list[str]]:
    """The corpus cut into groups of one to six sentences, 24 s at most."""
    rng = random.Random(5)
    cut: list[list[str]] = []
    room = size = 0
    for line in lines:
        if not cut or size == 0 or len(line) > room:
            cut.append([])
            room, size = 330, rng.choice([1, 1, 2, 2, 3, 4, 5, 6])
        cut[-1].append(line)
        room, size = room - len(line), size - 1
    return cut


class Shards:
    """Files NNNN-PPP.* of one process."""

    def __init__(self, folder: Path, worker: int) -> None:
        self._folder, self._worker, self._count = folder, worker, 0
        self._pcm: list[NDArray[np.int16]] = []
        self._sounds: list[Sounds] = []
        self._facts: list[dict[str, Any]] = []

    def add(self, pcm: NDArray[np.int16], sounds: Sounds, facts: dict[str, Any]) -> bool:
        """Whether this filled a shard."""
        self._pcm += [np.zeros(GAP * FRAME, np.int16), pcm]
        self._sounds += [np.zeros((GAP, 8), np.uint8), sounds]
        self._facts.append(facts)
        if len(self._facts) < SHARD:
            return False
        name = self._folder / f"{self._count:04d}-{self._worker:03d}"
        np.concatenate(self._pcm).tofile(name.with_suffix(".i16"))
        np.concatenate(self._sounds).tofile(name.with_suffix(".u8"))
        name.with_suffix(".tmp").write_text(json.dumps(self._facts))
        name.with_suffix(".tmp").replace(name.with_suffix(".json"))
        self._pcm, self._sounds, self._facts, self._count = [], [], [], self._count + 1
        return True


def work(corpus: Path, folder: Path, hours: float, worker: int, workers: int) -> None:
    os.nice(10)
    teacher, shards, made = Teacher(), Shards(folder, worker), 0
    with gzip.open(corpus, "rt", encoding="utf-8") as file:
        todo = groups([line for line in file.read().split("\n") if line])
    for seed in range(worker, len(todo), workers):
        try:
            pcm, sounds, facts = group(teacher, todo[seed], seed)
        except Exception as error:  # a sentence the teacher cannot read costs its group only
            print(f"group {seed}: {error!r} in {todo[seed]}", file=sys.stderr, flush=True)
            continue
        made += len(pcm)
        full = shards.add(pcm, sounds, facts)
        if full and (made > hours * 3600 * RATE / workers or (folder / "stop").exists()):
            return


def main() -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    corpus, folder, hours = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
    workers = int(sys.argv[4]) if len(sys.argv) > 4 else os.cpu_count() or 1
    folder.mkdir(parents=True, exist_ok=True)
    start = time.time()
    crew = [Process(target=work, args=(corpus, folder, hours, i, workers)) for i in range(workers)]
    for process in crew:
        process.start()
    for process in crew:
        process.join()
    samples = sum(f.stat().st_size // 2 for f in folder.glob("*.i16"))
    print(f"{samples / RATE / 3600:.2f} h in {time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
