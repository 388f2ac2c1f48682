"""Whatever text arrives: a step looks at about one segment of it, prompts fit, words are spoken."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine import text as engine_text
from engine.messages import (
    Audio,
    Cancel,
    Command,
    End,
    Finished,
    Flush,
    Flushed,
    Progress,
    Segment,
    Speak,
    Text,
)
from engine.segments import SegmentPolicy, cut_long, group_end
from engine.text import LONGEST, RUN, TextStream
from tests.engine.conversation import Conversation, means, spoken

POSITIONS = 1024  # as the engine's
LOOKS = 6 * POSITIONS  # characters that a step may look at, each as often as it does
PROSE = "Well, here we are at last, and now let us begin. "
FLOODS = {
    "one word": "x" * 32768,
    "spaces": "a" + " " * 30000 + "b",
    "emoji": "Hi " + "😀" * 4000 + " world.",
    "families": "Hi " + "👩\u200d👩\u200d👧" * 1500 + " world.",
    "dashes": "Hi " + "—" * 10000 + " world.",
    "spaced dashes": "Hi " + "— " * 5000 + " world.",
    "dots": "Hi " + "." * 20000 + " world.",
    "no punctuation": "天" * 2000,
    "marks": "a" + "\u0301\u0323" * 10000 + " b",
    "words of marks": "q\u0323" * 8000,
    "newlines": "a\n" * 8000,
    "prose": PROSE * 650,
    "digits": "7" * 20000,
    "hangul": "\u1112\u1161\u11ab" * 3000,
}


class Watch:
    """Counts characters that are looked at, by step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.looked, self.most = 0, 0
        seconds, hear, plain = engine_text._seconds, TextStream._hear, means()
        monkeypatch.setattr(engine_text, "_seconds", self._counting(seconds))
        monkeypatch.setattr(TextStream, "_hear", self._counting(hear))
        self.shared = means(
            positions=POSITIONS,
            chunk=64,
            encode=self._counting(plain.encode),
            pretokens=self._counting(plain.pretokens),
            split=lambda language: self._counting(plain.split(language)),
        )

    def _counting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any) -> Any:
            self.looked += len(args[-1])
            return function(*args)

        return counted

    def run(self, says: list[tuple[float, Command]], seconds: float) -> Conversation:
        c = Conversation(says, shared=self.shared)
        for name in ("handle", "plan", "commit"):
            setattr(c.scheduler, name, self._timed(getattr(c.scheduler, name)))
        return c.run(seconds)

    def _timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any) -> Any:
            self.looked = 0
            result = function(*args)
            self.most = max(self.most, self.looked)
            return result

        return timed


def said(c: Conversation) -> str:
    """Letters and digits of the utterance's segments, by the client's own count."""
    text, ends = c.texts[1], {e.index: (e.start, e.end) for _, e in c.of(Segment)}
    stable = unicodedata.normalize("NFC", text).strip()
    return "".join(ch for a, b in ends.values() for ch in stable[a:b] if ch.isalnum())


@pytest.mark.parametrize("layout", ["auto", "full", "stream"])
@pytest.mark.parametrize("flood", FLOODS)
def test_a_step_looks_at_about_one_segment(
    monkeypatch: pytest.MonkeyPatch, flood: str, layout: str
) -> None:
    watch = Watch(monkeypatch)
    speak = Speak(1, "a voice", 7, text=FLOODS[flood], ended=True, layout=layout, max_frames=400)
    c = watch.run([(0.0, speak), (0.2, Speak(2, "v", 7, text="Hi there.", ended=True))], 12)
    assert watch.most < LOOKS
    assert [e.reason for _, e in c.of(Finished, 2)] == ["eos"]
    assert c.of(Finished)[0][1].reason in ("eos", "length")


