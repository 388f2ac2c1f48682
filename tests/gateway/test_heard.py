"""What was heard of a text, and when each word sounds."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import messages as engine
from gateway.heard import Heard
from gateway.script import Script
from gateway.syllables import syllables, words
from gateway.timing import align

from .test_session import PCM, Table, opened

FRAME = 8  # steps
LOUD, QUIET = 80, 20
SYLLABLE = 20  # steps of one, in the speech made here


@pytest.mark.parametrize(
    ("word", "count"),
    [
        ("cat", 1), ("fire", 1), ("table", 2), ("wanted", 2), ("walked", 1), ("beautiful", 3),
        ("café", 2), ("Straße", 2), ("UNO", 3), ("the", 1), ("hmm", 1), ("...", 0), ("12", 3.2),
        ("こんにちは", 5), ("안녕", 2), ("привет", 2),
    ],
)  # fmt: skip
def test_syllables(word: str, count: float) -> None:
    assert syllables(word) == pytest.approx(count)


def test_words_hold_all_of_the_text_but_blanks() -> None:
    text = " — “Well, here we are.”  你好。 Yes!"
    found = words(text, 100)
    assert [text[w.start - 100 : w.end - 100] for w in found] == [
        *("— “Well,", "here", "we", "are.”", "你", "好。", "Yes!"),
    ]
    assert [w.pause > 0 for w in found] == [True, False, False, True, False, True, True]


def sound(text: str, pauses: dict[str, int], syllable: int = SYLLABLE, lead: int = 10) -> bytes:
    """Levels of `text`, each syllable equally long, with `pauses` steps behind the words named."""
    levels = [QUIET] * lead
    for word in words(text):
        levels += [LOUD] * int(word.weight * syllable)
        levels += [QUIET] * pauses.get(text[word.start : word.end].strip('"'), 0)
    return bytes(levels)


TEXT = "One two three, four five. Six seven eight nine ten."


def test_a_segment_that_is_over_is_laid_out_between_its_pauses() -> None:
    levels = sound(TEXT, {"three,": 30, "five.": 55})
    timed = align(words(TEXT), levels, ended=True, rate=0.2)
    one, two, three, four, _, six, *_ = timed.starts
    assert (one, two, three) == pytest.approx((10, 30, 50), abs=1)
    assert timed.ends[2] == pytest.approx(70, abs=1)
    assert four == pytest.approx(100, abs=1)
    assert timed.ends[4] == pytest.approx(140, abs=1)
    assert six == pytest.approx(195, abs=1)
    assert timed.ends[-1] == pytest.approx(len(levels), abs=1)
    assert timed.rate == pytest.approx(1 / SYLLABLE, rel=0.02)


@pytest.mark.parametrize("rate", [0.7, 1.0, 1.4])
def test_a_pause_corrects_a_rate_that_was_guessed_wrongly(rate: float) -> None:
    levels = sound(TEXT, {"three,": 30, "five.": 55})[:215]  # the segment still speaks: "Six"
    timed = align(words(TEXT), levels, ended=False, rate=rate / SYLLABLE)
    assert timed.starts[3] == pytest.approx(100, abs=3)
    assert timed.starts[5] == pytest.approx(195, abs=3)
    assert timed.ends[-1] > len(levels)


def test_a_breath_in_mid_phrase_is_taken_for_no_full_stop() -> None:
    levels = sound(TEXT, {"two": 12, "three,": 30, "five.": 55})
    timed = align(words(TEXT), levels, ended=True, rate=1 / SYLLABLE)
    assert timed.starts[3] == pytest.approx(112, abs=3)
    assert timed.starts[5] == pytest.approx(207, abs=3)


@given(
    st.lists(st.sampled_from(["a", "bb,", "Cecil.", "12", "你", "…", "—"])).map(" ".join),
    st.binary(max_size=300),
    st.booleans(),
    st.floats(0.01, 0.3),
)
def test_any_text_and_any_sound_give_times_in_order(
    text: str, levels: bytes, ended: bool, rate: float
) -> None:
    timed = align(words(text), levels, ended, rate)
    flat = [t for pair in zip(timed.starts, timed.ends, strict=True) for t in pair]
    assert flat == sorted(flat)
    assert all(t >= 0 for t in flat)
    assert not ended or all(t <= len(levels) + 1e-6 for t in flat)


# --- through the session


def spoken(table: Table, text: str, levels: bytes, spans: Sequence[tuple[int, int, int]]) -> list:
    """Events of an utterance: each segment (start, end, first frame), then its frames."""
    out = []
    for i, (start, end, first) in enumerate(spans):
        last = spans[i + 1][2] if i + 1 < len(spans) else len(levels) // FRAME
        out += table.event(engine.Segment(1, i, start, end, "full", first))
        out += table.event(engine.Progress(1, end, first))
        for n in range(first, last):
            part = levels[n * FRAME : (n + 1) * FRAME]
            out += table.event(engine.Audio(1, n, PCM, b"", part))
    return out


def padded(levels: bytes) -> bytes:
    return levels + bytes(-len(levels) % FRAME)


FIRST, SECOND = TEXT[:25], TEXT[25:]
LEVELS = padded(sound(FIRST, {"three,": 30})) + padded(sound(SECOND, {}))
SPANS = [(0, 25, 0), (25, len(TEXT), len(padded(sound(FIRST, {"three,": 30}))) // FRAME)]


def samples(steps: float) -> int:
    return int(steps * 240)


@pytest.mark.parametrize(
    ("played", "heard"),
    [
        (0, ""), (samples(29), ""), (samples(33), "One"), (samples(73), "One two three,"),
        (samples(99), "One two three,"), (samples(125), "One two three, four"),
        (samples(len(LEVELS)), TEXT), (10**9, TEXT),
    ],
)  # fmt: skip
def test_cancel_tells_what_was_heard(played: int, heard: str) -> None:
    table = Table()
    opened(table, text=TEXT, end=True)
    spoken(table, TEXT, LEVELS, SPANS)
    (done,) = table.say("cancel", utterance="u", played=played)
    assert done["heard"] == heard
    assert done["heard"] + done["remaining"] == TEXT
    assert done["estimated"] is True


def test_without_played_the_reports_tell_and_without_them_what_was_sent() -> None:
    for reports, heard in (([samples(33)], "One"), ([], TEXT)):
        table = Table()
        opened(table, text=TEXT, end=True)
        spoken(table, TEXT, LEVELS, SPANS)
        for report in reports:
            table.say("played", utterance="u", samples=report)
        (done,) = table.say("cancel")
        assert done["heard"] == heard


def test_before_the_first_audio_nothing_was_heard() -> None:
    table = Table()
    table.heard()
    table.speak(text=TEXT)
    (done,) = table.say("cancel", utterance="u")
    assert (done["heard"], done["remaining"]) == ("", TEXT)


def test_audio_that_was_not_sent_was_not_heard() -> None:
    table = Table()
    opened(table, text=TEXT, end=True)
    table.session.receive_event(engine.Segment(1, 0, 0, len(TEXT), "full", 0), table.now)
    for n in range(len(LEVELS) // FRAME):
        part = LEVELS[n * FRAME : (n + 1) * FRAME]
        table.session.receive_event(engine.Audio(1, n, PCM, b"", part), table.now)
    table.session.receive_message(
        b"\x83\xa4type\xa6cancel\xa9utterance\xa1u\xa6played\xce\x7f\xff\xff\xff", table.now
    )
    (done,) = table.heard()
    assert (done["samples"], done["heard"]) == (0, "")


def test_a_natural_end_tells_nothing_of_it() -> None:
    table = Table()
    opened(table, text=TEXT, end=True)
    spoken(table, TEXT, LEVELS, SPANS)
    (done,) = table.event(engine.Finished(1, "eos", len(LEVELS) // FRAME, 2, 0.0, 0.0))
    assert "heard" not in done


def test_a_failure_tells_what_was_sent() -> None:
    table = Table()
    opened(table, text=TEXT, end=True)
    spoken(table, TEXT, LEVELS, SPANS)
    _, done = table.event(engine.Failed(1, "engine_failed", "gone"))
    assert done["heard"] + done["remaining"] == TEXT
    assert done["heard"].startswith(FIRST)


def test_heard_and_remaining_are_of_the_clients_own_text() -> None:
    script = Script(clean=True)
    raw = "**One** two `three`, four five. "
    pushed = script.hear(raw) + script.rest()
    heard = Heard(lambda: pushed)
    assert heard.upto(1000) == 0
    end = pushed.index("three") + len("three,")
    before, behind = script.split(end)
    assert before + behind == raw
    assert before.endswith("`three`,")
    assert script.split(len(pushed)) == (raw, "")
    assert script.split(0) == ("", raw)


def test_words_are_told_once_in_order_and_not_before_their_sound() -> None:
    table = Table()
    opened(table, text=TEXT, end=True, words=True)
    out = spoken(table, TEXT, LEVELS, SPANS)
    out += table.event(engine.Finished(1, "eos", len(LEVELS) // FRAME, 2, 0.0, 0.0))
    sent, told = 0, []
    for message in out:
        if message["type"] == "audio":
            sent = message["start"] + message["samples"]
        elif message["type"] == "words":
            assert message["estimated"] is True
            assert all(end <= sent for _, _, end, _ in message["words"])
            told += message["words"]
    assert out[-1]["type"] == "done"
    assert [w[0] for w in told] == TEXT.split()
    assert [TEXT[char:].split()[0] for *_, char in told] == TEXT.split()
    times = [t for _, start, end, _ in told for t in (start, end)]
    assert times == sorted(times)
    assert told[3][1] == pytest.approx(samples(100), abs=samples(2))


def test_words_of_a_cancelled_utterance_end_with_what_was_sent() -> None:
    table = Table()
    opened(table, text=TEXT, end=True, words=True)
    out = spoken(table, TEXT, LEVELS[:80], [(0, 25, 0)])
    out += table.say("cancel", utterance="u", played=0)
    told = [w for m in out if m["type"] == "words" for w in m["words"]]
    assert [w[0] for w in told] == ["One", "two", "three,"]
    assert all(start < samples(80) and end <= samples(80) for _, start, end, _ in told)
    assert out[-1]["type"] == "done"
