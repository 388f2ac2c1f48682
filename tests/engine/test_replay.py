"""An engine dies at any step; another goes on from the journal: the same codes and samples."""

from __future__ import annotations

from typing import Any

import pytest

from engine import checkpoint
from engine.messages import (
    Audio,
    Command,
    End,
    Event,
    Failed,
    Finished,
    Flush,
    Flushed,
    Progress,
    Resume,
    Segment,
    Settled,
    Speak,
    Text,
)
from gateway.journal import Journal
from tests.engine.test_engine import TEXT, by_weights, loaded, make, speak
from tests.engine.test_engine import codes as codes_of
from tests.engine.test_engine import pcm as pcm_of

__all__ = ["by_weights", "loaded"]

Says = dict[int, list[Command]]
LONG = TEXT * 6


class Life:
    """Utterances over engines that die: `deaths` are steps, of all engines together."""

    def __init__(self, loaded: checkpoint.Loaded, says: Says, deaths: set[int]) -> None:
        self.journals: dict[int, Journal] = {}
        self.events: list[Event] = []
        self.at: list[tuple[int, Event]] = []  # by step
        self.steps = 0
        engine, due = make(loaded), []
        while self.steps < 4000:
            if self.steps in deaths:
                engine = make(loaded)
                due = [c for j in self.journals.values() for c in j.revival()]
            due += says.get(self.steps, [])
            for command in says.get(self.steps, []):
                if isinstance(command, Speak):
                    self.journals[command.utterance] = Journal(command)
                elif command.utterance in self.journals:
                    self.journals[command.utterance].command(command)
            for event in engine.step(due):
                self._hear(event)
            due = []
            self.steps += 1
            if self.steps > max(says) and not self.journals:
                return
        raise AssertionError("still busy")

    def _hear(self, event: Event) -> None:
        journal = self.journals.get(getattr(event, "utterance", 0))
        if journal and journal.event(event):
            self.events.append(event)
            self.at.append((self.steps, event))
        if isinstance(event, Finished | Failed):
            del self.journals[event.utterance]

    def of(self, kind: type, utterance: int = 1) -> list[Any]:
        return [e for e in self.events if isinstance(e, kind) and e.utterance == utterance]


def pieces(text: str, every: int, utterance: int = 1) -> Says:
    words = text.split(" ")
    deltas = [words[0], *(" " + w for w in words[1:])]
    says: Says = {1 + i * every: [Text(utterance, d)] for i, d in enumerate(deltas)}
    says[1 + len(deltas) * every] = [End(utterance)]
    return says


def opened(**changes: object) -> Speak:
    return speak(1, **({"text": "", "ended": False, "max_frames": 400} | changes))


# Two looks at the clock a step, 20 ms apart: a quiet of 0.3 s has eight steps.
CASES: dict[str, Says] = {
    "whole": {0: [speak(1, layout="full")]},
    "stream": {0: [speak(1, layout="stream")]},
    "many segments": {0: [speak(1, text=LONG, max_frames=420)]},
    "no carry": {0: [speak(1, text=LONG, max_frames=300, carry="none")]},
    "piecewise": {0: [opened()], **pieces(TEXT, 2)},
    "a flush": {
        0: [opened()],
        1: [Text(1, "One mo"), Flush(1, 1)],
        40: [Text(1, "ment, please. Thank you."), Flush(1, 2)],
        90: [Text(1, "Well, then."), End(1)],
    },
    "a stall": {
        0: [opened()],
        1: [Text(1, "I will look it up fo")],
        90: [Text(1, "r you, my friend. Here it is."), End(1)],
    },
}
DEATHS = (0.0, 0.04, 0.29, 0.46, 0.63, 0.99)  # of all steps


@pytest.mark.parametrize("name", CASES)
def test_death_at_any_step_changes_nothing(loaded: checkpoint.Loaded, name: str) -> None:
    says = CASES[name]
    whole = Life(loaded, says, set())
    first = 1 + max((n for n, e in whole.at if isinstance(e, Settled)), default=0)
    assert (first > 1) == (name == "a stall")
    for death in {first + round(share * (whole.steps - 2 - first)) for share in DEATHS}:
        same(Life(loaded, says, {death}), whole)


def test_other_weights_are_exact_too(by_weights: checkpoint.Loaded) -> None:
    says: Says = {0: [speak(1, text=TEXT * 3, max_frames=260)]}
    whole = Life(by_weights, says, set())
    assert len(segments(whole)) > 1
    same(Life(by_weights, says, {whole.steps - 20}), whole)