@pytest.mark.parametrize("delta", [1, 50])
def test_looks_do_not_grow_with_what_has_come(monkeypatch: pytest.MonkeyPatch, delta: int) -> None:
    """One word in single letters, and prose for minutes."""
    watch = Watch(monkeypatch)
    text = "x" * 4000 if delta == 1 else PROSE * 100
    says: list[tuple[float, Command]] = [(0.0, Speak(1, "a voice", 7, max_frames=600))]
    says += [(i / 10000, Text(1, text[i : i + delta])) for i in range(0, len(text), delta)]
    watch.run([*says, (5.0, End(1))], 20)
    assert watch.most < LOOKS


@pytest.mark.parametrize(
    "flood", ["emoji", "families", "dashes", "spaced dashes", "dots", "no punctuation", "newlines"]
)
@pytest.mark.parametrize("layout", ["auto", "full"])
def test_every_word_of_a_flood_is_spoken(flood: str, layout: str) -> None:
    text = FLOODS[flood][:1000] + FLOODS[flood][-400:]
    speak = Speak(1, "a voice", 7, text=text, ended=True, layout=layout)
    c = Conversation([(0.0, speak)], shared=means(positions=POSITIONS), step=0.08).run(400)
    assert c.of(Finished)[0][1].reason == "eos"
    assert said(c) == "".join(ch for ch in text if ch.isalnum())
    for event in (e for _, e in c.of(Segment)):
        assert any(ch.isalnum() for ch in text[event.start : event.end])


def test_words_on_both_sides_of_a_desert_are_spoken_soon() -> None:
    for flood in ("spaces", "emoji", "dashes", "marks"):
        c = Conversation([(0.0, Speak(1, "v", 7, text=FLOODS[flood], ended=True))]).run(20)
        assert c.of(Progress)[-1][1].chars == len(FLOODS[flood])
        assert c.of(Finished)[0][1].reason == "eos"
        assert c.of(Finished)[0][0] < 6


def test_a_cancel_behind_a_flood_is_heard_at_once() -> None:
    speak = Speak(1, "v", 7, text=FLOODS["one word"], ended=True)
    c = Conversation([(0.0, speak), (0.1, Cancel(1))]).run(1)
    assert c.of(Finished)[0][0] < 0.15


WRITING = st.sampled_from(
    ["word ", "a", "天", "。", ". ", ", ", " ", "😀", "—", "\u0323", "9", "\n"]
)


@settings(max_examples=60, deadline=None)
@given(
    runs=st.lists(st.tuples(WRITING, st.integers(1, 900)), min_size=1, max_size=6),
    layout=st.sampled_from(["auto", "full", "stream"]),
    described=st.integers(0, 150),
)
@example(runs=[("天", 125)], layout="stream", described=124)  # one pre-token longer than a KV row
def test_whatever_is_written_prompts_and_frames_fit(
    runs: list[tuple[str, int]], layout: str, described: int
) -> None:
    """The scheduler checks every row; none may be wrong, and no frame may be missing at the end."""
    text = "".join(piece * count for piece, count in runs)
    speak = Speak(1, "low " * described, 7, text=text, ended=True, layout=layout, max_frames=900)
    c = Conversation([(0.0, speak)], shared=means(positions=512, chunk=64)).run(60)
    assert c.of(Finished)[0][1].reason in ("eos", "empty", "length")
    if c.of(Finished)[0][1].reason == "length":
        assert len(c.of(Audio)) == 900


def test_a_segment_is_cut_by_its_ids_too() -> None:
    policy = SegmentPolicy(rows=300)
    text = "Hi " + "😀" * 400 + " world."
    end, full = group_end(text, lambda t: [t], True, policy) or (0, False)
    assert (text[:end], full) == ("Hi", True)
    assert len("😀" * cut_long("😀" * 400, policy)) == (300 - 2 - 50) // 4


def test_more_flushes_than_text() -> None:
    says: list[tuple[float, Command]] = [(0.0, Speak(1, "v", 7, text="Hi there. "))]
    says += [(0.1, Flush(1, n)) for n in range(1, 5001)]
    c = Conversation([*says, (0.2, End(1))]).run(5)
    assert [e.flush for _, e in c.of(Flushed)] == list(range(1, 5001))


