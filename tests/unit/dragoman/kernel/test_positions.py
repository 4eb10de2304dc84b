from __future__ import annotations

import math

import numpy as np
import pytest

from dragoman.kernel.positions import sinusoidal_positions


def test_positions_equal_the_papers() -> None:
    length, model_size = 400, 96
    frequency = np.exp(-math.log(10_000) * np.arange(0, model_size, 2) / model_size)
    angle = np.arange(length)[:, None] * frequency
    right = np.stack([np.sin(angle), np.cos(angle)], axis=2).reshape(length, model_size)
    assert sinusoidal_positions(length, model_size) == pytest.approx(right, abs=1e-7)


def test_inclusive_rates_end_at_one_ten_thousandth() -> None:
    table = sinusoidal_positions(50, 8, "inclusive")
    for pair, rate in enumerate([1.0, 10000 ** (-1 / 3), 10000 ** (-2 / 3), 1e-4]):
        assert table[37, 2 * pair] == pytest.approx(math.sin(37 * rate))
        assert table[37, 2 * pair + 1] == pytest.approx(math.cos(37 * rate))
    assert sinusoidal_positions(2, 2, "inclusive")[1].tolist() == pytest.approx(
        [math.sin(1.0), math.cos(1.0)]
    )
