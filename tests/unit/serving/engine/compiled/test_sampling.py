"""Sampling of a token in every library that this CPU can run, compared with the oracle's."""

from __future__ import annotations

import ctypes

import numpy as np
import numpy.typing as npt
import pytest
import torch
from dragoman_serving.engine.compiled import library
from dragoman_serving.engine.compiled.library import Constraints, Pointer, Searches
from dragoman_training.oracle.constraints import Options
from dragoman_training.oracle.search import draw

PANEL = 64
PANELS = 16
VOCAB = PANELS * PANEL - 24

Floats = npt.NDArray[np.float32]


@pytest.fixture(params=library.usable_instruction_sets())
def loaded(request: pytest.FixtureRequest) -> ctypes.CDLL:
    loaded = ctypes.CDLL(str(library._path(request.param)))
    loaded.sample.argtypes = (Pointer, Pointer, ctypes.c_double, Pointer)
    loaded.sample.restype = ctypes.c_int64
    return loaded


def sample(loaded: ctypes.CDLL, scores: Floats, options: Options, number: float) -> int:
    row = np.full(PANELS * (PANEL + 1), -np.inf, np.float32)
    row[: len(scores)] = scores
    row[PANELS * PANEL :] = row[: PANELS * PANEL].reshape(PANELS, PANEL).max(axis=1)
    of_panels = np.zeros((2, PANELS), np.float32)
    searches = Searches(panels=PANELS, of_panels=of_panels.ctypes.data)
    constraints = Constraints(
        temperature=options.temperature,
        top_k=options.top_k or 0,
        top_p=1.0 if options.top_p is None else options.top_p,
    )
    token: int = loaded.sample(
        ctypes.addressof(searches), ctypes.addressof(constraints), number, row.ctypes.data
    )
    return token


@pytest.mark.parametrize("top_k", [None, 5, 60, 900, VOCAB])
@pytest.mark.parametrize("top_p", [None, 0.02, 0.5, 0.95])
@pytest.mark.parametrize("step", [0.0, 0.5])
def test_tokens_equal_the_oracles(
    loaded: ctypes.CDLL, top_k: int | None, top_p: float | None, step: float
) -> None:
    generator = np.random.default_rng(3)
    options = Options(sampling=True, temperature=1.4, top_k=top_k, top_p=top_p)
    for number in generator.random(60):
        scores = generator.normal(scale=2.0, size=VOCAB).astype(np.float32)
        if step:
            scores = np.round(scores / step) * step  # many are equal
        scores[generator.random(VOCAB) < 0.1] = -np.inf
        expected = draw(torch.from_numpy(scores), options, number)
        assert sample(loaded, scores, options, number) == expected


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
@pytest.mark.parametrize("share", [0.01, 1.0])
@pytest.mark.parametrize("top_k", [None, 5, 60])
@pytest.mark.parametrize("top_p", [None, 0.9])
def test_scores_of_a_broken_model_give_some_token(
    loaded: ctypes.CDLL, wrong: float, share: float, top_k: int | None, top_p: float | None
) -> None:
    generator = np.random.default_rng(4)
    scores = generator.normal(size=VOCAB).astype(np.float32)
    scores[generator.random(VOCAB) < share] = wrong
    options = Options(sampling=True, top_k=top_k, top_p=top_p)
    assert -1 <= sample(loaded, scores, options, 0.7) < VOCAB