# Runs that no writing has


def test_blanks_and_marks_beyond_the_run_do_not_count() -> None:
    stream = TextStream(means().pretokens)
    stream.push("a" + " " * 30000 + "b" + "\u0323" * 30000 + " c ")
    stream.finish()
    assert stream.stable == "a" + " " * RUN + "ḅ" + "\u0323" * (RUN - 1) + " c"


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("text", ["x" * 1000, "ab\n" + "天" * 700, "q\u0323" * 500, "?!" * 400])
def test_what_has_no_boundary_is_held_no_longer_than_a_word_may_be(text: str, size: int) -> None:
    stream = TextStream(means().pretokens)
    for i in range(0, len(text), size):
        stream.push(text[i : i + size])
        assert len(stream.pending) <= LONGEST + RUN
    stream.finish()
    assert stream.stable == unicodedata.normalize("NFC", text)


# The client's characters


@pytest.mark.parametrize("layout", ["auto", "full", "stream"])
@pytest.mark.parametrize(
    "text",
    [
        "   \n  Hello there, my good friend.",
        "Cafe\u0301 ole\u0301, mon ami.",
        "One." + " " * 200 + "Two and three.",
        "\u1112\u1161\u11ab\u1100\u1173\u11af 한국어 text.",
    ],
)
@pytest.mark.parametrize("seconds_a_word", [0.0, 0.05])
def test_progress_counts_the_clients_characters(
    text: str, layout: str, seconds_a_word: float
) -> None:
    c = Conversation(spoken(text, seconds_a_word, layout=layout)).run(20)
    chars = [e.chars for _, e in c.of(Progress)]
    assert chars == sorted(set(chars))
    assert chars[-1] == len(text)


def test_what_cannot_be_said_counts_as_fed() -> None:
    says = [(0.0, Speak(1, "v", 7)), (0.0, Text(1, " " * 500)), (0.1, Text(1, "." * 500))]
    c = Conversation([*says, (3.0, Text(1, "Hi you.")), (3.0, End(1))]).run(6)
    assert [e.chars for t, e in c.of(Progress) if t < 1][-1] == 1000
    assert c.of(Progress)[-1][1].chars == 1007


# Layout full


def full(deltas: list[str], apart: float) -> Conversation:
    says: list[tuple[float, Command]] = [(0.0, Speak(1, "v", 7, layout="full"))]
    says += [(i * apart, Text(1, d)) for i, d in enumerate(deltas)]
    return Conversation([*says, (max(1.0, says[-1][0]), End(1))]).run(60)


def test_layout_full_has_all_text_before_the_first_frame() -> None:
    c = full(["Hello there. ", "How are you?"], 0.5)
    assert c.of(Audio)[0][0] >= 1.0
    assert c.of(Finished)[0][1].reason == "eos"


def test_layout_full_speaks_what_is_flushed() -> None:
    says = [(0.0, Speak(1, "v", 7, layout="full", text="Hi there. ")), (0.5, Flush(1, 1))]
    c = Conversation([*says, (0.6, Text(1, "More. ")), (4.0, End(1))]).run(8)
    assert 0.5 <= c.of(Audio)[0][0] < 0.6
    assert [e.start for _, e in c.of(Segment)] == [0, 9]
    assert c.of(Segment)[1][0] >= 4.0


@pytest.mark.parametrize("size", [1, 5, 50])
@pytest.mark.parametrize("apart", [0.0, 0.05])
def test_layout_full_does_not_depend_on_the_split(size: int, apart: float) -> None:
    text = PROSE * 12
    deltas = [text[i : i + size] for i in range(0, len(text), size)]
    whole, split = full([text], 0.0), full(deltas, apart)
    assert [e for _, e in split.of(Segment)] == [e for _, e in whole.of(Segment)]
    assert rows(split) == rows(whole)


def rows(c: Conversation) -> list[Any]:
    return [p.rows for _, plan in c.plans for p in plan.prefills if p.emit]
