"""Normalization of scores in compiled code."""

from __future__ import annotations

import numpy as np
import pytest
from dragoman_serving.engine.compiled.compiled_ranking import log_softmax


@pytest.mark.parametrize("columns", [1, 15, 16, 17, 64, 1000])
def test_probabilities_add_up(columns: int) -> None:
    wide = np.random.default_rng(1).normal(0, 8, (3, columns + 5)).astype(np.float32)
    logits = wide[:, :columns]  # the stride of its rows exceeds their length
    log_probs = log_softmax(logits)
    right = logits - np.log(np.exp(logits.astype(np.float64)).sum(axis=1, keepdims=True))
    assert np.allclose(log_probs, right, atol=1e-4)
    assert np.exp(log_probs.astype(np.float64)).sum(axis=1) == pytest.approx(1.0, abs=1e-4)
