"""Who runs this step. Pure: commands and outputs in, plans and events out; the clock is an
argument.

"May not run" is absence from the plan: starved, held, waiting, too far ahead, finished.
"""

from __future__ import annotations

import traceback
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from engine.means import Means
from engine.messages import (
    Cancel,
    Command,
    End,
    Event,
    Failed,
    Finished,
    Flush,
    Hold,
    Played,
    Release,
    Speak,
    Started,
    Text,
)
from engine.opening import Refused
from engine.plan import Decode, Echo, Made, Plan, Prefill, Reset, StepRow, check
from engine.utterance import Utterance


class Waiting:
    """An utterance without a slot: its commands are kept in order."""

    def __init__(self, speak: Speak, now: float) -> None:
        self.speak, self.since = speak, now
        self.commands: list[Command] = []


class Scheduler:
    def __init__(self, means: Means, slots: int, queue: int) -> None:
        """`slots` utterances at once, at most `queue` more waiting."""
        self._means, self._queue = means, queue
        self._free = list(range(slots - 1, -1, -1))
        self._running: dict[int, Utterance] = {}
        self._waiting: OrderedDict[int, Waiting] = OrderedDict()
        self._waited: dict[int, float] = {}
        self._resets: list[Reset] = []
        self._events: deque[Event] = deque()

    def expect_joins(self, seconds: float) -> None:
        """A segment's first step takes so long on this machine: later utterances open in time."""
        policy = self._means.policy
        lead = max(policy.stall_lead, policy.slow_lead + seconds)
        self._means = replace(self._means, policy=replace(policy, stall_lead=lead))

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def starved(self) -> int:
        return sum(u.starved for u in self._running.values())

    def events(self) -> list[Event]:
        """Drain what happened since the last call."""
        events = list(self._events)
        self._events.clear()
        return events

    def handle(self, command: Command, now: float) -> None:
        """Take one command. One for an utterance that is gone is late, not wrong."""
        with self._alone(command.utterance):
            self._handle(command, now)

    def _handle(self, command: Command, now: float) -> None:
        if isinstance(command, Speak):
            self._enqueue(command, now)
        elif waiting := self._waiting.get(command.utterance):
            if isinstance(command, Cancel):
                del self._waiting[command.utterance]
                self._events.append(
                    Finished(command.utterance, "cancelled", 0, 0, 0.0, now - waiting.since)
                )
            else:
                waiting.commands.append(command)
        elif utterance := self._running.get(command.utterance):
            self._apply(utterance, command, now)

    def plan(self, now: float) -> Plan:
        """Admit who waits, then one row for each utterance that may run."""
        self._admit(now)
        planned: list[StepRow] = []
        for utterance in list(self._running.values()):
            with self._alone(utterance.id):
                rows = utterance.rows(now)
                for row in rows:
                    check(row, self._means.config, self._means.positions)
                self._publish(utterance)
                planned += rows
        resets, self._resets = tuple(self._resets), []
        return Plan(
            resets,
            tuple(row for row in planned if isinstance(row, Prefill)),
            tuple(row for row in planned if isinstance(row, Decode)),
            tuple(row for row in planned if isinstance(row, Echo)),
        )

    def commit(self, plan: Plan, output: Sequence[Made], now: float) -> None:
        """Give each emitting row's output to its utterance, if that is still there."""
        for row, made in zip(plan.emitting, output, strict=True):
            if utterance := self._running.get(row.utterance):
                with self._alone(utterance.id):
                    utterance.commit(made, now)
                    self._publish(utterance)

    def _enqueue(self, speak: Speak, now: float) -> None:
        assert speak.utterance not in self._running, "the gateway never reuses an utterance"
        if len(self._waiting) >= self._queue + len(self._free):
            message = f"the engine is full: {self.running} speaking, {self.waiting} waiting"
            self._events.append(Failed(speak.utterance, "busy", message))
        else:
            self._waiting[speak.utterance] = Waiting(speak, now)

    def _admit(self, now: float) -> None:
        while self._free and self._waiting:
            number, waiting = self._waiting.popitem(last=False)
            speak, slot = waiting.speak, self._free[-1]
            with self._alone(number):
                utterance = Utterance(speak, slot, self._means, now)
                self._running[number] = utterance
                self._free.pop()
                self._waited[number] = now - waiting.since
                self._resets.append(Reset(slot, speak, utterance.replay.codec_frame))
                self._events.append(Started(number, speak.seed, self._waited[number]))
                for command in waiting.commands:
                    self._apply(utterance, command, now)

    def _apply(self, utterance: Utterance, command: Command, now: float) -> None:
        match command:
            case Text(_, text):
                utterance.push(text, now)
            case Flush(_, flush):
                utterance.flush(flush)
            case End():
                utterance.end()
            case Hold():
                utterance.hold(True)
            case Release():
                utterance.hold(False)
            case Played(_, samples):
                utterance.played(samples / self._means.rate, now)
            case Cancel():
                utterance.reason = "cancelled"
                self._publish(utterance)

    def _publish(self, utterance: Utterance) -> None:
        """Pass on what happened; free the slot of an utterance that is over."""
        self._events += utterance.events()
        if not utterance.reason:
            return
        self._events.append(utterance.finished(self._waited[utterance.id]))
        self._leave(utterance.id)

    def _leave(self, number: int) -> None:
        if utterance := self._running.pop(number, None):
            self._free.append(utterance.slot)
            del self._waited[number]

    @contextmanager
    def _alone(self, number: int) -> Iterator[None]:
        """Whatever goes wrong inside fails this utterance and no other."""
        try:
            yield
        except Refused as refused:
            self._fail(number, refused.code, str(refused))
        except Exception as error:
            self._fail(number, "internal", f"a mistake of ours: {_place(error)}")

    def _fail(self, number: int, code: str, message: str) -> None:
        self._waiting.pop(number, None)
        self._leave(number)
        self._events.append(Failed(number, code, message))


def _place(error: Exception) -> str:
    """Type and place: the message may hold a user's text."""
    *_, last = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__} in {last.filename.rpartition('/')[2]}:{last.lineno}"
