"""Top-k of scores, in NumPy."""

from __future__ import annotations

import numpy as np

from dragoman_serving.engine.arrays import Floats, Ids


def rank(scores: Floats, count: int) -> Ids:
    """Indices of the `count` best of scores [N], best first; of equal ones the first.

    Those of -inf are left out.
    """
    candidates = np.flatnonzero(scores > -np.inf)
    if 4 * count < len(candidates):
        # All that may be among them, ties at the end included.
        least = np.partition(scores, len(scores) - count)[len(scores) - count]
        candidates = np.flatnonzero(scores >= least)
    best: Ids = candidates[np.argsort(-scores[candidates], kind="stable")[:count]]
    return best
