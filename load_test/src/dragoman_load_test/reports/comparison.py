"""Compares two load tests, and tells differences from noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dragoman_load_test.confidence import Estimate, difference
from dragoman_load_test.results import Point, Run, Window


@dataclass(frozen=True)
class Difference:
    """One metric of one load, in both runs.

    Attributes:
        load: name of the load.
        figure: name of the metric, with its unit.
        before: mean over the windows of the first run.
        after: mean over the windows of the second run.
        change: the change with its confidence interval, in the unit of the metric.
        more_is_better: whether an increase is good.
    """

    load: str
    figure: str
    before: float
    after: float
    change: Estimate
    more_is_better: bool

    @property
    def relative(self) -> float:
        """The change divided by the first run's mean."""
        return self.change.mean / self.before if self.before else math.inf

    @property
    def beyond_noise(self) -> bool:
        """Whether the interval excludes zero."""
        return not self.change.low <= 0 <= self.change.high

    @property
    def verdict(self) -> str:
        """The result in words."""
        if not self.beyond_noise:
            return "within noise"
        return "better" if (self.change.mean > 0) == self.more_is_better else "worse"


@dataclass(frozen=True)
class Comparison:
    """Two runs, compared by the loads that they share."""

    names: tuple[str, str]
    before: Run
    after: Run

    @property
    def pairs(self) -> list[tuple[Point, Point]]:
        """Points of both runs with the same load and batch size."""
        others = {(point.load, point.batch_size): point for point in self.after.points}
        return [
            (point, others[point.load, point.batch_size])
            for point in self.before.points
            if (point.load, point.batch_size) in others
        ]

    def differences(self) -> Iterator[Difference]:
        """Yield the differences of throughput, percentiles and errors, for each load."""
        for before, after in self.pairs:
            load = before.load + (
                f", batches of {before.batch_size}" if before.batch_size > 1 else ""
            )
            for name, of, more_is_better in _FIGURES:
                first, second = _values(before, of), _values(after, of)
                if first and second:
                    yield Difference(
                        load,
                        name,
                        sum(first) / len(first),
                        sum(second) / len(second),
                        difference(first, second),
                        more_is_better,
                    )

    def unlike(self) -> list[str]:
        """Returns, in words, the differences between the runs other than the server."""
        same = {
            "protocol": (self.before.protocol, self.after.protocol),
            "texts": (self.before.texts.sha256[:12], self.after.texts.sha256[:12]),
            "options": (dict(self.before.options), dict(self.after.options)),
            "machine": (self.before.machine, self.after.machine),
            "windows": (f"{self.before.window_s:g} s", f"{self.after.window_s:g} s"),
        }
        return [f"{name}: {a} and {b}" for name, (a, b) in same.items() if a != b]


def _percentile(percentile: float) -> Callable[[Window], float | None]:
    """Returns a function for a percentile of a window; None if nothing was answered."""
    return lambda window: (
        window.histogram.percentile_ms(percentile) if len(window.histogram) else None
    )


def _errors_percent(window: Window) -> float:
    return 100 * sum(window.errors.values()) / max(1, window.requests)


def _values(point: Point, of: Callable[[Window], float | None]) -> list[float]:
    values = (of(window) for window in point.windows)
    return [value for value in values if value is not None]


_FIGURES: tuple[tuple[str, Callable[[Window], float | None], bool], ...] = (
    ("sentences/s", lambda window: window.sentences_per_s, True),
    ("p50, ms", _percentile(50), False),
    ("p90, ms", _percentile(90), False),
    ("p99, ms", _percentile(99), False),
    ("errors, %", _errors_percent, False),
)
