"""The load generator: its ear, its crowd, and a run against a real gateway with a fake engine."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import islice, pairwise
from random import Random
from statistics import mean
from typing import Any

import pytest

from gateway.bench.ear import Ear
from gateway.bench.tally import Tally, quantile
from gateway.bench.turns import CANCEL, DROP, STALL, WHOLE, Habits, arrivals, turns

from .house import ROOT

RATE, FRAME = 24_000, 1_920
FAKE = ("--", "--worker", "tests.gateway.fake_engine", "--slots", "20")


def heard(*moments: float) -> list[float]:
    ear = Ear(RATE)
    for moment in moments:
        ear.hear(FRAME, moment)
    return ear.gaps


@pytest.mark.parametrize(
    ("moments", "gaps"),
    [
        ([0.0, 0.08, 0.16, 0.24], []),
        ([0.0, 0.18], []),  # 80 ms of sound, 100 ms in store: just in time
        ([0.0, 0.20], [0.12]),  # dry at 0.18; sounds again at 0.30
        ([0.0, 0.0, 0.0, 0.34], []),  # a burst fills the store
        ([0.0, 0.28, 0.36, 0.44], [0.2]),  # one silence, not three
        ([0.0, 0.28, 0.56], [0.2, 0.2]),
        ([5.0], []),  # what is behind the last audio is no gap
    ],
)
def test_the_ear_hears_silence_behind_a_jitter_buffer(
    moments: list[float], gaps: list[float]
) -> None:
    assert heard(*moments) == pytest.approx(gaps)


def test_clients_come_as_a_poisson_process() -> None:
    moments = arrivals(Random(1), 4000, 100.0)
    pauses = [b - a for a, b in pairwise(moments)]
    assert len(moments) == 4000
    assert mean(pauses) == pytest.approx(100 / 4000, rel=0.05)
    # Of an exponential, 1/e of the pauses are longer than the mean.
    assert mean(pause > 100 / 4000 for pause in pauses) == pytest.approx(0.368, abs=0.03)
    assert arrivals(Random(1), 3, 0.0) == [0.0, 0.0, 0.0]


def test_turns_follow_their_shares_and_their_seed() -> None:
    habits = Habits(cancel=0.2, drop=0.1, stall=0.05, words_per_second=10.0, pause=2.0)
    taken = list(islice(turns(Random(3), habits), 3000))
    shares = {fate: mean(t.fate == fate for t in taken) for fate in (CANCEL, DROP, STALL, WHOLE)}
    assert shares == pytest.approx({CANCEL: 0.2, DROP: 0.1, STALL: 0.05, WHOLE: 0.65}, abs=0.03)
    assert mean(t.pause for t in taken) == pytest.approx(2.0, rel=0.1)
    assert mean(wait for t in taken for wait, _ in t.deltas) == pytest.approx(0.1, rel=0.1)
    assert taken == list(islice(turns(Random(3), habits), 3000))
    assert all(t.text == t.text.strip() for t in taken)


def test_text_may_come_at_once() -> None:
    turn = next(turns(Random(0), Habits(words_per_second=0.0, pause=0.0)))
    assert turn.deltas == ((0.0, turn.text),)
    assert turn.pause == 0.0


def test_quantiles_are_values_that_were_measured() -> None:
    values = [float(v) for v in range(1, 101)]
    assert [quantile(values, p) for p in (50, 95, 99, 100)] == [50, 95, 99, 100]
    assert quantile([7.0], 99) == 7.0
    assert Tally(ttfa=[0.2, 0.1]).summary(1.0)["ttfa_ms"] == {"p50": 100, "p95": 200, "p99": 200}
    assert Tally().summary(1.0)["ttfa_ms"] is None


def run(*arguments: str) -> tuple[int, dict[str, Any], str]:
    """Exit status, the JSON line where there is one, and all output."""
    command = (sys.executable, "-m", "gateway.bench", *arguments)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    last = (done.stdout.splitlines() or ["{}"])[-1]
    return done.returncode, json.loads(last) if last[:1] == "{" else {}, done.stdout + done.stderr


def test_a_run_counts_every_turn_once_and_finds_nothing_wrong() -> None:
    crowd = ("--clients=12", "--seconds=2.5", "--arrive=0.5", "--pause=0.2", "--sentences=1")
    fates = ("--cancel=0.3", "--drop=0.2", "--stall=0.2", "--stall-seconds=0.5")
    status, figures, output = run(*crowd, *fates, *FAKE)
    assert status == 0, output
    turns = figures["turns"]
    assert turns.keys() == {"cancel", "drop", "stall", "whole"}
    assert sum(figures["ends"].values()) == sum(turns.values())
    assert 0 < figures["ends"]["cancelled"] <= turns["cancel"]
    assert 0 < figures["ends"]["dropped"] <= turns["drop"]
    assert figures["errors"] == figures["wrong"] == {}
    assert figures["gaps"]["utterances"] == sum(turns.values()) - turns["stall"]
    assert figures["ttfa_ms"]["p50"] <= figures["ttfa_ms"]["p95"] <= figures["ttfa_ms"]["p99"]
    assert figures["audio_seconds"] > 5
    assert figures["server"]["gateway_mb"] > 0
    assert figures["server"]["engine_mb"] > 0


def test_refusals_are_counted_by_their_code() -> None:
    crowd = ("--clients=6", "--seconds=1", "--arrive=0", "--pause=0", "--words=0", "--sentences=1")
    status, figures, output = run(*crowd, *FAKE[:-1], "1", "--queue", "0")
    assert status == 0, output
    assert figures["errors"]["busy"] >= 5
    assert (
        sum(figures["turns"].values()) == sum(figures["ends"].values()) + figures["errors"]["busy"]
    )


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--url", "ws://127.0.0.1:1/v1/speech"], 2, "does not answer"),
        (["--url", "http://127.0.0.1/"], 2, "ws://HOST:PORT/v1/speech"),
        (["--cancel", "0.6", "--drop", "0.6"], 2, "at most 1"),
        (["--", "--worker", "tests.gateway.fake_engine", "--model", "missing"], 2, "no checkpoint"),
        (["--help"], 0, "jitter buffer"),
    ],
)
def test_what_cannot_run_says_why(arguments: list[str], status: int, said: str) -> None:
    got, _, output = run(*arguments)
    assert (got, said in output) == (status, True), output
