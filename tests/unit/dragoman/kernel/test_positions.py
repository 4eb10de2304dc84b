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
