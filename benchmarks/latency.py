"""Latencies in a histogram that can be sent, merged and asked for percentiles.

Knows HdrHistogram; must not know where the latencies come from.

Source: https://github.com/HdrHistogram/HdrHistogram_py
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]

_MOST_US = 3_600_000_000
_DIGITS = 3


@dataclass(frozen=True)
class Latency:
    """Percentiles in milliseconds; all zero where nothing was recorded."""

    p50_ms: float
    p90_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float


class LatencyHistogram:
    """Latencies from a microsecond to an hour, to three digits."""

    def __init__(self) -> None:
        """An empty histogram."""
        self._histogram = HdrHistogram(1, _MOST_US, _DIGITS)

    def record(self, latency_s: float) -> None:
        """Add a latency; one that lies outside counts as the nearest that does not."""
        self._histogram.record_value(min(max(round(1e6 * latency_s), 1), _MOST_US))

    def encode(self) -> str:
        """The histogram as text."""
        encoded: bytes = self._histogram.encode()
        return encoded.decode("ascii")

    @classmethod
    def merge(cls, encoded: Iterable[str]) -> LatencyHistogram:
        """One histogram of several encoded ones."""
        merged = cls()
        for one in encoded:
            merged._histogram.decode_and_add(one.encode("ascii"))
        return merged

    def summary(self) -> Latency:
        """The percentiles that are reported."""
        at = self._histogram.get_value_at_percentile
        return Latency(*(at(percentile) / 1000 for percentile in (50, 90, 95, 99, 100)))
