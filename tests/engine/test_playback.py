from __future__ import annotations

from engine.playback import Playback


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
