"""The state machine alone: no socket, a clock that is an argument."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import messages as engine
from gateway.admission import Load
from gateway.capabilities import Capabilities
from gateway.config import Limits
from gateway.keys import Keys, grants
from gateway.session import Session
from gateway.states import MOVES, State

from .house import MSGPACK, VOICE

READY = engine.Ready(
    "model", "voice_design", ["english"], [], 24_000, 1_920, 16, 8, 8192, "cpu",
    engine.Sampling(), engine.Sampling(repetition_penalty=1.0),
)  # fmt: skip
PCM = bytes(3840)
LOUD = b"\x00\x10" * 1920


class Table:
    """A session with its two sides played by the test."""

    def __init__(self, limits: Limits | None = None, keys: Keys | None = None) -> None:
        self.now = 100.0
        self.load = Load(slots=8, queue=8, ready=True)
        served = Capabilities.of(READY, limits or Limits())
        self.session = Session(
            "s", MSGPACK, served, self.load, keys or Keys([]),
            ids=itertools.count(1), seeds=itertools.count(1000), now=self.now,
        )  # fmt: skip

    def say(self, kind: str, **fields: Any) -> list[dict[str, Any]]:
        self.session.receive_message(msgpack.packb({"type": kind} | fields), self.now)
        return self.heard()

    def speak(self, name: str = "u", **fields: Any) -> list[dict[str, Any]]:
        return self.say("speak", utterance=name, voice=VOICE, **fields)

    def event(self, event: engine.Event) -> list[dict[str, Any]]:
        self.session.receive_event(event, self.now)
        return self.heard()

    def heard(self) -> list[dict[str, Any]]:
        return list(self.session.messages_to_send(self.now))

    def tick(self, seconds: float) -> list[dict[str, Any]]:
        self.now += seconds
        self.session.tick(self.now)
        return self.heard()

    def commands(self) -> list[engine.Command]:
        return self.session.commands_to_send()


def opened(table: Table, **fields: Any) -> None:
    table.heard()
    table.speak(**fields)
    table.event(engine.Started(1, 1000, 0.0))
    table.commands()


def frame(number: int, pcm: bytes = PCM, ident: int = 1) -> engine.Audio:
    return engine.Audio(ident, number, pcm, b"\x01\x00" * 16)


def test_speak_reaches_the_engine_as_it_was_meant() -> None:
    table = Table()
    sampling = {"top_k": 5, "predictor": {"greedy": True}}
    table.speak(
        text="Hi.", end=True, seed=9, language="English", sampling=sampling, pace="fast",
        max_seconds=1.0, layout="full", carry="none",
    )  # fmt: skip
    assert table.commands() == [
        engine.Speak(
            1, VOICE["design"], 9, "Hi.", True, language="english",
            talker=engine.Sampling(top_k=5),
            predictor=engine.Sampling(greedy=True, repetition_penalty=1.0),
            layout="full", carry="none", max_frames=13, live=False,
        )
    ]  # fmt: skip


def test_the_drawn_seed_is_reported() -> None:
    table = Table()
    table.speak()
    assert table.commands()[0].seed == 1000  # type: ignore[union-attr]
    started = table.event(engine.Started(1, 1000, 0.25))
    expected = {"type": "started", "utterance": "u", "seed": 1000, "queue_ms": 250.0}
    assert started == [expected]


def test_audio_counts_samples_and_carries_codes_on_request() -> None:
    table = Table()
    opened(table, journal=True)
    first, second = table.event(frame(0)) + table.event(frame(1))
    assert (first["seq"], first["start"], first["samples"]) == (0, 0, 1920)
    assert (second["seq"], second["start"]) == (1, 1920)
    assert first["pcm"] == PCM
    assert second["codes"] == b"\x01\x00" * 16


def test_done_tells_when_the_first_audible_sample_sounds() -> None:
    table = Table()
    opened(table, text="Hi.", end=True)
    table.now += 0.050
    table.event(frame(0))
    table.now += 0.010
    table.event(frame(1, bytes(2 * 960) + LOUD[: 2 * 960]))
    table.now += 1.0
    done = table.event(engine.Finished(1, "eos", 2, 1, 0.5, 0.25))[-1]
    assert done["ttfa_ms"] == pytest.approx(50)
    assert done["audible_ms"] == pytest.approx(50 + 80 + 40)  # as a player hears it, gap or not
    assert (done["text_wait_ms"], done["engine_wait_ms"]) == (500, 250)
    assert (done["samples"], done["rtf"]) == (3840, pytest.approx(0.060 / 0.160))


def test_cancel_ends_at_once_and_drops_what_was_not_sent() -> None:
    table = Table()
    opened(table)
    table.event(frame(0))
    table.session.receive_event(frame(1), table.now)  # waits in the outbox
    done = table.say("cancel", utterance="u")
    assert [m["type"] for m in done] == ["done"]
    assert (done[0]["reason"], done[0]["samples"]) == ("cancelled", 1920)
    assert table.commands() == [engine.Cancel(1)]
    assert table.event(frame(2)) == []
    assert table.event(engine.Finished(1, "cancelled", 3, 1, 0.0, 0.0)) == []


def test_cancel_without_a_name_takes_all() -> None:
    table = Table()
    table.heard()
    table.speak("a"), table.speak("b")
    assert [m["utterance"] for m in table.say("cancel")] == ["a", "b"]
    assert table.commands()[-2:] == [engine.Cancel(1), engine.Cancel(2)]


def test_a_cancelled_name_is_free_and_its_late_text_forgiven() -> None:
    table = Table()
    table.heard()
    table.speak()
    table.say("cancel", utterance="u")
    assert table.say("text", utterance="u", text="late") == []
    assert table.say("end", utterance="u") == []
    assert table.say("cancel", utterance="u") == []
    table.commands()
    table.speak()
    assert [type(c) for c in table.commands()] == [engine.Speak]


def test_played_outlives_the_utterance_and_never_runs_back() -> None:
    table = Table()
    opened(table, text="Hi.", end=True)
    table.event(frame(0))
    for samples in (900, 500, 99_999):
        table.say("played", utterance="u", samples=samples)
    assert table.commands() == [engine.Played(1, 900), engine.Played(1, 1920)]
    table.event(engine.Finished(1, "eos", 1, 1, 0.0, 0.0))
    assert table.say("played", utterance="u", samples=1920) == []


def test_equal_reports_of_a_player_that_stands_still_reach_the_engine() -> None:
    table = Table()
    opened(table)
    table.event(frame(0))
    for samples in (0, 0, 900, 900):
        table.say("played", utterance="u", samples=samples)
    assert table.commands() == [engine.Played(1, n) for n in (0, 0, 900, 900)]


def test_continues_names_the_engines_own_id() -> None:
    table = Table()
    opened(table, end=True)
    table.event(engine.Finished(1, "empty", 0, 0, 0.0, 0.0))
    table.speak("v", continues="u")
    assert table.commands()[-1].continues == 1  # type: ignore[union-attr]


def test_flushes_count_and_answer_in_samples() -> None:
    table = Table()
    opened(table)
    table.say("flush", utterance="u"), table.say("flush", utterance="u")
    assert table.commands() == [engine.Flush(1, 1), engine.Flush(1, 2)]
    flushed = table.event(engine.Flushed(1, 2, 3))
    assert flushed == [{"type": "flushed", "utterance": "u", "flush": 2, "at": 5760}]


def test_progress_only_on_request() -> None:
    silent, told = Table(), Table()
    opened(silent, text="A text.")
    opened(told, text="A text.", progress=True)
    event = engine.Progress(1, 4, 2)
    assert silent.event(event) == []
    assert told.event(event) == [{"type": "progress", "utterance": "u", "chars": 4, "at": 3840}]


def test_an_unknown_failure_is_internal() -> None:
    table = Table()
    opened(table)
    error, done = table.event(engine.Failed(1, "odd", "what"))
    assert (error["code"], error["fatal"], done["reason"]) == ("internal", False, "error")


def test_water_marks_hold_and_release_all_utterances_and_new_ones() -> None:
    table = Table(Limits(outbox_high=10_000, outbox_low=5_000))
    opened(table)
    for number in range(3):
        table.session.receive_event(frame(number), table.now)
    assert table.commands() == [engine.Hold(1)]
    assert not table.session.may_read
    table.session.receive_message(
        msgpack.packb({"type": "speak", "utterance": "v", "voice": VOICE}), table.now
    )
    assert [type(c) for c in table.commands()] == [engine.Speak, engine.Hold]
    messages = table.session.messages_to_send(table.now)
    next(messages)
    assert table.commands() == []  # between the marks nothing changes
    next(messages)
    assert table.commands() == [engine.Release(1), engine.Release(2)]
    assert table.session.may_read


def test_pending_text_stops_the_reading_until_it_is_fed() -> None:
    table = Table(Limits(pending_text_chars=10))
    opened(table, text="twelve chars")
    assert not table.session.may_read
    table.event(engine.Progress(1, 2, 0))
    assert table.session.may_read


def test_all_text_of_an_utterance_is_bounded() -> None:
    table = Table(Limits(utterance_text_bytes=10))
    opened(table, text="12345678")
    error, done = table.say("text", utterance="u", text="éé")
    assert (error["code"], error["limit"]) == ("too_large", "utterance_text_bytes")
    assert done["reason"] == "error"
    assert table.commands() == [engine.Cancel(1)]


def test_too_many_utterances_and_a_full_house() -> None:
    table = Table(Limits(utterances=1))
    table.heard()
    table.speak("a")
    assert table.speak("b")[0]["limit"] == "utterances"
    table.say("cancel", utterance="a")
    table.load.live = 16
    busy = table.speak("c")[0]
    assert (busy["code"], busy["retry_ms"] > 0) == ("busy", True)
    table.load.live, table.load.ready = 0, False
    assert table.speak("d")[0]["code"] == "busy"
    table.load.draining = True
    assert table.speak("e")[0]["code"] == "draining"


def test_a_slot_that_does_not_come_is_busy() -> None:
    table = Table(Limits(queue_seconds=10))
    table.heard()
    table.speak()
    assert table.tick(9.9) == []
    error, done = table.tick(0.2)
    assert (error["code"], error["limit"], done["reason"]) == ("busy", "queue_seconds", "error")


def test_forgotten_end_is_text_timeout_and_still_spoken() -> None:
    table = Table(Limits(text_seconds=5))
    opened(table, text="Hi.")
    assert table.tick(4.9) == []
    error = table.tick(0.2)[0]
    assert (error["code"], error["fatal"]) == ("text_timeout", False)
    assert table.commands() == [engine.End(1)]
    assert table.say("text", utterance="u", text="late") == []
    assert table.event(frame(0))[0]["type"] == "audio"
    done = table.event(engine.Finished(1, "eos", 1, 1, 0.0, 0.0))[0]
    assert done["reason"] == "text_timeout"


def test_a_client_that_reads_nothing_loses_the_utterance() -> None:
    table = Table(Limits(stall_seconds=3))
    opened(table)
    table.session.receive_event(frame(0), table.now)
    table.now += 3.1
    table.session.tick(table.now)
    assert table.commands() == [engine.Cancel(1)]
    error, done = table.heard()
    assert (error["code"], done["reason"], done["samples"]) == ("slow_client", "error", 0)
    assert done["ttfa_ms"] is None


def test_an_idle_connection_closes_with_a_reason() -> None:
    table = Table(Limits(idle_seconds=60))
    opened(table, end=True)
    assert table.tick(61) == []  # an utterance lives
    table.event(engine.Finished(1, "empty", 0, 0, 0.0, 0.0))
    assert table.tick(59) == []
    assert table.tick(2)[0]["code"] == "idle_timeout"
    assert table.session.closing == (1000, "idle_timeout")


def test_the_key_comes_first_and_in_time() -> None:
    keys = Keys(grants(["secret"]))
    good, wrong, other, late = (Table(keys=keys) for _ in range(4))
    assert good.heard() == []
    assert good.say("hello", token="secret")[0]["type"] == "ready"
    assert wrong.say("hello", token="Secret")[0]["code"] == "unauthorized"
    assert other.say("ping")[0]["code"] == "unauthorized"
    assert late.tick(11)[0]["limit"] == "first_message_seconds"
    closing = (4401, "unauthorized")
    assert [t.session.closing for t in (good, wrong, other, late)] == [None, *[closing] * 3]


def test_a_drained_session_closes_after_its_last_done() -> None:
    table = Table()
    opened(table, end=True)
    table.load.draining = True
    table.tick(0.1)
    assert table.session.closing is None
    table.event(engine.Finished(1, "empty", 0, 0, 0.0, 0.0))
    assert table.session.closing == (1012, "draining")


def test_closing_is_cancelling() -> None:
    table = Table()
    table.speak("a"), table.speak("b")
    table.commands()
    table.session.connection_lost()
    assert table.commands() == [engine.Cancel(1), engine.Cancel(2)]
    assert table.event(frame(0)) == []


def test_every_state_has_its_moves() -> None:
    assert set(MOVES) == set(State)
    assert all(target in State for moves in MOVES.values() for target in moves.values())


NAMES = st.sampled_from(["a", "b"])
MESSAGE = st.one_of(
    st.tuples(st.just("speak"), NAMES, st.booleans()),
    st.tuples(st.sampled_from(["text", "flush", "end", "cancel", "played"]), NAMES, st.just(False)),
)
EVENT = st.tuples(
    st.sampled_from(["started", "audio", "finished", "failed", "progress", "tick"]),
    st.integers(0, 3),
    st.booleans(),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(MESSAGE, EVENT), max_size=40))
def test_laws_hold_whatever_comes(script: list[tuple[str, Any, bool]]) -> None:
    """Each accepted speak has one done and nothing after it; holds and releases alternate."""
    table = Table(Limits(outbox_high=8_000, outbox_low=4_000, utterances=2))
    started: dict[int, int] = {}
    ended: set[int] = set()
    seen: list[dict[str, Any]] = []
    commands: list[engine.Command] = []
    for kind, who, flag in script:
        commands += table.commands()
        ids = [c.utterance for c in commands if isinstance(c, engine.Speak)]
        ended |= {c.utterance for c in commands if isinstance(c, engine.Cancel)}
        if isinstance(who, str):
            extra = {"speak": {"voice": VOICE, "end": flag}, "text": {"text": "hi "}}
            extra["played"] = {"samples": 5}
            message = {"type": kind, "utterance": who} | extra.get(kind, {})
            table.session.receive_message(msgpack.packb(message), table.now)
        elif kind == "tick":
            table.now += 1.0
            table.session.tick(table.now)
            seen += itertools.islice(table.session.messages_to_send(table.now), who)
        elif who < len(ids):
            ident = ids[who]
            if kind == "started" and ident not in started and ident not in ended:
                started[ident] = 0
                table.session.receive_event(engine.Started(ident, 1, 0.0), table.now)
            elif ident in started and ident not in ended:
                match kind:
                    case "audio":
                        event: engine.Event = frame(started[ident], ident=ident)
                        started[ident] += 1
                    case "progress":
                        event = engine.Progress(ident, 1, 0)
                    case "finished":
                        event = engine.Finished(ident, "eos", started[ident], 1, 0.0, 0.0)
                        ended.add(ident)
                    case _:
                        event = engine.Failed(ident, "internal", "x")
                        ended.add(ident)
                table.session.receive_event(event, table.now)
    seen += table.say("cancel")
    commands += table.commands()
    accepted = sum(isinstance(c, engine.Speak) for c in commands)
    assert sum(m["type"] == "done" for m in seen) == accepted
    live: Counter[str] = Counter()
    for message in seen:
        if message["type"] == "started":
            live[message["utterance"]] = 1
        elif message["type"] == "done":
            live[message["utterance"]] = 0
        elif message["type"] == "audio":
            assert live[message["utterance"]], "audio of no live utterance"
    flow = [type(c) for c in commands if isinstance(c, engine.Hold | engine.Release)]
    assert table.session.outbox.bytes == 0
    assert not flow or flow[0] is engine.Hold
    assert not table.session.live
