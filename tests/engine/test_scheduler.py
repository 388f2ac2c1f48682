from __future__ import annotations

import pytest

from engine.guards import FRAMES_PER_SECOND
from engine.messages import (
    Audio,
    Cancel,
    End,
    Failed,
    Finished,
    Flush,
    Flushed,
    Hold,
    Played,
    Release,
    Segment,
    Speak,
    Started,
    Text,
    Voice,
)
from engine.text import speech_seconds
from tests.engine.conversation import FRAME, Conversation, means, spoken, typed

SENTENCES = "Well, here we are at last. Now let us begin with the first of many things. "
MINUTE = (SENTENCES * 12).strip()  # about a minute of speech


def finished(c: Conversation, utterance: int = 1) -> Finished:
    (_, event), *more = c.of(Finished, utterance)
    assert not more
    assert isinstance(event, Finished)
    return event


def test_whole_text_is_one_full_segment() -> None:
    speak = Speak(1, "a voice", 7, text="Hello there, my friend.", ended=True)
    c = Conversation([(0.0, speak)]).run(5)
    assert [(e.layout, e.start, e.end) for _, e in c.of(Segment)] == [("full", 0, 23)]
    assert finished(c).reason == "eos"
    assert (
        finished(c).frames
        == len(c.of(Audio))
        == round(speech_seconds("Hello there, my friend.") * 12.5)
    )


def test_incremental_text_speaks_from_the_second_word_and_closes_at_the_sentence_end() -> None:
    c = Conversation(spoken("Well, here we are. Now the next one comes.", 0.05)).run(10)
    first_audio = c.of(Audio)[0][0]
    assert first_audio < 0.2  # two words and the start of the third
    told = [(e.layout, e.last < 0, e.frame < 0) for _, e in c.of(Segment)]
    assert told == [
        ("stream", True, False),  # opened
        ("stream", False, False),  # closed
        ("full", False, True),  # staged
        ("full", False, False),
    ]
    assert c.segments() == ["Well, here we are.", " Now the next one comes."]
    assert c.gaps() == []
    assert finished(c).reason == "eos"


def test_a_minute_of_text_at_once_is_grouped_and_joins_without_a_gap() -> None:
    c = Conversation([(0.0, Speak(1, "a voice", 7, text=MINUTE, ended=True))]).run(60)
    segments = c.segments()
    assert "".join(segments) == MINUTE
    assert all(speech_seconds(s) <= 12 for s in segments)
    assert len(segments) >= 5
    assert c.gaps() == []
    assert finished(c).segments == len(segments)


@pytest.mark.parametrize("seconds_a_word", [0.0, 0.03, 0.2])
def test_a_minute_of_typed_text_is_spoken_whole(seconds_a_word: float) -> None:
    c = Conversation(spoken(MINUTE, seconds_a_word)).run(90)
    assert "".join(c.segments()) == MINUTE
    assert c.gaps() == []
    assert finished(c).reason == "eos"


def test_later_segments_are_prefilled_beside_the_running_frames() -> None:
    """A join runs at most one chunk of rows; all earlier chunks ran in steps that also decoded."""
    c = Conversation([(0.0, Speak(1, "a voice", 7, text=MINUTE, ended=True))]).run(60)
    joins = [p for _, p in c.plans if any(x.emit for x in p.prefills)][1:]
    assert len(joins) >= 4
    for plan in joins:
        assert sum(len(x.rows) for x in plan.prefills) <= 2 * c.shared.chunk
    beside = [p for _, p in c.plans if p.prefills and not any(x.emit for x in p.prefills)]
    assert beside
    assert all(p.decodes for p in beside)


def test_carried_context_is_the_last_whole_segment_and_its_frames() -> None:
    c = Conversation([(0.0, Speak(1, "a voice", 7, text=MINUTE, ended=True))]).run(60)
    first, second = c.segments()[:2]
    frames = round(speech_seconds(first) * FRAMES_PER_SECOND)
    rows = [x for _, p in c.plans for x in p.prefills if x.kv_row % 2 == 1][:20]
    second_prompt = [x for x in rows if x.start >= 0]
    upto = next(i for i, x in enumerate(second_prompt) if x.emit) + 1
    carried = [code for x in second_prompt[:upto] for code in x.carried]
    spoken_codes = [e.codes for _, e in c.of(Audio)][:frames]
    assert carried == spoken_codes
    assert second.startswith(" ")


def test_carry_none_opens_each_segment_without_frames() -> None:
    speak = Speak(1, "a voice", 7, text=MINUTE, ended=True, carry="none")
    c = Conversation([(0.0, speak)]).run(60)
    assert not any(x.carried for _, p in c.plans for x in p.prefills)
    assert "".join(c.segments()) == MINUTE


