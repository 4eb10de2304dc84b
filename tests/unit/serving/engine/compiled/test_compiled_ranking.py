"""Order and normalisation of scores, compiled and in NumPy."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from dragoman_serving.engine.compiled import compiled_ranking, library
from dragoman_serving.engine.search import ranking
from hypothesis import given, settings
from hypothesis import strategies as st

SCORES = st.lists(
    st.one_of(st.floats(-50, 0, width=32), st.just(-np.inf), st.sampled_from([-1.0, -2.0])),
    min_size=1,
    max_size=200,
)


@settings(deadline=None)
@given(SCORES, st.integers(1, 140))
def test_the_best_come_first_and_of_equal_ones_the_first(values: list[float], count: int) -> None:
    scores = np.array(values, np.float32)
    order = np.argsort(-scores, kind="stable")
    right = [place for place in order.tolist() if scores[place] > -np.inf][:count]
    assert compiled_ranking.rank(scores, count).tolist() == right
    assert ranking.rank(scores, count).tolist() == right


@pytest.mark.parametrize("columns", [1, 15, 16, 17, 64, 1000])
def test_probabilities_add_up(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = np.random.default_rng(1).normal(0, 8, (3, columns + 5)).astype(np.float32)
    logits = wide[:, :columns]  # whose rows lie further apart than they are long
    compiled = compiled_ranking.log_softmax(logits)
    monkeypatch.setattr(compiled_ranking, "_is_compiled", lambda: False)
    plain = compiled_ranking.log_softmax(logits)
    assert np.allclose(compiled, plain, atol=1e-4)
    assert np.exp(plain.astype(np.float64)).sum(axis=1) == pytest.approx(1.0, abs=1e-4)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_tests_above_run_the_compiled_code() -> None:
    assert library.obstacle() is None
    assert compiled_ranking._is_compiled()
