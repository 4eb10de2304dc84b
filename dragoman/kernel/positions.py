"""Position encodings, identical in training, export and serving, and on every CPU.

The exponentials, sines and cosines of libraries differ in the last bit between CPUs. These use only
additions and multiplications, which are rounded in the same way everywhere.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt

from dragoman.kernel.exact import LN2

PositionRates = Literal["paper", "inclusive"]
"""Divisor of the exponent of the rates: E / 2, or E / 2 - 1, so that the last is exactly 1 / 10000.
"""
Doubles = npt.NDArray[np.float64]

_LOG_10000 = 9.210340371976184
_HALF_PI = (1.57079632673412561417e00, 6.07710050630396597660e-11, 2.02226624879595063154e-21)
"""In parts, like `LN2`."""


def sinusoidal_positions(
    length: int, model_size: int, rates: PositionRates = "paper"
) -> npt.NDArray[np.float32]:
    """Returns position encodings: sines in the even columns, cosines in the odd ones.

    Args:
        length: number of positions T.
        model_size: E, even.
        rates: how fast the columns turn. Column pair i has the rate 10000^(-i / divisor).

    Returns:
        float32 [T, E].

    Source: Vaswani et al. 2017, section 3.5; inclusive rates:
    https://github.com/tensorflow/tensor2tensor, `get_timing_signal_1d`.
    """
    position = np.arange(length, dtype=np.float64)[:, None]  # [T, 1]
    even_column = np.arange(0, model_size, 2, dtype=np.float64)  # [E / 2]
    double_divisor = model_size if rates == "paper" else max(model_size - 2, 1)
    angle = position * _exp(-_LOG_10000 * even_column / double_divisor)  # [T, E / 2]
    table = np.empty((length, model_size), np.float32)
    table[:, 0::2], table[:, 1::2] = _sine_and_cosine(angle)
    return table


def _exp(x: Doubles) -> Doubles:
    n = np.rint(x / LN2[0])
    return np.ldexp(_series(_subtract(x, n, LN2), range(16)), n.astype(np.int32))


def _sine_and_cosine(angle: Doubles) -> tuple[Doubles, Doubles]:
    quarters = np.rint(angle / _HALF_PI[0])
    rest = _subtract(angle, quarters, _HALF_PI)
    cosine = _series(-rest * rest, range(0, 20, 2))
    sine = rest * _series(-rest * rest, range(1, 21, 2))
    quarter = quarters.astype(np.int64) % 4
    return (
        np.choose(quarter, [sine, cosine, -sine, -cosine]),
        np.choose(quarter, [cosine, -sine, -cosine, sine]),
    )


def _subtract(x: Doubles, n: Doubles, parts: tuple[float, ...]) -> Doubles:
    """X - n times the sum of the parts."""
    for part in parts:
        x = x - n * part
    return x


def _series(x: Doubles, numbers: range) -> Doubles:
    """The sum of powers of x, from 0, over the factorials of numbers."""
    total = np.zeros_like(x)
    for number in reversed(numbers):
        total = total * x + 1.0 / math.factorial(number)
    return total