def test_a_stall_speaks_what_is_known_and_goes_on_when_text_comes() -> None:
    says = [
        (0.0, Speak(1, "a voice", 7)),
        *typed("I will look that up for", 0.03),
        (3.0, Text(1, " you.")),
        (3.1, End(1)),
    ]
    c = Conversation(says).run(10)
    assert c.segments() == ["I will look that up for", " you."]
    before = [t for t, _ in c.of(Audio) if t < 3.0]
    assert len(before) == round(speech_seconds("I will look that up for") * 12.5)
    assert max(before) < 1.5  # nothing waited for the late word
    assert c.of(Audio)[len(before)][0] < 3.2
    assert len(c.gaps()) == 1  # silence, no filler
    assert finished(c).text_wait > 1


def test_flush_in_mid_text_speaks_all_known_text_and_the_utterance_stays_open() -> None:
    says = [
        (0.0, Speak(1, "a voice", 7)),
        (0.0, Text(1, "One moment")),
        (0.0, Flush(1, 1)),
        (2.0, Text(1, " please. Thank you")),
        (2.0, Flush(1, 2)),
        (2.5, End(1)),
    ]
    c = Conversation(says).run(8)
    assert c.segments() == ["One moment", " please. Thank you"]
    (t1, f1), (_, f2) = c.of(Flushed)
    assert (f1.flush, f1.frame) == (1, round(speech_seconds("One moment") * 12.5))
    assert t1 < 2.0
    assert (f2.flush, f2.frame) == (2, finished(c).frames)


def test_flush_with_everything_spoken_is_answered_at_once() -> None:
    says = [
        (0.0, Speak(1, "v", 7, text="Hi there.")),
        (0.0, Flush(1, 1)),
        (3.0, Flush(1, 2)),
        (3.5, End(1)),
    ]
    c = Conversation(says).run(5)
    assert [(round(t, 1), e.flush) for t, e in c.of(Flushed)][1] == (3.0, 2)
    assert finished(c).reason == "eos"


@pytest.mark.parametrize("text", ["", "  \n ", "🎉🎉", "... --- !"])
def test_nothing_speakable_ends_empty(text: str) -> None:
    c = Conversation([(0.0, Speak(1, "a voice", 7, text=text)), (0.1, End(1))]).run(1)
    assert finished(c).reason == "empty"
    assert finished(c).frames == 0
    assert not c.of(Segment)


def test_end_when_all_is_spoken_finishes_at_once() -> None:
    c = Conversation([(0.0, Speak(1, "v", 7)), (0.0, Text(1, "Hello there. ")), (5.0, End(1))]).run(
        6
    )
    assert c.of(Finished)[0][0] == pytest.approx(5.0, abs=0.02)


def test_a_single_word_without_an_end_is_spoken_after_a_moment() -> None:
    c = Conversation([(0.0, Speak(1, "v", 7)), (0.0, Text(1, "Hello")), (3.0, End(1))]).run(4)
    assert c.segments() == ["Hello"]
    assert c.of(Audio)[0][0] < 0.5


def test_one_sentence_of_forty_seconds_is_cut_near_twelve() -> None:
    text = "and so we walked over hill and dale " * 16 + "until the end."
    c = Conversation(spoken(text, 0.03)).run(90)
    assert "".join(c.segments()) == text
    assert all(speech_seconds(s) < 14 for s in c.segments())
    assert c.gaps() == []


def test_layout_can_be_forced() -> None:
    text = "Hello there, my friend. And another sentence."
    c = Conversation([(0.0, Speak(1, "v", 7, text=text, ended=True, layout="stream"))]).run(10)
    assert {e.layout for _, e in c.of(Segment)} == {"stream"}
    assert "".join(c.segments()) == text
    c = Conversation(spoken(text, 0.1, layout="full")).run(10)
    assert {e.layout for _, e in c.of(Segment)} == {"full"}
    assert "".join(c.segments()) == text


def test_cancel_frees_the_slot_within_one_step_and_no_audio_follows() -> None:
    speak = Speak(1, "a voice", 7, text=MINUTE, ended=True)
    c = Conversation([(0.0, speak), (1.0, Cancel(1))]).run(3)
    end = c.of(Finished)[0][0]
    assert finished(c).reason == "cancelled"
    assert end < 1.0 + 0.03
    assert all(t <= end for t, _ in c.of(Audio))
    assert c.scheduler.running == 0


