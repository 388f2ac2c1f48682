"""When each word of a segment is heard. PURE.

Known exactly: where a segment begins, and once it is over, where it ends. Inside, speech time is
shared out by syllables; pauses found in the sound are laid upon the punctuation that made them.
Times are steps of 10 ms from the segment's first sample.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from .syllables import Word

STEP = 0.01  # seconds
RATE = 0.048  # syllables a step, of a voice not heard yet
BELOW = 24  # dB under loud speech: silence
FLOOR = 45  # in levels' own dB (100 is full scale): never louder than this is silence
UNHEARD = 255  # a level that nobody knows: speech
SHORTEST = 9  # steps of a pause
TRUST = 12.0  # syllables: how much of its own speech outweighs the rate of before


@dataclass(frozen=True)
class Pause:
    start: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.start


class Sound:
    """What a segment's levels say: pauses, and the steps that are speech."""

    def __init__(self, levels: bytes, ended: bool) -> None:
        """`levels`: 10 ms each, as in Audio. Silence at the end is a pause unless it `ended`."""
        self.length = len(levels)
        known = sorted(level for level in levels if level != UNHEARD)
        loud = known[int(0.95 * len(known))] if known else 0
        threshold = max(loud - BELOW, FLOOR)
        self.begin = next((i for i, level in enumerate(levels) if level >= threshold), self.length)
        self.pauses: list[Pause] = []
        quiet = 0
        for i in range(self.begin, self.length):
            if levels[i] < threshold:
                quiet += 1
                continue
            if quiet >= SHORTEST:
                self.pauses.append(Pause(i - quiet, i))
            quiet = 0
        self.end = self.length  # of speech, or of the sound so far
        if quiet >= SHORTEST and ended:
            self.end -= quiet
        elif quiet >= SHORTEST:
            self.pauses.append(Pause(self.end - quiet, self.end))

    def spoken(self, at: float) -> float:
        """Steps of speech before `at`."""
        silent = sum(min(p.end, at) - p.start for p in self.pauses if p.start < at)
        return max(0.0, min(at, self.end) - self.begin - silent)

    def when(self, spoken: float, late: bool) -> float:
        """The step at which `spoken` steps of speech are over; at a pause its end if `late`."""
        at = self.begin + spoken
        for p in self.pauses:
            if at < p.start or (at == p.start and not late):
                break
            at += p.length
        return at


@dataclass(frozen=True)
class Timed:
    """The words' times, and the rate of speech that they show, in syllables a step."""

    starts: list[float]
    ends: list[float]
    rate: float


def align(words: Sequence[Word], levels: bytes, ended: bool, rate: float) -> Timed:
    """Times of `words`. Not `ended`: the sound so far, and `rate` is what to expect of the rest."""
    sound = Sound(levels, ended)
    done = [0.0]  # syllables before each word
    for word in words:
        done.append(done[-1] + word.weight)
    total, speech = done[-1], float(sound.spoken(sound.length))
    if ended and total and speech:
        rate = total / speech
    anchors: list[tuple[float, float]] = []
    for _ in range(1 if ended else 3):
        anchors = _anchors(words, done, sound, rate)
        if not ended and anchors:
            syllables, steps = anchors[-1]
            rate = (syllables + TRUST) / (steps + TRUST / rate)
    points = [(0.0, 0.0), *anchors]
    points.append(
        (total, speech) if ended else (total, points[-1][1] + (total - points[-1][0]) / rate)
    )
    starts = [sound.when(_between(points, a), late=True) for a in done[:-1]]
    ends = [sound.when(_between(points, b), late=False) for b in done[1:]]
    return Timed(starts, ends, rate)


def _anchors(
    words: Sequence[Word], done: list[float], sound: Sound, rate: float
) -> list[tuple[float, float]]:
    """(syllables, steps of speech) where a pause was found for the punctuation behind a word.

    The cheapest order-keeping match: a pair costs the distance from where the rate puts it, a long
    pause or a full stop left alone costs too.
    """
    marks = [(done[i + 1], w.pause) for i, w in enumerate(words[:-1]) if w.pause]
    holes = [(sound.spoken(p.start), p.length) for p in sound.pauses]
    costs = [[0.0] * (len(holes) + 1) for _ in range(len(marks) + 1)]
    moves = [[0] * (len(holes) + 1) for _ in range(len(marks) + 1)]
    for j, (_, length) in enumerate(holes):
        costs[0][j + 1] = costs[0][j] + _lonely_hole(length)
        moves[0][j + 1] = 2
    last = sound.spoken(sound.length) * rate
    for i, (syllables, weight) in enumerate(marks):
        lonely = 0.0 if syllables > last else 1.2 * weight
        costs[i + 1][0], moves[i + 1][0] = costs[i][0] + lonely, 1
        for j, (steps, length) in enumerate(holes):
            apart = abs(steps * rate - syllables) / (1.0 + 0.06 * syllables)
            choices = (
                (costs[i][j] + apart - min(length, 50) * 0.02 * weight, 0),
                (costs[i][j + 1] + lonely, 1),
                (costs[i + 1][j] + _lonely_hole(length), 2),
            )
            costs[i + 1][j + 1], moves[i + 1][j + 1] = min(choices)
    found: list[tuple[float, float]] = []
    i, j = len(marks), len(holes)
    while i or j:
        move = moves[i][j]
        if move == 0:
            found.append((marks[i - 1][0], holes[j - 1][0]))
        i, j = i - (move != 2), j - (move != 1)
    return found[::-1]


def _lonely_hole(length: int) -> float:
    return 0.04 * max(0, length - SHORTEST)


def _between(points: list[tuple[float, float]], syllables: float) -> float:
    i = min(max(1, bisect_right(points, (syllables, float("inf")))), len(points) - 1)
    (a, x), (b, y) = points[i - 1], points[i]
    return y if b <= a else x + (syllables - a) * (y - x) / (b - a)
