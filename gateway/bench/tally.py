"""What all clients heard, and its quantiles. PURE."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

POINTS = (50, 95, 99)


@dataclass
class Tally:
    """Times are seconds at the clients' one clock."""

    connects: list[float] = field(default_factory=list)  # from the call to `ready`
    ttfa: list[float] = field(default_factory=list)  # from the first text sent
    gaps: list[float] = field(default_factory=list)  # silences heard
    text_waits: list[float] = field(default_factory=list)  # of each utterance, the server's word
    cancels: list[float] = field(default_factory=list)  # from `cancel` sent to its `done`
    turns: Counter[str] = field(default_factory=Counter)  # by what the client did
    ends: Counter[str] = field(default_factory=Counter)  # by the `done`'s reason; "dropped" by us
    errors: Counter[str] = field(default_factory=Counter)  # by code
    wrong: Counter[str] = field(default_factory=Counter)  # what the protocol forbids
    listened: int = 0  # utterances whose gaps were counted
    broken: int = 0  # of those, with a gap
    audio: float = 0.0  # seconds received
    messages: int = 0
    late: float = 0.0  # the generator's own worst lateness

    def summary(self, seconds: float) -> dict[str, Any]:
        """As one flat object for scripts; times in milliseconds unless a name says seconds."""
        return {
            "seconds": round(seconds, 2),
            "turns": dict(sorted(self.turns.items())),
            "ends": dict(sorted(self.ends.items())),
            "errors": dict(sorted(self.errors.items())),
            "wrong": dict(sorted(self.wrong.items())),
            "connect_ms": _quantiles(self.connects),
            "ttfa_ms": _quantiles(self.ttfa),
            "cancel_ms": _quantiles(self.cancels),
            "text_wait_ms": _quantiles(self.text_waits),
            "gaps": {
                "count": len(self.gaps),
                "utterances": self.listened,
                "utterances_with": self.broken,
                "seconds": round(sum(self.gaps), 3),
                "longest_ms": round(max(self.gaps, default=0.0) * 1000, 1),
            },
            "audio_seconds": round(self.audio, 2),
            "speaking_mean": round(self.audio / seconds, 2),
            "messages_per_second": round(self.messages / seconds, 1),
            "generator_late_ms": round(self.late * 1000, 1),
        }


def quantile(values: Sequence[float], percent: float) -> float:
    """The smallest of `values` that at least `percent` of them do not pass."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def _quantiles(values: Sequence[float]) -> dict[str, float] | None:
    if not values:
        return None
    return {f"p{p}": round(quantile(values, p) * 1000, 2) for p in POINTS}
