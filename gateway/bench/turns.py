"""What clients do: when they come, what they say and how fast, and how it ends. PURE.

Chance is an argument: one seed, one crowd.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

WHOLE, CANCEL, DROP, STALL = "whole", "cancel", "drop", "stall"
STRIKES = (0.2, 3.0)  # seconds of audio heard when a client cancels, drops or stalls

VOICES = (
    "A calm, friendly voice.",
    "A young woman, bright and quick.",
    "An old man, slow and warm, with a low voice.",
    "A news reader, clear and neutral.",
)
CORPUS = (
    "Sure, I can help you with that.",
    "The next train to the coast leaves at a quarter past nine, from the far platform.",
    "Your order has left the warehouse this morning and should be with you by Thursday.",
    "Let me look that up for you.",
    "In short, the answer is yes, but there are two things you should know before you decide.",
    "It will rain in the afternoon, so take a coat along.",
    "I have moved your appointment to next Tuesday and told everybody who was invited.",
    "Good question!",
    "First the flour, then the butter, and only at the very end a pinch of salt.",
    "The museum is closed on Mondays, though the garden behind it stays open all week.",
    "Would you like me to read the rest of the message, or shall we leave it for later?",
    "That did not work, so I will try it once more in another way.",
)

_DELTA = re.compile(r"\s*\S+")


@dataclass(frozen=True)
class Habits:
    """Shares are of all turns; the others are spoken to their end."""

    cancel: float = 0.0
    drop: float = 0.0
    stall: float = 0.0
    words_per_second: float = 20.0  # of the language model; 0: the whole text at once
    pause: float = 1.0  # seconds between two turns of one client, mean
    sentences: int = 3  # of one turn, at most


@dataclass(frozen=True)
class Turn:
    pause: float  # seconds before it
    voice: str
    deltas: tuple[tuple[float, str], ...]  # seconds to wait, text
    fate: str
    strike: float  # seconds of audio until the fate

    @property
    def text(self) -> str:
        return "".join(text for _, text in self.deltas)


def arrivals(random: Random, clients: int, seconds: float) -> list[float]:
    """Moments at which the clients come, a Poisson process: all within about `seconds`."""
    moments, now = [0.0], 0.0
    for _ in range(clients - 1):
        now += random.expovariate(clients / seconds) if seconds else 0.0
        moments.append(now)
    return moments[:clients]


def turns(random: Random, habits: Habits) -> Iterator[Turn]:
    """One client's, without end."""
    shares = {CANCEL: habits.cancel, DROP: habits.drop, STALL: habits.stall}
    fates, weights = [*shares, WHOLE], [*shares.values(), max(0.0, 1 - sum(shares.values()))]
    voice, pace = random.choice(VOICES), habits.words_per_second
    while True:
        text = " ".join(random.sample(CORPUS, random.randint(1, habits.sentences)))
        words = _DELTA.findall(text) if pace else [text]
        yield Turn(
            random.expovariate(1 / habits.pause) if habits.pause else 0.0,
            voice,
            tuple((random.expovariate(pace) if pace else 0.0, word) for word in words),
            random.choices(fates, weights)[0],
            random.uniform(*STRIKES),
        )
