from __future__ import annotations

import math

import pytest

from dragoman.kernel.positions import sinusoidal_positions


def test_positions_equal_the_papers() -> None:
    assert sinusoidal_positions(9, 6).shape == (9, 6)
    table = sinusoidal_positions(50, 8)
    angle = 37.0 / 10000 ** (4 / 8)
    assert table[37, 4] == pytest.approx(math.sin(angle))
    assert table[37, 5] == pytest.approx(math.cos(angle))
    assert table[0].tolist() == [0.0, 1.0] * 4


def test_inclusive_rates_end_at_one_ten_thousandth() -> None:
    table = sinusoidal_positions(50, 8, "inclusive")
    for pair, rate in enumerate([1.0, 10000 ** (-1 / 3), 10000 ** (-2 / 3), 1e-4]):
        assert table[37, 2 * pair] == pytest.approx(math.sin(37 * rate))
        assert table[37, 2 * pair + 1] == pytest.approx(math.cos(37 * rate))
    assert sinusoidal_positions(2, 2, "inclusive")[1].tolist() == pytest.approx(
        [math.sin(1.0), math.cos(1.0)]
    )
