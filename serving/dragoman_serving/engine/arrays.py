"""Types of the arrays that pass between the engine's packages, and a copy between rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]
KeysValues = npt.NDArray[np.floating[Any]]
Rank = Callable[[Floats, int], Ids]
"""Indices of so many of the best scores [N], best first; of equal ones the first."""


class Copy(NamedTuple):
    """A row that continues another row, which has `tokens` tokens."""

    source: int
    target: int
    tokens: int
