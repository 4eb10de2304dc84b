from __future__ import annotations

import math

import numpy as np
import pytest

from dragoman.kernel.exact import power
from dragoman.kernel.positions import sinusoidal_positions


@pytest.mark.parametrize("exponent", [0.0, 0.6, 1.0, 1.5, -2.0])
def test_powers_equal_those_of_libm(exponent: float) -> None:
    for base in (1e-3, 0.5, 1.0, 7 / 6, 1.4142, 2.0, 325 / 6, 1e5):
        assert power(base, exponent) == pytest.approx(base**exponent, rel=1e-14)


def test_positions_equal_those_of_numpy() -> None:
    length, model_size = 400, 96
    frequency = np.exp(-math.log(10_000) * np.arange(0, model_size, 2) / model_size)
    angle = np.arange(length)[:, None] * frequency
    right = np.stack([np.sin(angle), np.cos(angle)], axis=2).reshape(length, model_size)
    assert sinusoidal_positions(length, model_size) == pytest.approx(right, abs=1e-7)
