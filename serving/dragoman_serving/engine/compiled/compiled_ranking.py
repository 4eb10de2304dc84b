"""Log-softmax in compiled code."""

from __future__ import annotations

import numpy as np

from dragoman_serving.engine.arrays import Floats
from dragoman_serving.engine.compiled import library


def log_softmax(logits: Floats) -> Floats:
    """Returns log-probabilities [R, V] of fp32 logits [R, V], known up to a constant per row."""
    logits = np.ascontiguousarray(logits, np.float32)
    rows, vocab_size = logits.shape
    log_probs = np.empty((rows, vocab_size), np.float32)
    library.load().log_softmax(
        logits.ctypes.data, rows, vocab_size, vocab_size, log_probs.ctypes.data
    )
    return log_probs
