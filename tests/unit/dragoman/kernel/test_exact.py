from __future__ import annotations

import pytest

from dragoman.kernel.exact import power


@pytest.mark.parametrize("exponent", [0.0, 0.6, 1.0, 1.5, -2.0])
def test_powers_equal_those_of_libm(exponent: float) -> None:
    for base in (1e-3, 0.5, 1.0, 7 / 6, 1.4142, 2.0, 325 / 6, 1e5):
        assert power(base, exponent) == pytest.approx(base**exponent, rel=1e-14)
