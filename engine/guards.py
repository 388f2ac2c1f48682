"""Stops for a talker that does not end by itself (field reports F1, F2, F12). Knows codes and
levels, no audio.

A guard counts only once a segment's text is fed and about half of its expected length is spoken, so
that a pause inside speech is safe; it fires within two seconds of the state's start.
"""

from __future__ import annotations

import math
from collections import deque

from engine.text import speech_seconds

FRAMES_PER_SECOND = 12.5
RUN = 24  # frames (1.92 s) of silence or of one loop
LONGEST_LOOP = 4  # frames
SILENCE = 10 ** (-50 / 20)  # RMS of a frame, full scale 1
FLOOR = 50  # frames (4 s): the least budget, whatever the text


def budget(text: str) -> int:
    """Most frames that a segment with this text may take."""
    return most_frames(speech_seconds(text))


def most_frames(seconds: float) -> int:
    """Three times the expected length and a second, at least 4 s."""
    return max(FLOOR, math.ceil(FRAMES_PER_SECOND * (1 + 3 * seconds)))


class Guard:
    """One segment's watch. `observe` returns the finish reason when the segment must stop."""

    def __init__(self) -> None:
        self._silent = 0
        self._codes: deque[bytes] = deque(maxlen=RUN + LONGEST_LOOP)

    def observe(self, codes: bytes, level: float, frames: int, text: str, fed: bool) -> str | None:
        """`frames` made in this segment, its `text` so far and whether all of it is `fed` (and
        closed).
        """
        self._codes.append(codes)
        self._silent = self._silent + 1 if level < SILENCE else 0
        if not fed:
            return None
        if frames >= budget(text):
            return "length"
        if frames < FRAMES_PER_SECOND * speech_seconds(text) / 2:
            return None
        if self._silent >= RUN:
            return "guard_silence"
        return "guard_loop" if self._looping() else None

    def _looping(self) -> bool:
        codes = list(self._codes)
        return any(
            len(codes) >= RUN + period and codes[-RUN:] == codes[-RUN - period : -period]
            for period in range(1, LONGEST_LOOP + 1)
        )
