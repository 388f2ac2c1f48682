"""Who speaks and who waits for a slot. PURE.

A slot that comes free goes to the share (a key, an address) that speaks least, then to the one
served longest ago; inside a share the first comes first. Where the line is full, a share with more
utterances makes room for one with fewer. The engine gets `AHEAD` more than it has slots, so that a
freed one does not stand idle until we hear of it.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field

from engine.messages import Cancel, Command, Speak

AHEAD = 1
RETRY_MS = 1_000  # until we have seen slots come free
SHORTEST_MS, LONGEST_MS = 250, 30_000
WEIGHT = 0.2  # of the latest interval in the pace


@dataclass(frozen=True)
class Queued:
    """An event of the line: `place` 1 is the next that gets a slot."""

    utterance: int
    place: int


@dataclass
class _Waiter:
    since: float
    commands: list[Command] = field(default_factory=list)


class Line:
    def __init__(self) -> None:
        self.slots = 0
        self.queue = 0  # places besides the slots
        self._speaking: dict[int, str] = {}  # the engine has it: its share
        self._speakers: Counter[str] = Counter()  # of each share
        self._waiting: dict[str, dict[int, _Waiter]] = {}
        self._shares: dict[int, str] = {}  # of who waits
        self._waited: dict[int, float] = {}  # seconds, of who speaks
        self._served: dict[str, int] = {}  # the turn in which a share last got a slot
        self._turns = 0
        self._pace = 0.0  # seconds from one freed slot to the next while all were taken
        self._freed_at = -1.0
        self._told = 0  # who was sent away since

    @property
    def waiting(self) -> int:
        return len(self._shares)

    @property
    def stands(self) -> bool:
        """Whether anybody waits, here or in the engine."""
        return bool(self._shares) or len(self._speaking) > self.slots

    @property
    def full(self) -> bool:
        return len(self._speaking) + self.waiting >= self.slots + self.queue

    def live(self, share: str) -> int:
        """Utterances of `share`, speaking or waiting."""
        return self._speakers[share] + len(self._waiting.get(share, ()))

    def waits(self, utterance: int) -> bool:
        return utterance in self._shares

    def waited(self, utterance: int) -> float:
        """Seconds that an utterance stood in the line before the engine got it."""
        return self._waited.get(utterance, 0.0)

    def pass_on(self, commands: list[Command], share: str, now: float) -> list[Command]:
        """Those for the engine. A new utterance, and what belongs to it, waits for `release`."""
        through: list[Command] = []
        for command in commands:
            ident = command.utterance
            if isinstance(command, Speak):
                self._shares[ident] = share
                self._waiting.setdefault(share, {})[ident] = _Waiter(now, [command])
            elif isinstance(command, Cancel):
                if not self.waits(ident):
                    through.append(command)
                self.leave(ident, now)
            elif self.waits(ident):
                self._waiting[self._shares[ident]][ident].commands.append(command)
            else:
                through.append(command)
        return through

    def release(self, now: float) -> list[Command]:
        """The commands of everybody who gets a slot."""
        released: list[Command] = []
        while self._waiting and len(self._speaking) < self.slots + AHEAD:
            share = min(self._waiting, key=lambda s: (self._speakers[s], self._served.get(s, 0)))
            ident = next(iter(self._waiting[share]))
            waiter = self._drop(ident)
            self._speaking[ident] = share
            self._speakers[share] += 1
            self._waited[ident] = now - waiter.since
            self._turns += 1
            self._served[share] = self._turns
            released += waiter.commands
        return released

    def leave(self, utterance: int, now: float) -> None:
        """An utterance has ended, wherever it was."""
        if self.waits(utterance):
            self._drop(utterance)
        elif (share := self._speaking.pop(utterance, None)) is not None:
            del self._waited[utterance]
            self._speakers[share] -= 1
            if not self._speakers[share]:
                del self._speakers[share]
            if not self.live(share):
                self._served.pop(share, None)
            self._clock(now)

    def yields(self, share: str) -> int:
        """Who makes room for an utterance of `share` in a full line; 0: nobody."""
        if not self._waiting:
            return 0
        greatest = max(self._waiting, key=self.live)
        if self.live(greatest) <= self.live(share) + 1:
            return 0
        return next(reversed(self._waiting[greatest]))

    def places(self) -> dict[int, int]:
        """The place of everybody who waits, if nobody comes and nobody who speaks ends first."""
        ahead = list(self._speaking)[self.slots :]  # in the engine's own line
        places = {ident: place for place, ident in enumerate(ahead, 1)}
        turn = self._turns
        heap = [(self._speakers[s], self._served.get(s, 0), s) for s in self._waiting]
        lines = {share: iter(waiters) for share, waiters in self._waiting.items()}
        heapq.heapify(heap)
        while heap:
            count, _, share = heapq.heappop(heap)
            if ident := next(lines[share], 0):
                turn += 1
                places[ident] = len(places) + 1
                heapq.heappush(heap, (count + 1, turn, share))
        return places

    def retry_ms(self) -> int:
        """When to come again: one freed slot later for each who was told so since the last."""
        self._told += 1
        wait = self._pace * 1000 * self._told if self._pace else RETRY_MS
        return round(min(max(wait, SHORTEST_MS), LONGEST_MS))

    def _clock(self, now: float) -> None:
        """Note how fast slots come free; while some were free the interval says nothing."""
        if not self.waiting and len(self._speaking) + 1 < self.slots:
            self._freed_at = -1.0
        else:
            if self._freed_at >= 0:
                gap = now - self._freed_at
                self._pace += (gap - self._pace) * (WEIGHT if self._pace else 1)
            self._freed_at = now
        self._told = 0

    def _drop(self, utterance: int) -> _Waiter:
        share = self._shares.pop(utterance)
        waiter = self._waiting[share].pop(utterance)
        if not self._waiting[share]:
            del self._waiting[share]
        return waiter
