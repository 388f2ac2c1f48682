"""Word error rate, natural ends and pitch of a checkpoint, through the engine itself.

usage: python -m engine.voices.training.evaluate FOLDER [--layout full stream] [--temperature T ...]
Prints one line an utterance and one JSON line a setting.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from engine import checkpoint
from engine.checkpoint import Loaded
from engine.config import EngineConfig
from engine.engine import Engine
from engine.messages import Audio, Finished, Sampling, Speak
from engine.voices.training.held_out import DESCRIPTIONS, SENTENCES
from engine.voices.training.listen import RATE, Array, Listener, errors, pitch, words


@dataclass
class Spoken:
    sentence: str
    description: str
    kind: str
    pcm: Array
    reason: str


def speak(
    loaded: Loaded, layout: str, talker: Sampling, predictor: Sampling, seeds: int = 1
) -> Iterator[Spoken]:
    """Every held-out sentence under the descriptions in turn; 8 at a time."""
    engine = Engine(loaded, EngineConfig(model="", device="cpu", slots=8), time.monotonic)
    asked: dict[int, Spoken] = {}
    parts: dict[int, list[bytes]] = {}
    commands = []
    for n in range(len(SENTENCES) * seeds):
        sentence = SENTENCES[n % len(SENTENCES)]
        description, kind = DESCRIPTIONS[n % len(DESCRIPTIONS)]
        asked[n + 1] = Spoken(sentence, description, kind, np.zeros(0, np.float32), "")
        parts[n + 1] = []
        commands.append(Speak(n + 1, description, seed=n, text=sentence, ended=True, layout=layout,
                              talker=talker, predictor=predictor, live=False))  # fmt: skip
    for first in range(0, len(commands), 8):
        events = engine.step(commands[first : first + 8])
        while True:
            for event in events:
                if isinstance(event, Audio):
                    parts[event.utterance].append(event.pcm)
                elif isinstance(event, Finished):
                    asked[event.utterance].reason = event.reason
            if not engine.busy:
                break
            events = engine.step([])
    for n, spoken in asked.items():
        pcm = np.frombuffer(b"".join(parts[n]), "<i2").astype(np.float32) / 32_768
        yield replace(spoken, pcm=pcm)


def measure(loaded: Loaded, listener: Listener, layout: str, talker: Sampling, predictor: Sampling,
            seeds: int, verbose: bool) -> dict[str, object]:  # fmt: skip
    wrong = total = ended = 0
    pitches: dict[str, list[float]] = {"high": [], "low": []}
    seconds = 0.0
    start = time.time()
    for spoken in speak(loaded, layout, talker, predictor, seeds):
        heard = listener.hear(spoken.pcm) if len(spoken.pcm) else ""
        said = words(spoken.sentence)
        missed = errors(said, words(heard))
        wrong, total, ended = wrong + missed, total + len(said), ended + (spoken.reason == "eos")
        f0 = pitch(spoken.pcm)
        pitches[spoken.kind].append(f0)
        seconds += len(spoken.pcm) / RATE
        if verbose:
            print(f"{missed}/{len(said)} {spoken.reason} {len(spoken.pcm) / RATE:.1f} s {f0:.0f} Hz"
                  f" [{spoken.description}] {spoken.sentence} | {heard}", flush=True)  # fmt: skip
    utterances = len(pitches["high"]) + len(pitches["low"])
    pairs = [h > low for h in pitches["high"] for low in pitches["low"]]
    return {
        "layout": layout,
        "temperature": [talker.temperature, predictor.temperature],
        "top_k": [talker.top_k, predictor.top_k],
        "wer": round(wrong / total, 4),
        "eos": round(ended / utterances, 4),
        "f0": {kind: round(float(np.median(values))) for kind, values in pitches.items()},
        "pairs": round(float(np.mean(pairs)), 4),
        "seconds": round(seconds, 1),
        "took": round(time.time() - start, 1),
    }


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("folder")
    options.add_argument("--layout", nargs="+", default=["full", "stream"])
    options.add_argument(
        "--temperature", nargs="+", type=float, help="talker's; default: the folder's"
    )
    options.add_argument("--predictor", type=float, help="code predictor's temperature")
    options.add_argument("--top-k", type=int)
    options.add_argument("--seeds", type=int, default=1)
    options.add_argument("--quiet", action="store_true")
    given = options.parse_args()
    torch.set_num_threads(2)
    loaded = checkpoint.load(given.folder, "cpu", lambda _: None)
    generation = loaded.config.generation
    listener = Listener()
    for temperature in given.temperature or [generation.talker.temperature]:
        talker = replace(generation.talker, temperature=temperature, greedy=temperature == 0)
        predictor = generation.predictor
        if given.predictor is not None:
            predictor = replace(predictor, temperature=given.predictor, greedy=given.predictor == 0)
        if given.top_k:
            talker, predictor = (
                replace(talker, top_k=given.top_k),
                replace(predictor, top_k=given.top_k),
            )
        for layout in given.layout:
            result = measure(
                loaded, listener, layout, talker, predictor, given.seeds, not given.quiet
            )
            print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
