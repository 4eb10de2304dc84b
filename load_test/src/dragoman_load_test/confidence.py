"""Confidence intervals of repeated measurements.

Source: W. S. Gosset ("Student"), "The Probable Error of a Mean", Biometrika 6 (1908); for two
samples B. L. Welch, "The generalization of Student's problem", Biometrika 34 (1947).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

_T_97_5 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""Student's t at 97.5 % for 1 to 30 degrees of freedom."""


@dataclass(frozen=True)
class Estimate:
    """A mean with the half width of its 95 % confidence interval.

    `half_width` is infinite for a single measurement.
    """

    mean: float
    half_width: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate:
        """Estimate the mean of at least one value."""
        mean = statistics.fmean(values)
        if len(values) < 2:
            return cls(mean, math.inf)
        error = statistics.stdev(values) / math.sqrt(len(values))
        return cls(mean, _t(len(values) - 1) * error)

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return self.mean + self.half_width

    @property
    def relative(self) -> float:
        """The half width divided by the mean."""
        return self.half_width / abs(self.mean) if self.mean else math.inf


def difference(before: Sequence[float], after: Sequence[float]) -> Estimate:
    """Estimate how much larger the mean of the second sample is, with Welch's interval."""
    delta = statistics.fmean(after) - statistics.fmean(before)
    if min(len(before), len(after)) < 2:
        return Estimate(delta, math.inf)
    parts = [statistics.variance(sample) / len(sample) for sample in (before, after)]
    whole = sum(parts)
    if not whole:
        return Estimate(delta, 0.0)
    sizes = (len(before), len(after))
    below = sum(part**2 / (size - 1) for part, size in zip(parts, sizes, strict=True))
    freedom = max(1, math.floor(whole**2 / below))
    return Estimate(delta, _t(freedom) * math.sqrt(whole))


def drift(values: Sequence[float]) -> float:
    """The mean of the last half of the values minus that of the first half, over their mean."""
    half = len(values) // 2
    mean = statistics.fmean(values) if values else 0.0
    if not half or not mean:
        return 0.0
    return (statistics.fmean(values[-half:]) - statistics.fmean(values[:half])) / mean


def format_estimate(estimate: Estimate) -> str:
    """Format a mean with its interval, if it has one."""
    spread = f" ± {estimate.half_width:.1f}" if math.isfinite(estimate.half_width) else ""
    return f"{estimate.mean:.1f}{spread}"


def format_change(change: Estimate, before: float) -> str:
    """Format a change with its interval, in per cent of the value before."""
    if not before:
        return f"{change.mean:+.1f}"
    spread = f" ± {change.half_width / before:.1%}" if math.isfinite(change.half_width) else ""
    return f"{change.mean / before:+.1%}{spread}"


def _t(freedom: int) -> float:
    return _T_97_5[min(freedom, len(_T_97_5)) - 1]
