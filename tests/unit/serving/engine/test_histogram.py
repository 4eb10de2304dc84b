from __future__ import annotations

import pytest
from dragoman_serving.engine.histogram import BOUNDS_S, Histogram


def test_a_bound_belongs_to_its_bucket() -> None:
    """The bucket in the sense of Prometheus' label `le`."""
    assert list(BOUNDS_S) == sorted(set(BOUNDS_S))
    histogram = Histogram()
    times_s = [0.0, BOUNDS_S[0], BOUNDS_S[0] * 1.01, BOUNDS_S[-1], BOUNDS_S[-1] * 1.01, 1e9]
    for time_s in times_s:
        histogram.observe(time_s)
    expected = [0] * (len(BOUNDS_S) + 1)
    expected[0], expected[1], expected[-2], expected[-1] = 2, 1, 1, 2
    assert histogram.counts == expected
    assert histogram.sum_s == pytest.approx(sum(times_s))
