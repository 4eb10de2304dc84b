"""Histograms of times, with buckets as in Prometheus."""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field

BOUNDS_S = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
"""Inclusive upper bounds of the buckets; one more bucket has no bound."""


@dataclass
class Histogram:
    """Counts of times, in seconds, by bucket."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    """Counts by bucket, not cumulative; the last bucket is above all of `BOUNDS_S`."""
    sum_s: float = 0.0

    def observe(self, time_s: float) -> None:
        """Count a time."""
        self.counts[bisect.bisect_left(BOUNDS_S, time_s)] += 1
        self.sum_s += time_s
