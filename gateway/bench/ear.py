"""Gaps as an ear hears them: a player with a jitter buffer. PURE."""

from __future__ import annotations

BUFFER = 0.1  # seconds


class Ear:
    """A player that starts `BUFFER` behind the first audio, skips nothing, and where it has run dry
    starts again `BUFFER` behind what comes next.
    """

    def __init__(self, rate: int) -> None:
        self.rate = rate  # samples a second
        self.gaps: list[float] = []  # seconds of silence
        self._dry_at = -1.0  # when it runs dry if nothing more comes

    def hear(self, samples: int, now: float) -> None:
        if self._dry_at < 0:
            self._dry_at = now + BUFFER
        elif now > self._dry_at:
            self.gaps.append(now + BUFFER - self._dry_at)
            self._dry_at = now + BUFFER
        self._dry_at += samples / self.rate
