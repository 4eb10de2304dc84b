"""Scores of all tokens put in order, in compiled code where it can be used."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman_serving.engine.compiled import library
from dragoman_serving.engine.runtimes.cache import Floats, Ids

_MOST_COMPILED = 128
"""Beyond so many, the compiled code, which inserts one by one, is the slower one."""


def log_softmax(logits: npt.NDArray[np.floating[Any]]) -> Floats:
    """Log-probabilities [R, V] of logits [R, V], which may lack a constant a row."""
    rows, vocab_size = logits.shape
    if _is_compiled() and logits.dtype == np.float32 and logits.strides[1] == logits.itemsize:
        found = np.empty((rows, vocab_size), np.float32)
        stride = logits.strides[0] // logits.itemsize
        library.load().log_softmax(
            *(logits.ctypes.data, rows, stride, vocab_size, found.ctypes.data)
        )
        return found
    shifted: Floats = (logits - logits.max(axis=1, keepdims=True)).astype(np.float32, copy=False)
    shifted -= np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return shifted


def rank(scores: Floats, count: int) -> Ids:
    """Places of the `count` best of scores [N], best first; of equal ones the first.

    Those of -inf are left out.
    """
    if _is_compiled() and count <= _MOST_COMPILED and scores.flags.c_contiguous:
        places = np.empty(count, np.int64)
        return places[
            : library.load().rank(scores.ctypes.data, len(scores), count, places.ctypes.data)
        ]
    return rank_in_numpy(scores, count)


def rank_in_numpy(scores: Floats, count: int) -> Ids:
    """As `rank`."""
    candidates = np.flatnonzero(scores > -np.inf)
    if 4 * count < len(candidates):
        # All that may be among them, ties at the end included.
        least = np.partition(scores, len(scores) - count)[len(scores) - count]
        candidates = np.flatnonzero(scores >= least)
    best: Ids = candidates[np.argsort(-scores[candidates], kind="stable")[:count]]
    return best


@cache
def _is_compiled() -> bool:
    return library.obstacle() is None
