"""Position encodings, the same for training, export and serving."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt


def sinusoidal_positions(length: int, model_size: int) -> npt.NDArray[np.float32]:
    """Position encodings: sine in the even columns, cosine in the odd ones.

    Args:
        length: number of positions T.
        model_size: E, even.

    Returns:
        float32 [T, E].

    Source: Vaswani et al. 2017, section 3.5.
    """
    position = np.arange(length, dtype=np.float64)[:, None]  # [T, 1]
    even_column = np.arange(0, model_size, 2, dtype=np.float64)  # [E / 2]
    angle = position * np.exp(-math.log(10000.0) * even_column / model_size)  # [T, E / 2]
    table = np.empty((length, model_size), np.float32)
    table[:, 0::2], table[:, 1::2] = np.sin(angle), np.cos(angle)
    return table