def same(broken: Life, whole: Life) -> None:
    codes = codes_of(whole.events, 1)
    assert len(set(codes)) > 20
    assert codes_of(broken.events, 1) == codes
    assert pcm_of(broken.events, 1) == pcm_of(whole.events, 1)
    assert [e.frame for e in broken.of(Audio)] == list(range(len(codes)))
    for kind in (Finished, Flushed):
        assert [_timeless(e) for e in broken.of(kind)] == [_timeless(e) for e in whole.of(kind)]
    assert segments(broken) == segments(whole)
    progress = [e.chars for e in broken.of(Progress)]
    assert progress == sorted(set(progress))


def test_what_was_not_decided_by_time_yet_changes_no_frame_before_it(
    loaded: checkpoint.Loaded,
) -> None:
    """Text comes so slowly that the playback's lead decides where segments end."""
    says: Says = {0: [opened()], **pieces(TEXT, 9)}
    whole, broken = Life(loaded, says, set()), Life(loaded, says, {60})
    made = sum(n < 60 for n, e in whole.at if isinstance(e, Audio))
    assert 10 < made < len(codes_of(whole.events, 1))
    assert codes_of(broken.events, 1)[:made] == codes_of(whole.events, 1)[:made]
    assert [e.frame for e in broken.of(Audio)] == list(range(len(broken.of(Audio))))
    assert "".join(s.text for s in segments(broken)) == TEXT
    assert broken.of(Finished)[0].reason in ("eos", "length")  # weights at random seldom end


def _timeless(event: Event) -> tuple[object, ...]:
    return tuple(v for k, v in vars(event).items() if k not in ("text_wait", "engine_wait"))


def segments(life: Life) -> list[Segment]:
    """As told last."""
    return list({e.index: e for e in life.of(Segment)}.values())


def test_many_deaths_in_one_utterance(loaded: checkpoint.Loaded) -> None:
    says: Says = {0: [speak(1, text=LONG, max_frames=300)]}
    whole = Life(loaded, says, set())
    broken = Life(loaded, says, {5, 6, 90, 400})
    assert pcm_of(broken.events, 1) == pcm_of(whole.events, 1)


def test_two_that_go_on_beside_one_that_is_new(loaded: checkpoint.Loaded) -> None:
    says: Says = {
        0: [speak(1, max_frames=120), speak(2, 5, text=LONG, max_frames=200)],
        41: [speak(3, 6, text="Another voice, another text. And more.", max_frames=50)],
    }
    whole, broken = Life(loaded, says, set()), Life(loaded, says, {40})
    for utterance in (1, 2, 3):
        assert codes_of(broken.events, utterance) == codes_of(whole.events, utterance)
        assert pcm_of(broken.events, utterance) == pcm_of(whole.events, utterance)


@pytest.mark.parametrize("left", [1000, 20])
def test_text_and_codes_alone_are_enough_where_all_text_was_known(
    loaded: checkpoint.Loaded, left: int
) -> None:
    whole = Life(loaded, {0: [speak(1, text=LONG, max_frames=300)]}, set())
    frames = max(1, len(codes_of(whole.events, 1)) - left)
    known = b"".join(codes_of(whole.events, 1)[:frames])
    resume = Resume(said=[LONG, -1], codes=known)
    again = speak(1, text="", ended=False, max_frames=300, resume=resume)
    rest = Life(loaded, {0: [again]}, set())
    audio = [e for e in rest.of(Audio) if isinstance(e, Audio)]
    assert audio[0].frame == frames
    frame = len(audio[0].pcm)
    assert pcm_of(rest.events, 1) == pcm_of(whole.events, 1)[frames * frame :]


def test_an_utterance_that_goes_on_continues_its_voice(loaded: checkpoint.Loaded) -> None:
    first = Life(loaded, {0: [speak(1, max_frames=400)]}, set())
    journal = Journal(speak(1))
    for event in first.events:
        journal.event(event)
    voice = journal.voice("eos")
    assert voice
    says: Says = {0: [speak(2, voice=voice, max_frames=80)]}
    whole, broken = Life(loaded, says, set()), Life(loaded, says, {30})
    assert pcm_of(whole.events, 2) == pcm_of(broken.events, 2)
    alone = Life(loaded, {0: [speak(2, max_frames=80)]}, set())
    assert codes_of(whole.events, 2) != codes_of(alone.events, 2)
