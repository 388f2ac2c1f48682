"""How much speech the listener still has. Seconds; the clock is an argument."""

from __future__ import annotations


class Playback:
    """Speech made against speech played. Once the client reports what it has played, its word alone
    says how far ahead of it we are; between reports the clock guesses what it still hears.
    """

    def __init__(self) -> None:
        self.made = 0.0
        self._reported: float | None = None
        self._played = 0.0  # at `_at`
        self._at = 0.0

    def restore(self, seconds: float, now: float) -> None:
        """So much was made before; the listener has run dry."""
        self.made = self._played = seconds
        self._at = now

    def add(self, seconds: float, now: float) -> None:
        """Speech arrives; after a dry spell the listener starts again now."""
        if self.lead(now) <= 0:
            self._played, self._at = self.made, now
        self.made += seconds

    def report(self, played: float, now: float) -> None:
        """Less than the last report, or more than was made, is taken as that."""
        self._reported = max(self._reported or 0.0, min(played, self.made))
        self._played, self._at = self._reported, now

    def lead(self, now: float) -> float:
        """Seconds still to be heard; 0 when the listener has run dry."""
        return max(0.0, self.made - self._played - (now - self._at))

    def ahead(self, now: float) -> float:
        """Seconds not known to be played: those of a player that stands still stay."""
        return self.lead(now) if self._reported is None else self.made - self._reported
