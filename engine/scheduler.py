"""Who runs this step. Pure: commands and outputs in, plans and events out; the clock is an
argument.

"May not run" is absence from the plan: starved, held, waiting, too far ahead, finished.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import replace

from engine.carry import Spoken
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
from engine.plan import Decode, Made, Plan, Prefill
from engine.utterance import Utterance

VOICES = 256  # finished utterances whose voice can be continued


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
        self._resets: list[tuple[int, Speak]] = []
        self._voices: OrderedDict[int, list[Spoken]] = OrderedDict()
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
        prefills: list[Prefill] = []
        decodes: list[Decode] = []
        for utterance in list(self._running.values()):
            for row in utterance.rows(now):
                if isinstance(row, Prefill):
                    prefills.append(row)
                else:
                    decodes.append(row)
            self._publish(utterance)
        resets, self._resets = tuple(self._resets), []
        return Plan(resets, tuple(prefills), tuple(decodes))

    def commit(self, plan: Plan, output: Sequence[Made], now: float) -> None:
        """Give each emitting row's output to its utterance, if that is still there."""
        for row, made in zip(plan.emitting, output, strict=True):
            if utterance := self._running.get(row.utterance):
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
            speak, slot = waiting.speak, self._free.pop()
            try:
                utterance = Utterance(
                    speak, slot, self._means, now, self._voices.get(speak.continues, ())
                )
            except ValueError as error:
                self._free.append(slot)
                self._events.append(Failed(number, "unsupported", str(error)))
                continue
            self._running[number] = utterance
            self._waited[number] = now - waiting.since
            self._resets.append((slot, speak))
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
        del self._running[utterance.id]
        self._free.append(utterance.slot)
        self._events.append(utterance.finished(self._waited.pop(utterance.id)))
        self._voices[utterance.id] = utterance.voice()
        if len(self._voices) > VOICES:
            self._voices.popitem(last=False)
