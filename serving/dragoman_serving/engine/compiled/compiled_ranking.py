"""Top-k and log-softmax in compiled code, or in NumPy if it is not available."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman_serving.engine.arrays import Floats, Ids
from dragoman_serving.engine.compiled import library
from dragoman_serving.engine.search import ranking

_MOST_COMPILED = 128
"""For a larger k NumPy is faster: the compiled code inserts one by one."""


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
    """See `ranking.rank`."""
    if _is_compiled() and count <= _MOST_COMPILED and scores.flags.c_contiguous:
        indices = np.empty(count, np.int64)
        return indices[
            : library.load().rank(scores.ctypes.data, len(scores), count, indices.ctypes.data)
        ]
    return ranking.rank(scores, count)


@cache
def _is_compiled() -> bool:
    return library.obstacle() is None
