from __future__ import annotations

from engine.guards import FLOOR, RUN, Guard, budget

LOUD, QUIET = 0.1, 0.0001
TEXT = "Hello there, how are you today?"


def run(
    guard: Guard, frames: list[tuple[bytes, float]], text: str = TEXT, fed: bool = True
) -> tuple[int, str | None]:
    """Frames until the guard speaks."""
    for n, (codes, level) in enumerate(frames, 1):
        if reason := guard.observe(codes, level, n, text, fed):
            return n, reason
    return len(frames), None


def speech(n: int, level: float = LOUD) -> list[tuple[bytes, float]]:
    return [(i.to_bytes(2, "little"), level) for i in range(n)]


def test_silence_after_the_text_stops_within_two_seconds() -> None:
    n, reason = run(Guard(), speech(30) + [(bytes([i, 7]), QUIET) for i in range(60)])
    assert (n, reason) == (30 + RUN, "guard_silence")
    assert RUN * 0.08 <= 2.0


def test_a_pause_of_a_second_and_a_half_is_not_cut() -> None:
    pause = [(bytes([i, 7]), QUIET) for i in range(19)]
    assert run(Guard(), speech(20) + pause + speech(20))[1] is None


def test_repeated_codes_stop_as_a_loop_of_one_or_of_four() -> None:
    for period in (1, 2, 4):
        loop = [(bytes([i % period, 9]), LOUD) for i in range(80)]
        n, reason = run(Guard(), speech(25) + loop)
        assert reason == "guard_loop"
        assert n <= 25 + RUN + period


def test_nothing_fires_before_half_the_expected_length_or_while_text_may_come() -> None:
    silent = [(bytes([i, 7]), QUIET) for i in range(200)]
    long = "word " * 100
    assert run(Guard(), silent[:60], long)[1] is None
    assert run(Guard(), silent, fed=False)[1] is None


def test_the_budget_is_at_least_four_seconds_and_follows_the_text() -> None:
    assert budget("1") == budget("OK.") == budget("好") == FLOOR == 50
    assert run(Guard(), speech(300), "1") == (50, "length")
    assert 12.5 * 25 < budget("word " * 30) < 12.5 * 45
