"""What goes wrong with one utterance is that utterance's own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.messages import (
    Cancel,
    End,
    Failed,
    Finished,
    Flush,
    Played,
    Sampling,
    Speak,
    Started,
    Text,
    Voice,
)
from engine.plan import Decode, Prefill, check
from engine.prompt import Row
from engine.utterance import Utterance
from tests.engine.conversation import Conversation, means, tiny_config

WELL = Speak(2, "v", 7, text="I am well, thank you.", ended=True)


def failed(c: Conversation) -> Failed:
    """Utterance 1 fails alone: 2 is spoken to its end, and both slots are free."""
    (_, event), *more = c.of(Failed)
    assert not more
    assert not c.of(Finished)
    assert c.of(Finished, 2)[0][1].reason == "eos"
    assert sorted(c.scheduler._free) == [0, 1, 2, 3]
    assert c.scheduler.running == c.scheduler.waiting == 0
    return event


@pytest.mark.parametrize(
    "description",
    [
        "x" * 4096,
        "".join(chr(33 + i * 7 % 94) for i in range(4096)),
        "天地玄黃宇宙洪荒" * 170,
        "😀" * 1024,
    ],
)
def test_a_description_that_leaves_no_room_is_too_large(description: str) -> None:
    says = [(0.0, Speak(1, description, 7, text="Hi there.", ended=True)), (0.0, WELL)]
    event = failed(Conversation(says, shared=means(positions=1024)).run(4))
    assert event.code == "too_large"
    assert "768" in event.message


def test_a_long_description_is_spoken_in_shorter_segments() -> None:
    text = "Well, here we are at last, and now let us begin with the first of many things " * 6
    speak = Speak(1, "low and calm " * 150, 7, text=text, ended=True)
    c = Conversation([(0.0, speak)], shared=means(positions=1024)).run(60)
    assert c.of(Finished)[0][1].reason == "eos"
    assert "".join(c.segments()) == text.strip()


@pytest.mark.parametrize("text", ["Hi boom.", "Well, here we are and then boom, my friend."])
@pytest.mark.parametrize("layout", ["auto", "full", "stream"])
@pytest.mark.parametrize("seconds_a_word", [0.0, 0.1])
def test_text_that_cannot_be_tokenised_fails_its_utterance(
    text: str, layout: str, seconds_a_word: float
) -> None:
    plain = means()

    def encode(text: str) -> list[int]:
        if "boom" in text:
            raise RuntimeError(text)
        return plain.encode(text)

    says = [(0.0, Speak(1, "v", 7, layout=layout)), (0.0, WELL)]
    says += [(i * seconds_a_word, Text(1, w + " ")) for i, w in enumerate(text.split())]
    c = Conversation(
        sorted([*says, (2.0, End(1))], key=lambda s: s[0]),
        shared=means(encode=encode),
        mistakes=True,
    )
    event = failed(c.run(8))
    assert event.code == "internal"
    assert event.message.startswith("a mistake of ours: RuntimeError in test_alone.py:")
    assert "boom" not in event.message


@pytest.mark.parametrize("name", ["push", "flush", "end", "played", "rows", "commit", "events"])
def test_no_step_of_an_utterance_reaches_another(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    plain = getattr(Utterance, name)

    def broken(utterance: Utterance, *args: object) -> object:
        if utterance.id == 1 and utterance.segments + (name not in ("rows", "commit")) > 0:
            raise AssertionError
        return plain(utterance, *args)

    monkeypatch.setattr(Utterance, name, broken)
    says = [(0.0, Speak(1, "v", 7, text="Hi there. ")), (0.0, WELL)]
    late = [(0.5, Text(1, "x")), (0.5, Flush(1, 1)), (0.5, Played(1, 1)), (0.6, End(1))]
    event = failed(Conversation([*says, *late, (3.0, Cancel(1))], mistakes=True).run(6))
    assert event.code == "internal"


def test_an_utterance_that_fails_at_its_start_leaves_its_slot_to_the_next() -> None:
    says = [(0.0, Speak(1, "v", 7, language="turkish", text="Hi.")), (0.0, WELL)]
    c = Conversation(says, slots=1).run(4)
    assert [e.utterance for _, e in c.events if isinstance(e, Started)] == [2]
    assert c.of(Finished, 2)[0][1].reason == "eos"


def test_a_number_that_comes_twice_fails_only_itself() -> None:
    says = [(0.0, Speak(1, "v", 7, text="Hi there. ")), (0.0, WELL), (0.5, Speak(1, "v", 7))]
    assert failed(Conversation(says, mistakes=True).run(4)).code == "internal"


@pytest.mark.parametrize("field", ["talker", "predictor"])
@pytest.mark.parametrize(
    "wrong", [{"top_p": 1.5}, {"top_p": float("nan")}, {"temperature": 0.0}, {"top_k": -1}]
)
def test_sampling_out_of_range_fails_its_utterance(field: str, wrong: dict[str, float]) -> None:
    sampling = replace(Sampling(), **wrong)
    speak = replace(Speak(1, "v", 7, text="Hi.", ended=True), **{field: sampling})
    event = failed(Conversation([(0.0, speak), (0.0, WELL)]).run(4))
    assert event.code == "bad_message"
    assert event.message == f"{field}'s sampling is out of range: {next(iter(wrong))}"


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_a_seed_that_no_slot_holds_fails_its_utterance(seed: int) -> None:
    says = [(0.0, Speak(1, "v", seed, text="Hi.", ended=True)), (0.0, WELL)]
    assert failed(Conversation(says).run(4)).code == "bad_message"


CONFIG = tiny_config()
DECODE = Decode(1, 0, 0, position=63, text=2047, draw=5, barred=False)
PREFILL = Prefill(1, 0, 0, 60, (Row(2047), Row(5, 1087), Row(-1, 3), Row(5, frame=0)), (b"",))


def test_rows_that_fit_pass() -> None:
    check(DECODE, CONFIG, 64)
    check(PREFILL, CONFIG, 64)


@pytest.mark.parametrize(
    "row",
    [
        replace(DECODE, position=64),
        replace(DECODE, position=-1),
        replace(DECODE, text=2048),
        replace(PREFILL, start=61),
        replace(PREFILL, rows=(Row(2048),), carried=()),
        replace(PREFILL, rows=(Row(1, 1088),), carried=()),
        replace(PREFILL, rows=(Row(-2),), carried=()),
        replace(PREFILL, carried=()),
    ],
)
def test_rows_that_do_not_fit_never_reach_a_tensor(row: Decode | Prefill) -> None:
    with pytest.raises(ValueError, match=r"position|outside|without"):
        check(row, CONFIG, 64)


def test_a_voice_too_long_to_carry_is_not_carried() -> None:
    """Its frames alone would fill the KV row."""
    shared = means(positions=512)
    voice = Voice("Long. " * 60, bytes(8 * 500))
    c = Conversation([(0.0, replace(WELL, voice=voice))], shared=shared).run(4)
    assert c.of(Finished, 2)[0][1].reason == "eos"
    assert not any(x.carried for _, p in c.plans for x in p.prefills)
