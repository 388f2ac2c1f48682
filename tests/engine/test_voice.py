"""The checkpoint in the package: it loads, ends by itself, and heeds a description."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from engine import checkpoint
from engine.checkpoint import EMBEDDED, Loaded
from engine.config import EngineConfig
from engine.engine import Engine
from engine.messages import Audio, Finished, Sampling, Speak
from engine.voices.training.held_out import DESCRIPTIONS, SENTENCES
from engine.voices.training.listen import RATE, Array, Listener, errors, pitch, words

MOST = 64_000_000  # bytes on disk


@pytest.fixture(scope="module")
def loaded() -> Iterator[Loaded]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield checkpoint.load(str(EMBEDDED), "cpu", lambda _: None)
    torch.set_num_threads(threads)


def speak(loaded: Loaded, asked: list[tuple[str, str]], layout: str = "full") -> list[Array]:
    """PCM of (description, sentence) pairs, all at once; each must end by itself."""
    config = EngineConfig(model="", device="cpu", slots=len(asked))
    engine = Engine(loaded, config, time.monotonic)
    talker, predictor = loaded.config.generation.talker, loaded.config.generation.predictor
    commands = [
        Speak(n, description, seed=n, text=text, ended=True, layout=layout, live=False,
              talker=talker, predictor=predictor)
        for n, (description, text) in enumerate(asked, 1)
    ]  # fmt: skip
    pcm: dict[int, list[bytes]] = {n: [] for n in range(1, len(asked) + 1)}
    reasons = {}
    events = engine.step(commands)
    while engine.busy or events:
        for event in events:
            if isinstance(event, Audio):
                pcm[event.utterance].append(event.pcm)
            elif isinstance(event, Finished):
                reasons[event.utterance] = event.reason
        events = engine.step([])
    assert set(reasons.values()) == {"eos"}, reasons
    return [np.frombuffer(b"".join(p), "<i2").astype(np.float32) / 32_768 for p in pcm.values()]


def test_it_fits_on_disk() -> None:
    assert sum(f.stat().st_size for f in EMBEDDED.rglob("*") if f.is_file()) <= MOST


def test_it_asks_for_a_drawing_of_its_own(loaded: Loaded) -> None:
    assert loaded.config.generation.talker != Sampling()
    assert loaded.config.kind == "voice_design"
    assert set(loaded.config.languages) == {"english"}


@pytest.mark.parametrize("layout", ["full", "stream"])
def test_a_sentence_is_as_long_as_speech(loaded: Loaded, layout: str) -> None:
    text = "Please remind me to water the plants this evening."
    (pcm,) = speak(loaded, [("A woman.", text)], layout)
    assert 1.5 <= len(pcm) / RATE <= 6
    assert np.sqrt((pcm**2).mean()) > 0.01


def test_a_longer_text_takes_longer(loaded: Loaded) -> None:
    short, long = speak(loaded, [("A woman.", "Yes."), ("A woman.", " ".join(SENTENCES[:2]))])
    assert len(long) > 3 * len(short)


def test_men_speak_lower_than_children(loaded: Loaded) -> None:
    texts = SENTENCES[:4]
    children = [pitch(p) for p in speak(loaded, [("A little girl.", t) for t in texts])]
    men = [pitch(p) for p in speak(loaded, [("A man, normal voice.", t) for t in texts])]
    assert np.median(children) > 1.1 * np.median(men)


def test_slow_is_slower_than_fast(loaded: Loaded) -> None:
    texts = SENTENCES[:4]
    slow = speak(loaded, [("A woman, speaking slowly.", t) for t in texts])
    fast = speak(loaded, [("A woman, speaking fast.", t) for t in texts])
    assert sum(map(len, slow)) > 1.15 * sum(map(len, fast))


@pytest.mark.asr
@pytest.mark.slow
def test_a_listener_understands_most_of_it(loaded: Loaded) -> None:
    listener = Listener(threads=1)
    asked = [(DESCRIPTIONS[n % 8][0], text) for n, text in enumerate(SENTENCES)]
    wrong = total = 0
    for (_, text), pcm in zip(asked, speak(loaded, asked), strict=True):
        wrong += errors(words(text), words(listener.hear(pcm)))
        total += len(words(text))
    assert wrong / total <= 0.25
