"""Powers with the same result on every CPU and C library, as in `exact.h`.

They use only operations that IEEE 754 rounds in one defined way. The results are accurate to a few
units in the last place.
"""

from __future__ import annotations

import math

LN2 = (6.93147180369123816490e-01, 1.90821492927058770002e-10)
"""ln 2 in two parts. The first has 33 bits, so that its small multiples are exact."""
_SQRT_HALF = 0.7071067811865476


def power(base: float, exponent: float) -> float:
    """Returns a positive number to the power of another number."""
    return _exp(exponent * _log(base))


def _log(x: float) -> float:
    """The series of the inverse hyperbolic tangent."""
    m, n = math.frexp(x)
    if m < _SQRT_HALF:
        m, n = 2 * m, n - 1
    f = (m - 1.0) / (m + 1.0)
    square, total = f * f, 0.0
    for term in range(23, 2, -2):
        total = (total + 1.0 / term) * square
    return n * LN2[0] + (n * LN2[1] + (2.0 * f + 2.0 * f * total))


def _exp(x: float) -> float:
    """Taylor's series, and a power of two."""
    n = round(x / math.log(2))
    rest, total = (x - n * LN2[0]) - n * LN2[1], 1.0
    for term in range(14, 0, -1):
        total = 1.0 + total * rest / term
    return math.ldexp(total, n)
