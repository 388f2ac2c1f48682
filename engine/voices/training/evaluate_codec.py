"""The codec alone: held-out sentences by the teacher in voices never drawn in training, before and
after encoding and decoding.

usage: python -m engine.voices.training.evaluate_codec CODEC [NUMBER]
Prints one line an utterance (pitch in Hz, DNSMOS: true/made) and one JSON line.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import numpy as np
import torch

from engine.models.codec import Codec
from engine.models.names import fill
from engine.voices.training import codes, export
from engine.voices.training.describe import design
from engine.voices.training.generate import Teacher
from engine.voices.training.held_out import SENTENCES, TYPED
from engine.voices.training.listen import Array, Listener, Mos, errors, track, words
from engine.voices.training.modules import codec_for_training


@torch.no_grad()
def main() -> None:
    folder, number = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 40
    encoder, quantiser = codes.learned(folder, "cpu")
    codec: Codec = codec_for_training()
    state = export.decoder(folder)
    fill(codec, export.CODEC, state.__getitem__)
    teacher, listener, mos = Teacher(), Listener(), Mos()
    wrong, total = [0, 0], 0
    grades: list[tuple[float, float]] = []
    pitches: list[tuple[float, float]] = []
    texts = [s for s in SENTENCES if s not in TYPED][:number]
    for n, text in enumerate(texts):
        voice, tags = design(random.Random(10_000_000 + n))
        wave, _ = teacher.read(text, voice, np.random.default_rng(n))
        true: Array = wave * np.float32(0.065 / np.sqrt((wave**2).mean()))
        pcm = torch.from_numpy((true.clip(-1, 1) * 32_767).astype(np.int16))
        coded = codes.encode(encoder, quantiser, pcm).long().T[None]
        made = codec(coded)[0].numpy()
        missed = [errors(words(text), words(listener.hear(x))) for x in (true, made)]
        wrong = [a + b for a, b in zip(wrong, missed, strict=True)]
        total += len(words(text))
        grades.append((mos.grade(true), mos.grade(made)))
        found = track(true), track(made)
        if not voice.whisper:
            pitches.append((found[0].median, found[1].median))
        print(f"{missed} {found[0].median:.0f}/{found[1].median:.0f} Hz voicing"
              f" {found[0].voicing:.2f}/{found[1].voicing:.2f} mos {grades[-1][0]:.2f}/"
              f"{grades[-1][1]:.2f} {tags} {text}", flush=True)  # fmt: skip
    off = [abs(b / a - 1) for a, b in pitches if a]
    print(json.dumps({
        "utterances": len(texts), "wer": [round(w / total, 4) for w in wrong],
        "dnsmos": [round(float(m), 3) for m in np.mean(grades, 0)],
        "pitch_off": [round(float(x), 4) for x in (np.median(off), np.mean(off))],
        "over_10_percent": round(float((np.asarray(off) > 0.1).mean()), 4),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
