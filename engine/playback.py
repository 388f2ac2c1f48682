"""How much speech the listener still has. Seconds; the clock is an argument."""

from __future__ import annotations


class Playback:
    """Speech made against speech played: by the clock, or by the client's own reports once it sends
    them.
    """

    def __init__(self) -> None:
        self.made = 0.0
        self._played = 0.0  # at `_at`
        self._at = 0.0

    def add(self, seconds: float, now: float) -> None:
        """Speech arrives; after a dry spell the listener starts again now."""
        if self.lead(now) <= 0:
            self._played, self._at = self.made, now
        self.made += seconds

    def report(self, played: float, now: float) -> None:
        self._played, self._at = min(played, self.made), now

    def lead(self, now: float) -> float:
        """Seconds still to be heard; 0 when the listener has run dry."""
        return max(0.0, self.made - self._played - (now - self._at))
