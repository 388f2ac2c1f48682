"""The whole engine on a tiny random checkpoint: real modules, real tokenizer, no socket."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine import checkpoint
from engine.config import EngineConfig
from engine.engine import Engine
from engine.messages import (
    PREDICTOR_RANGES,
    TALKER_RANGES,
    Audio,
    Cancel,
    Command,
    End,
    Event,
    Failed,
    Finished,
    Sampling,
    Segment,
    Speak,
    Started,
    Text,
)
from engine.models import packed
from tests.engine.tiny import config_json, write_checkpoint

CODEBOOKS = config_json()["talker_config"]["num_code_groups"]
TEXT = "Hello there, my friend. How are you today? I am well, thank you for asking."


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> checkpoint.Loaded:
    folder: Path = tmp_path_factory.mktemp("tiny")
    write_checkpoint(folder, seed=1)
    return checkpoint.load(str(folder), "cpu", lambda line: None)


@pytest.fixture(scope="module", params=["full", "auto"])
def by_weights(
    request: pytest.FixtureRequest, loaded: checkpoint.Loaded
) -> Iterator[checkpoint.Loaded]:
    """With full weights, and with those that the gateway takes on this machine."""
    loaded.talker.fold(int8=request.param == "auto" and packed.supported())
    yield loaded
    loaded.talker.fold()


@pytest.fixture
def engine(loaded: checkpoint.Loaded) -> Engine:
    return make(loaded)


def make(loaded: checkpoint.Loaded, **changes: object) -> Engine:
    values: dict[str, object] = {"device": "cpu", "slots": 4, "chunk": 16, "max_lead": 1e9}
    ticks: Iterator[float] = iter(i * 0.02 for i in range(10**9))
    return Engine(loaded, EngineConfig(**(values | changes)), lambda: next(ticks))  # type: ignore[arg-type]


def run(engine: Engine, says: dict[int, list[Command]], steps: int = 4000) -> list[Event]:
    """Step until nothing is left; `says`: commands by step."""
    events: list[Event] = []
    for n in range(steps):
        events += engine.step(says.get(n, []))
        if n >= max(says) and not engine.busy:
            return events
    raise AssertionError(f"still busy after {steps} steps")


def speak(utterance: int, seed: int = 7, **changes: object) -> Speak:
    values: dict[str, object] = {"text": TEXT, "ended": True, "max_frames": 60, "live": False}
    return Speak(utterance, "a calm man", seed, **(values | changes))  # type: ignore[arg-type]


def codes(events: list[Event], utterance: int) -> list[bytes]:
    return [e.codes for e in events if isinstance(e, Audio) and e.utterance == utterance]


def pcm(events: list[Event], utterance: int) -> bytes:
    return b"".join(e.pcm for e in events if isinstance(e, Audio) and e.utterance == utterance)


def test_frames_are_whole_and_in_order(engine: Engine) -> None:
    events = run(engine, {0: [speak(1)]})
    audio = [e for e in events if isinstance(e, Audio)]
    assert [e.frame for e in audio] == list(range(len(audio)))
    assert {len(e.pcm) for e in audio} == {1920 * 2}
    assert {len(e.codes) for e in audio} == {2 * CODEBOOKS}
    assert any(isinstance(e, Started) and e.seed == 7 for e in events)
    (end,) = [e for e in events if isinstance(e, Finished)]
    assert end.frames == len(audio)


def test_one_seed_is_one_audio_and_another_seed_another(loaded: checkpoint.Loaded) -> None:
    first = run(make(loaded), {0: [speak(1)]})
    again = run(make(loaded), {0: [speak(1)]})
    other = run(make(loaded), {0: [speak(1, seed=8)]})
    assert pcm(first, 1) == pcm(again, 1)
    assert codes(first, 1) != codes(other, 1)


@pytest.mark.parametrize("layout", ["full", "stream"])
def test_company_never_changes_an_utterance(by_weights: checkpoint.Loaded, layout: str) -> None:
    """F6: alone, and with others that join and leave at odd steps: the same codes and samples."""
    loaded = by_weights
    alone = run(make(loaded), {0: [speak(1, layout=layout)]})
    says: dict[int, list[Command]] = {
        0: [speak(2, 5, max_frames=9), speak(1, layout=layout)],
        5: [speak(3, 6, text="Another voice, another text. And more.", max_frames=30)],
        13: [speak(4, 9, max_frames=40)],
        21: [Cancel(3)],
        27: [speak(5, 1, max_frames=11)],
    }
    crowd = run(make(loaded), says)
    assert codes(crowd, 1) == codes(alone, 1)
    assert pcm(crowd, 1) == pcm(alone, 1)
    assert len(codes(alone, 1)) > 30


def test_segments_joined_beside_others_are_the_same_too(by_weights: checkpoint.Loaded) -> None:
    """Carried context, staged prefill and joins do not depend on company either."""
    loaded = by_weights
    long = speak(1, text=TEXT * 6, max_frames=900)
    alone = run(make(loaded), {0: [long]})
    crowd = run(
        make(loaded), {0: [long], 40: [speak(2, 3, text=TEXT * 4, max_frames=500)], 90: [Cancel(2)]}
    )
    assert sum(isinstance(e, Segment) for e in alone) >= 2
    assert codes(crowd, 1) == codes(alone, 1)


def test_slot_reuse_leaves_nothing_behind(loaded: checkpoint.Loaded) -> None:
    engine = make(loaded, slots=1)
    first = run(engine, {0: [speak(1)]})
    run(engine, {0: [speak(2, 99, text="Something else entirely, and loud!")]})
    again = run(engine, {0: [speak(3)]})
    assert pcm(again, 3) == pcm(first, 1)


def test_greedy_ignores_the_seed(loaded: checkpoint.Loaded) -> None:
    greedy = Sampling(greedy=True)
    a = run(make(loaded), {0: [speak(1, 1, talker=greedy, predictor=greedy)]})
    b = run(make(loaded), {0: [speak(1, 2, talker=greedy, predictor=greedy)]})
    assert codes(a, 1) == codes(b, 1)


@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("name", TALKER_RANGES)
def test_every_end_of_every_range_is_speech(engine: Engine, name: str, end: int) -> None:
    talker = replace(Sampling(), **{name: TALKER_RANGES[name][end]})
    predictor = replace(Sampling(), **{name: PREDICTOR_RANGES.get(name, (1, 1))[end]})
    says: list[Command] = [speak(1, talker=talker, max_frames=4)]
    says += [speak(2, predictor=predictor, max_frames=4), speak(3, max_frames=4)]
    events = run(engine, {0: says})
    assert [len(codes(events, n)) for n in (1, 2, 3)] == [4, 4, 4]


def test_top_p_0_is_the_likeliest_code(loaded: checkpoint.Loaded) -> None:
    least, greedy = Sampling(top_p=0), Sampling(greedy=True)
    a = run(make(loaded), {0: [speak(1, 1, talker=least, predictor=least)]})
    b = run(make(loaded), {0: [speak(1, 2, talker=greedy, predictor=greedy)]})
    assert codes(a, 1) == codes(b, 1)


def test_a_cancelled_utterance_sends_nothing_more(engine: Engine) -> None:
    events = run(engine, {0: [speak(1)], 10: [Cancel(1)]})
    end = next(i for i, e in enumerate(events) if isinstance(e, Finished))
    assert not any(isinstance(e, Audio) for e in events[end:])
    assert len(codes(events, 1)) < 12


def test_text_arriving_in_pieces_is_spoken_while_it_comes(engine: Engine) -> None:
    words = [w + " " for w in TEXT.split()]
    says: dict[int, list[Command]] = {0: [speak(1, text="", ended=False, max_frames=0)]}
    for i, word in enumerate(words):
        says[3 * i + 1] = [Text(1, word)]
    says[3 * len(words) + 1] = [End(1)]
    events: list[Event] = []
    first_audio = None
    for n in range(3 * len(words) + 2):
        events += engine.step(says.get(n, []))
        if first_audio is None and codes(events, 1):
            first_audio = n
    assert first_audio is not None
    assert first_audio < 12


def test_an_unknown_speaker_or_language_fails_alone(engine: Engine) -> None:
    events = run(engine, {0: [speak(1, language="klingon"), speak(2)]})
    (failed,) = [e for e in events if isinstance(e, Failed)]
    assert (failed.utterance, failed.code) == (1, "unsupported")
    assert len(codes(events, 2)) > 30


@pytest.mark.parametrize(
    "text",
    ["Hi " + "😀" * 4000 + " world.", "Hi " + "—" * 10000 + " world.", "x" * 32768, "天" * 2000],
)
def test_no_text_outgrows_a_kv_row(engine: Engine, text: str) -> None:
    says: list[Command] = [speak(1, text=text, max_frames=240), speak(2)]
    events = run(engine, {0: says})
    assert not [e for e in events if isinstance(e, Failed)]
    assert {e.utterance for e in events if isinstance(e, Finished)} == {1, 2}
    assert len(codes(events, 1)) > 50


@pytest.mark.parametrize("description", ["x" * 4096, "天" * 1365, "😀" * 1024])
def test_a_description_outgrows_a_kv_row_alone(engine: Engine, description: str) -> None:
    says: list[Command] = [Speak(1, description, 7, text=TEXT, ended=True), speak(2)]
    events = run(engine, {0: says})
    (failed,) = [e for e in events if isinstance(e, Failed)]
    assert (failed.utterance, failed.code) == (1, "too_large")
    assert len(codes(events, 2)) > 30


def test_many_utterances_on_many_slots(loaded: checkpoint.Loaded) -> None:
    says: dict[int, list[Command]] = {n: [speak(n + 1, n, max_frames=5 + n % 7)] for n in range(24)}
    events = run(make(loaded, slots=3, queue=24), says)
    ends = [e for e in events if isinstance(e, Finished)]
    assert sorted(e.utterance for e in ends) == list(range(1, 25))
    assert all(2 <= e.frames <= 5 + (e.utterance - 1) % 7 for e in ends)


def test_warm_up_says_what_the_engine_is(engine: Engine) -> None:
    ready = engine.warm_up()
    assert (ready.rate, ready.frame_samples, ready.slots) == (24000, 1920, 4)
    assert "english" in ready.languages
    assert not engine.busy
