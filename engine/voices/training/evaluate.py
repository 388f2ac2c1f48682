"""A checkpoint judged by machines, through the engine itself.

usage: python -m engine.voices.training.evaluate FOLDER [--parts sentences classes ...]
Parts: sentences (word errors, ends, DNSMOS, both layouts), classes (pairs told apart), free (free
descriptions in the right class), speaker (one description and seed), long (three minutes, with and
without carried context). Prints JSON lines; with --verbose one line an utterance besides.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch

from engine import checkpoint
from engine.checkpoint import Loaded
from engine.config import EngineConfig
from engine.engine import Engine
from engine.messages import Audio, Finished, Sampling, Speak
from engine.voices.training.held_out import CLASSES, FREE, SENTENCES, TYPED
from engine.voices.training.listen import RATE, Array, Listener, Mos, Voices, errors, track, words

AT_ONCE = 8
PAIRS = (  # what is measured, the class with more of it, the one with less
    ("f0", "woman", "man"),
    ("f0", "man", "deep"),
    ("f0", "child", "woman"),
    ("rate", "fast", "slow"),
    ("voicing", "woman", "whisper"),
    ("spread", "lively", "flat"),
)


@dataclass
class Spoken:
    description: str
    sentence: str
    pcm: Array
    reason: str

    def measure(self, name: str) -> float:
        if name == "rate":
            return sum(c.isalpha() for c in self.sentence) / max(len(self.pcm) / RATE - 0.3, 0.1)
        found = track(self.pcm)
        return {"f0": found.median, "voicing": found.voicing, "spread": found.spread}[name]


@dataclass
class Voice:
    loaded: Loaded
    talker: Sampling
    predictor: Sampling

    def speak(
        self, asked: Iterable[tuple[str, str, int]], layout: str, carry: str = "none"
    ) -> list[Spoken]:
        """What each (description, sentence, seed) sounds like."""
        config = EngineConfig(model="", device="cpu", slots=AT_ONCE, positions=2_048)
        engine = Engine(self.loaded, config, time.monotonic)
        spoken: dict[int, Spoken] = {}
        parts: dict[int, list[bytes]] = {}
        commands = []
        for n, (description, sentence, seed) in enumerate(asked, 1):
            spoken[n], parts[n] = Spoken(description, sentence, np.zeros(0, np.float32), ""), []
            commands.append(Speak(n, description, seed=seed, text=sentence, ended=True, live=False,
                                  layout=layout, language="english", carry=carry,
                                  talker=self.talker, predictor=self.predictor))  # fmt: skip
        for first in range(0, len(commands), AT_ONCE):
            events = engine.step(commands[first : first + AT_ONCE])
            while engine.busy or events:
                for event in events:
                    if isinstance(event, Audio):
                        parts[event.utterance].append(event.pcm)
                    elif isinstance(event, Finished):
                        spoken[event.utterance].reason = event.reason
                events = engine.step([])
        for n, one in spoken.items():
            one.pcm = np.frombuffer(b"".join(parts[n]), "<i2").astype(np.float32) / 32_768
        return list(spoken.values())


Say = Callable[[dict[str, object]], None]


def sentences(voice: Voice, layouts: list[str], limit: int, verbose: bool, say: Say) -> None:
    listener, mos = Listener(), Mos()
    described = list(CLASSES.values())
    every = [(described[n % len(described)], s, n) for n, s in enumerate(SENTENCES[:limit])]
    for layout in layouts:
        wrong, total = [0, 0], [0, 0]  # of sentences in letters, of those with digits and signs
        by_class: dict[str, list[int]] = {d: [0, 0] for d in described}
        grades, ended, poor = [], 0, 0
        start = time.time()
        spoken = voice.speak(every, layout)
        took = time.time() - start
        for one in spoken:
            heard = listener.hear(one.pcm)
            said = words(one.sentence)
            missed = errors(said, words(heard))
            typed = one.sentence in TYPED
            wrong[typed] += missed
            total[typed] += len(said)
            if not typed:
                by_class[one.description][0] += missed
                by_class[one.description][1] += len(said)
            ended += one.reason == "eos"
            poor += missed > max(3, len(said) / 2)
            grades.append(mos.grade(one.pcm))
            if verbose:
                print(f"{missed}/{len(said)} {one.reason} {grades[-1]:.2f} [{one.description}]"
                      f" {one.sentence} | {heard}", flush=True)  # fmt: skip
        seconds = sum(len(one.pcm) for one in spoken) / RATE
        say({
            "part": "sentences", "layout": layout, "utterances": len(spoken),
            "wer": round(wrong[0] / total[0], 4),
            "wer_typed": round(wrong[1] / max(1, total[1]), 4),
            "eos": round(ended / len(spoken), 4), "poor": poor,
            "dnsmos": round(float(np.mean(grades)), 3), "rtf": round(took / seconds, 3),
            "by_class": {k: round(w / max(1, t), 3) for k, (w, t) in by_class.items()},
        })  # fmt: skip


def classes(voice: Voice, number: int, say: Say) -> dict[str, dict[str, float]]:
    """-> the median of each measure by class."""
    texts = [s for s in SENTENCES if s not in TYPED][:number]
    asked = [(d, s, n) for d in CLASSES.values() for n, s in enumerate(texts)]
    spoken = voice.speak(asked, "full")
    of = {name: spoken[i * number : (i + 1) * number] for i, name in enumerate(CLASSES)}
    for measure, more, less in PAIRS:
        high, low = ([one.measure(measure) for one in of[name]] for name in (more, less))
        apart = np.mean([a > b for a, b in itertools.product(high, low)])
        say({"part": "classes", "measure": measure, "more": more, "less": less,
             "apart": round(float(apart), 4), "medians": [round(float(np.median(x)), 3)
                                                          for x in (high, low)]})  # fmt: skip
    return {
        name: {m: float(np.median([one.measure(m) for one in ones]))
               for m in ("f0", "rate", "voicing", "spread")}
        for name, ones in of.items()
    }  # fmt: skip


def free(voice: Voice, medians: dict[str, dict[str, float]], verbose: bool, say: Say) -> None:
    """Right: on its class's side of the middle between that class and its neighbours."""
    order = ["deep", "man", "woman", "child"]
    texts = [s for s in SENTENCES if s not in TYPED]
    asked = [(d, texts[(2 * i + j) % len(texts)], i) for i, (d, _) in enumerate(FREE)
             for j in range(2)]  # fmt: skip
    spoken = voice.speak(asked, "full")

    def between(measure: str, one: str, other: str) -> float:
        return math.sqrt(medians[one][measure] * medians[other][measure])

    right = 0
    by_class: dict[str, list[int]] = {}
    for i, (description, name) in enumerate(FREE):
        both = spoken[2 * i : 2 * i + 2]
        got = {m: float(np.mean([one.measure(m) for one in both]))
               for m in ("f0", "rate", "voicing", "spread")}  # fmt: skip
        if name in order:
            at = order.index(name)
            low = between("f0", order[at - 1], name) if at else 0
            top = between("f0", name, order[at + 1]) if at < 3 else 1e9
            good = low < got["f0"] < top
        else:
            measure, more = {"slow": ("rate", False), "fast": ("rate", True),
                             "whisper": ("voicing", False), "lively": ("spread", True),
                             "flat": ("spread", False)}[name]  # fmt: skip
            middle = between(measure, "woman", name)
            good = (got[measure] > middle) == more
        right += good
        tally = by_class.setdefault(name, [0, 0])
        tally[0] += good
        tally[1] += 1
        if verbose:
            numbers = " ".join(f"{k} {v:.2f}" for k, v in got.items())
            print(f"{'right' if good else 'WRONG'} {name}: {description} ({numbers})", flush=True)
    say({"part": "free", "right": round(right / len(FREE), 4), "by_class": by_class})


