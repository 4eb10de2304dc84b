"""Service level objectives (SLOs), and whether a load test met them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from dragoman_load_test.latency import LatencyHistogram
from dragoman_load_test.results import Judgement, Point

_FORM = re.compile(
    r"(?P<first>first-)?p(?P<percentile>\d{1,2}(\.\d+)?)=(?P<time>\d+(\.\d+)?)(?P<unit>ms|s)"
    r"|errors=(?P<errors>\d+(\.\d+)?)%"
    r"|sentences=(?P<sentences>\d+(\.\d+)?)/s"
)
FORMS = "p99=300ms, first-p95=0.1s (the first part of a stream), errors=0.1%, sentences=200/s"
"""Examples of objectives, for messages."""

Measure = Literal["latency", "first part", "errors", "sentences"]


@dataclass(frozen=True)
class Objective:
    """An objective: a bound on a measure.

    A request without an answer counts as slower than any latency bound. Other errors are not
    limited without an objective for them.

    Attributes:
        text: the objective as written.
        measure: the measure that is bounded.
        bound: milliseconds, a share, or sentences per second.
        percentile: percentile of a latency.
    """

    text: str
    measure: Measure
    bound: float
    percentile: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Objective:
        """Parse an objective.

        Raises:
            ValueError: the text is not an objective.
        """
        match = _FORM.fullmatch(text)
        if match is None:
            raise ValueError(f"objective {text!r}: write it like {FORMS}")
        if match["errors"]:
            return cls(text, "errors", float(match["errors"]) / 100)
        if match["sentences"]:
            return cls(text, "sentences", float(match["sentences"]))
        bound_ms = float(match["time"]) * (1000 if match["unit"] == "s" else 1)
        percentile = float(match["percentile"])
        if not bound_ms or not percentile:
            raise ValueError(f"objective {text!r}: percentile and time must be more than 0")
        measure: Measure = "first part" if match["first"] else "latency"
        return cls(text, measure, bound_ms, percentile)

    def judge(self, point: Point) -> Judgement:
        """Returns whether a load met the objective."""
        measured, met = self._found(point)
        return Judgement(self.text, point.load, measured, met)

    def _found(self, point: Point) -> tuple[str, bool]:
        if self.measure == "errors":
            errors = point.errors.total() / max(1, point.requests)
            return f"errors={errors:.2%}", errors <= self.bound
        if self.measure == "sentences":
            rate = point.sentences_per_s.mean
            return f"sentences={rate:.1f}/s", rate >= self.bound
        latencies = point.latencies if self.measure == "latency" else point.first_parts
        return self._within(latencies, point.requests)

    def _within(self, latencies: LatencyHistogram, requests: int) -> tuple[str, bool]:
        if not requests or not len(latencies):
            return "no answers", False
        share = latencies.share_within(self.bound) * len(latencies) / max(requests, len(latencies))
        measured_ms = latencies.percentile_ms(self.percentile)
        name = self.text.partition("=")[0]
        measured = f"{name}={measured_ms:.1f}ms"
        if len(latencies) < requests:
            measured += (
                f", and {requests - len(latencies)} of {requests} requests without an answer"
            )
        return measured, share >= self.percentile / 100