def test_cancel_before_the_first_step_and_after_the_end() -> None:
    c = Conversation(
        [(0.0, Speak(1, "v", 7)), (0.0, Cancel(1)), (0.0, Cancel(1)), (0.1, Text(1, "x"))]
    ).run(1)
    assert finished(c).reason == "cancelled"
    assert finished(c).frames == 0


def test_the_queue_admits_in_order_keeps_commands_and_refuses_when_full() -> None:
    says = [(0.0, Speak(n, "v", 7)) for n in (1, 2, 3, 4)] + [
        (0.0, Text(2, "Hi there. ")),
        (0.0, End(2)),
        (1.0, End(1)),
    ]
    c = Conversation(says, slots=1, queue=2).run(5)
    assert [e.code for _, e in c.of(Failed, 4)] == ["busy"]
    started = [(e.utterance, t) for t, e in c.events if isinstance(e, Started)]
    assert [u for u, _ in started] == [1, 2, 3]
    assert finished(c, 2).reason == "eos"
    assert c.of(Started, 2)[0][1].queue == pytest.approx(1.0, abs=0.02)


def test_an_unknown_language_fails_with_the_names_there_are() -> None:
    c = Conversation([(0.0, Speak(1, "v", 7, language="turkish"))]).run(0.1)
    ((_, failed),) = c.of(Failed)
    assert failed.code == "unsupported"
    assert "english" in failed.message
    assert c.scheduler.running == 0


def test_held_utterances_are_absent_until_released() -> None:
    speak = Speak(1, "a voice", 7, text=MINUTE, ended=True)
    c = Conversation([(0.0, speak), (0.5, Hold(1)), (2.0, Release(1))]).run(3)
    times = [t for t, _ in c.of(Audio)]
    assert not [t for t in times if 0.53 < t < 2.0]
    assert [t for t in times if t > 2.0]


def test_live_utterances_stay_within_max_lead_and_fast_ones_do_not() -> None:
    live = Speak(1, "a voice", 7, text=MINUTE, ended=True)
    fast = Speak(2, "a voice", 7, text=MINUTE, ended=True, live=False)
    c = Conversation([(0.0, live), (0.0, fast)], shared=means(max_lead=2.0)).run(10)
    assert len(c.of(Audio, 1)) * FRAME <= 10 + 2.0 + 2 * FRAME
    assert len(c.of(Audio, 2)) * FRAME > 20
    assert c.gaps(1) == []


def test_playback_reports_hold_a_client_that_does_not_play() -> None:
    speak = Speak(1, "a voice", 7, text=MINUTE, ended=True)
    reports = [(t / 4, Played(1, 0)) for t in range(1, 40)]
    c = Conversation([(0.0, speak), *reports], shared=means(max_lead=2.0)).run(10)
    assert len(c.of(Audio)) * FRAME < 2.6


def test_a_talker_that_never_ends_is_stopped_by_the_budget_and_the_rest_is_spoken() -> None:
    speak = Speak(1, "v", 7, text="OK.", ended=True)
    c = Conversation([(0.0, speak)], endless=True).run(10)
    assert (finished(c).reason, finished(c).frames) == ("length", 50)
    text = MINUTE[:200]
    c = Conversation([(0.0, Speak(1, "v", 7, text=text, ended=True))], endless=True, level=0.0).run(
        120
    )
    assert finished(c).reason == "guard_silence"
    assert "".join(c.segments()) == text


def test_max_frames_ends_with_length() -> None:
    c = Conversation([(0.0, Speak(1, "v", 7, text=MINUTE, ended=True, max_frames=10))]).run(5)
    assert (finished(c).reason, finished(c).frames) == ("length", 10)


def test_continues_carries_the_earlier_utterance() -> None:
    frames = [bytes([n]) + bytes(7) for n in range(20)]
    voice = Voice("Hello there, my friend.", b"".join(frames))
    speak = Speak(2, "v", 7, text="How are you?", ended=True, voice=voice)
    c = Conversation([(0.0, speak)]).run(10)
    prompt = [x for _, p in c.plans for x in p.prefills if x.utterance == 2]
    assert [code for x in prompt for code in x.carried] == frames
    assert [e.carried for _, e in c.of(Segment, 2)] == [1]


def test_slots_come_back_after_a_storm() -> None:
    says: list[tuple[float, object]] = []
    for n in range(1, 60):
        says.append((n * 0.05, Speak(n, "v", 7, text=MINUTE, ended=n % 2 == 0)))
        says.append((n * 0.05 + 0.11, Cancel(n)))
    c = Conversation(says).run(6)  # type: ignore[arg-type]
    assert c.scheduler.running == c.scheduler.waiting == 0
    assert sorted(c.scheduler._free) == [0, 1, 2, 3]