def speaker(voice: Voice, say: Say) -> None:
    voices = Voices()
    texts = [s for s in SENTENCES if s not in TYPED][:10]
    kept = ("woman", "man", "deep", "child")
    means = []
    for i, name in enumerate(kept):
        spoken = voice.speak([(CLASSES[name], s, 7 + i) for s in texts], "full")
        f0 = np.asarray([one.measure("f0") for one in spoken])
        vectors = np.stack([voices.vector(one.pcm) for one in spoken])
        means.append(vectors.mean(0))
        alike = (vectors @ vectors.T)[np.triu_indices(len(texts), 1)].mean()
        say({"part": "speaker", "class": name, "f0": round(float(np.median(f0))),
             "f0_spread": round(float(f0.std() / np.median(f0)), 4),
             "cosine": round(float(alike), 4)})  # fmt: skip
    units = np.stack([m / np.linalg.norm(m) for m in means])
    others = (units @ units.T)[np.triu_indices(len(kept), 1)].mean()
    say({"part": "speaker", "cosine_between_classes": round(float(others), 4)})


def long(voice: Voice, say: Say) -> None:
    """Three minutes in one utterance: word errors, drift of pitch and level by thirds."""
    listener = Listener()
    text = " ".join(s for s in SENTENCES if s not in TYPED)
    for carry in ("none", "context"):
        config = voice.loaded.config
        generation = replace(config.generation, carry=carry == "context")
        asked = replace(voice, loaded=replace(
            voice.loaded, config=replace(config, generation=generation)))  # fmt: skip
        for name in ("woman", "man"):
            (one,) = asked.speak([(CLASSES[name], text, 3)], "auto", carry)
            missed = errors(words(text), words(listener.hear(one.pcm, timestamps=True)))
            thirds = [track(part).median for part in np.array_split(one.pcm, 3)]
            say({"part": "long", "carry": carry, "class": name, "reason": one.reason,
                 "seconds": round(len(one.pcm) / RATE, 1),
                 "wer": round(missed / len(words(text)), 4),
                 "f0_thirds": [round(t) for t in thirds]})  # fmt: skip


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("folder")
    options.add_argument("--parts", nargs="+", default=["sentences", "classes", "free", "speaker"])
    options.add_argument("--layouts", nargs="+", default=["full", "stream"])
    options.add_argument("--temperature", type=float, help="talker's; default: the folder's")
    options.add_argument("--predictor", type=float, help="code predictor's temperature")
    options.add_argument("--top-k", type=int, help="of both")
    options.add_argument("--limit", type=int, default=len(SENTENCES), help="sentences")
    options.add_argument("--weights", default="auto")
    options.add_argument("--verbose", action="store_true")
    given = options.parse_args()
    torch.set_num_threads(2)
    loaded = checkpoint.load(given.folder, "cpu", lambda _: None, given.weights)
    generation = loaded.config.generation
    talker, predictor = generation.talker, generation.predictor
    if given.temperature is not None:
        talker = replace(talker, temperature=given.temperature, greedy=given.temperature == 0)
    if given.predictor is not None:
        predictor = replace(predictor, temperature=given.predictor, greedy=given.predictor == 0)
    if given.top_k:
        talker, predictor = (replace(s, top_k=given.top_k) for s in (talker, predictor))
    voice = Voice(loaded, talker, predictor)
    shown = {"temperature": [talker.temperature, predictor.temperature], "top_k": talker.top_k}
    say: Say = partial(_say, shown)
    if "sentences" in given.parts:
        sentences(voice, given.layouts, given.limit, given.verbose, say)
    if "classes" in given.parts or "free" in given.parts:
        medians = classes(voice, 10, say)
        if "free" in given.parts:
            free(voice, medians, given.verbose, say)
    if "speaker" in given.parts:
        speaker(voice, say)
    if "long" in given.parts:
        long(voice, say)


def _say(shown: dict[str, object], result: dict[str, object]) -> None:
    print(json.dumps(result | shown), flush=True)


if __name__ == "__main__":
    main()
