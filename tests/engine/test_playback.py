from __future__ import annotations

import pytest

from engine.messages import Audio, Played, Speak
from engine.playback import Playback
from tests.engine.conversation import FRAME, Conversation, means


def test_lead_by_the_clock_and_a_new_start_after_a_dry_spell() -> None:
    p = Playback()
    assert p.lead(5.0) == 0
    p.add(1.0, 5.0)
    assert p.lead(5.25) == 0.75
    assert p.lead(9.0) == 0
    p.add(0.5, 9.0)
    assert p.lead(9.0) == 0.5


def test_reports_replace_the_clock() -> None:
    p = Playback()
    p.add(2.0, 0.0)
    p.report(0.25, 1.0)  # the client started late
    assert p.lead(1.0) == 1.75
    p.report(99.0, 1.0)  # more than was made cannot have been played
    assert p.lead(1.0) == 0


def test_a_player_that_stands_still_is_not_run_away_from() -> None:
    p = Playback()
    p.add(2.0, 0.0)
    assert p.ahead(0.5) == 1.5  # no report: by the clock
    p.report(0.1, 1.0)
    assert p.ahead(1.0) == p.ahead(60.0) == 1.9
    p.add(1.0, 60.0)
    assert p.ahead(61.0) == 2.9


def test_reports_only_grow() -> None:
    p = Playback()
    p.add(2.0, 0.0)
    p.report(1.5, 1.0)
    p.report(0.5, 1.0)
    assert p.ahead(1.0) == p.lead(1.0) == 0.5


@pytest.mark.parametrize("reports", [40, 1])
def test_a_paused_player_is_never_more_than_max_lead_behind(reports: int) -> None:
    speak = Speak(1, "a voice", 7, text="A sentence for a player that waits. " * 12, ended=True)
    paused = [(t / 5, Played(1, 2400)) for t in range(1, reports + 1)]
    c = Conversation([(0.0, speak), *paused], shared=means(max_lead=2.0)).run(10)
    assert 2.0 < len(c.of(Audio)) * FRAME <= 0.1 + 2.0 + FRAME
