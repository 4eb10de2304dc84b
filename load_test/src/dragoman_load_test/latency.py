"""A histogram of latencies that can be encoded and merged, and gives percentiles.

Source: https://github.com/HdrHistogram/HdrHistogram_py
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hdrh.histogram import HdrHistogram

_MOST_US = 3_600_000_000
_DIGITS = 3


@dataclass(frozen=True)
class Latency:
    """Percentiles in milliseconds; all zero if nothing was recorded."""

    p50_ms: float
    p90_ms: float
    p95_ms: float
    p99_ms: float
    p99_9_ms: float
    max_ms: float


class LatencyHistogram:
    """Latencies from a microsecond to an hour, by default to three significant digits."""

    def __init__(self, digits: int = _DIGITS) -> None:
        """Make an empty histogram; it takes 190 KiB with three digits and 24 KiB with two."""
        self._histogram = HdrHistogram(1, _MOST_US, digits)

    def __len__(self) -> int:
        """Number of recorded latencies."""
        return int(self._histogram.total_count)

    def record(self, latency_s: float) -> None:
        """Add a latency; values out of range are clipped."""
        self._histogram.record_value(min(max(round(1e6 * latency_s), 1), _MOST_US))

    def clear(self) -> None:
        """Remove all latencies."""
        self._histogram.reset()

    def encode(self) -> str:
        """Returns the histogram as text."""
        encoded: bytes = self._histogram.encode()
        return encoded.decode("ascii")

    @classmethod
    def merge(cls, encoded: Iterable[str]) -> LatencyHistogram:
        """Merge encoded histograms into one.

        Raises:
            ValueError: a histogram is malformed.
        """
        merged = cls()
        for histogram in encoded:
            try:
                merged._histogram.decode_and_add(histogram.encode("ascii"))
            except Exception as error:  # the library's errors have no common base class
                raise ValueError(f"not a histogram of latencies: {error!r}") from error
        return merged

    def percentile_ms(self, percentile: float) -> float:
        """Returns the latency at a percentile; 0 if nothing was recorded."""
        return float(self._histogram.get_value_at_percentile(percentile)) / 1000

    def share_within(self, latency_ms: float) -> float:
        """Returns the share of latencies up to a limit; 1 if nothing was recorded."""
        limit_us = 1000 * latency_ms
        within = sum(
            item.count_added_in_this_iter_step
            for item in self._histogram.get_recorded_iterator()
            # The histogram cannot distinguish latencies up to this one.
            if item.value_iterated_to <= self._longest_like(limit_us)
        )
        return float(within) / len(self) if len(self) else 1.0

    def curve(self) -> Iterator[tuple[float, float]]:
        """Yields percentiles with their latencies in milliseconds, more densely towards 100."""
        for item in self._histogram.get_percentile_iterator(5):
            yield float(item.percentile_level_iterated_to), float(item.value_iterated_to) / 1000

    def summary(self) -> Latency:
        """Returns the percentiles of reports."""
        return Latency(*map(self.percentile_ms, (50, 90, 95, 99, 99.9, 100)))

    def _longest_like(self, value_us: float) -> int:
        bounded = min(max(int(value_us), 1), _MOST_US)
        return int(self._histogram.get_highest_equivalent_value(bounded))
