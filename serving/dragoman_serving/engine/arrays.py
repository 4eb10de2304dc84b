"""Array types of the engine's packages, and the description of a copy between rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]
KeysValues = npt.NDArray[np.floating[Any]]


class Copy(NamedTuple):
    """A copy: row `target` continues row `source`, which has `tokens` tokens."""

    source: int
    target: int
    tokens: int
