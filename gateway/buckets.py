"""A histogram for what comes with every frame: plain integers, made Prometheus' own when it asks.
PURE.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate


class Buckets:
    def __init__(self, bounds: tuple[float, ...]) -> None:
        """`bounds`: the upper ends of the buckets, included; one without an end comes behind."""
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def cumulative(self) -> list[tuple[str, float]]:
        """Each bucket's end, and how many values do not pass it."""
        ends = [*(str(float(b)) for b in self._bounds), "+Inf"]
        return list(zip(ends, accumulate(self._counts), strict=True))
