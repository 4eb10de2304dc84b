"""Latencies in a histogram that can be sent, merged and asked for percentiles.

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
    """Percentiles in milliseconds; all zero where nothing was recorded."""

    p50_ms: float
    p90_ms: float
    p95_ms: float
    p99_ms: float
    p99_9_ms: float
    max_ms: float


class LatencyHistogram:
    """Latencies from a microsecond to an hour, to three digits unless told otherwise."""

    def __init__(self, digits: int = _DIGITS) -> None:
        """An empty histogram, of 190 KiB with three digits and of 24 KiB with two."""
        self._histogram = HdrHistogram(1, _MOST_US, digits)

    def __len__(self) -> int:
        """How many latencies it holds."""
        return int(self._histogram.total_count)

    def record(self, latency_s: float) -> None:
        """Add a latency; one that lies outside counts as the nearest that does not."""
        self._histogram.record_value(min(max(round(1e6 * latency_s), 1), _MOST_US))

    def clear(self) -> None:
        """Forget all of them."""
        self._histogram.reset()

    def encode(self) -> str:
        """The histogram as text."""
        encoded: bytes = self._histogram.encode()
        return encoded.decode("ascii")

    @classmethod
    def merge(cls, encoded: Iterable[str]) -> LatencyHistogram:
        """One histogram of several encoded ones.

        Raises:
            ValueError: one of them is damaged.
        """
        merged = cls()
        for one in encoded:
            try:
                merged._histogram.decode_and_add(one.encode("ascii"))
            except Exception as error:  # the library's errors have no base of their own
                raise ValueError(f"not a histogram of latencies: {error!r}") from error
        return merged

    def percentile_ms(self, percentile: float) -> float:
        """The latency that so many percent do not pass; 0 where nothing was recorded."""
        return float(self._histogram.get_value_at_percentile(percentile)) / 1000

    def share_within(self, latency_ms: float) -> float:
        """Which part of the latencies is at most so long; 1 where nothing was recorded."""
        limit_us = 1000 * latency_ms
        within = sum(
            item.count_added_in_this_iter_step
            for item in self._histogram.get_recorded_iterator()
            # Of all that the histogram holds to be the same, the longest.
            if item.value_iterated_to <= self._longest_like(limit_us)
        )
        return float(within) / len(self) if len(self) else 1.0

    def curve(self) -> Iterator[tuple[float, float]]:
        """Percentiles with their latencies in milliseconds, ever denser towards 100."""
        for item in self._histogram.get_percentile_iterator(5):
            yield float(item.percentile_level_iterated_to), float(item.value_iterated_to) / 1000

    def summary(self) -> Latency:
        """The percentiles that are reported."""
        return Latency(*map(self.percentile_ms, (50, 90, 95, 99, 99.9, 100)))

    def _longest_like(self, value_us: float) -> int:
        bounded = min(max(int(value_us), 1), _MOST_US)
        return int(self._histogram.get_highest_equivalent_value(bounded))
