"""Imported students compared with Marian itself, token by token.

Marian's translations are recorded in `tests/data`; where Marian is installed, they are compared
with what it translates now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from dragoman_training.firefox.student_importing import import_student
from dragoman_training.network.transformer import Transformer
from dragoman_training.oracle.constraints import Options
from dragoman_training.oracle.search import greedy_search, search
from dragoman_training.run import checkpoint
from dragoman_training.run.checkpoint import Checkpoint
from dragoman_training.run.checkpoint_folder import WEIGHTS, read_arrays

from dragoman.kernel.text import BEGIN_ID, END_ID
from tests import marian_lines
from tests.marian_lines import BEAMS, LINES, Ids, Recorded
from tests.marian_students import KINDS, as_ids, as_text, float_twin, write_student

SOME = 8
"""Lines of a beam search of one sentence at a time."""
SEVERAL = 25
"""Lines of greedy search, and of a thorough test of a beam search."""


@dataclass(frozen=True)
class Kind:
    """The files of a kind of model, in float32 and in int8, and Marian's lines."""

    folder: Path
    recorded: Recorded


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Kind:
    folder = tmp_path_factory.mktemp("students")
    student = KINDS[request.param]
    write_student(folder / "float32", float_twin(student))
    write_student(folder / "int8", student)
    return Kind(folder, marian_lines.recorded(request.param))


def test_the_recorded_models_are_those_that_are_made_here(kind: Kind) -> None:
    assert marian_lines.sha256_of(kind.folder / "float32") == kind.recorded.model_sha256
    assert tuple(kind.recorded.lines) == BEAMS
    for lines in kind.recorded.lines.values():
        assert len(lines.sources) == len(lines.translations) == LINES
        assert len({token for ids in lines.translations for token in ids}) > 50


@pytest.fixture(scope="module")
def loaded(kind: Kind) -> Checkpoint:
    import_student(kind.folder / "float32", kind.folder / "checkpoint")
    return checkpoint.load(kind.folder / "checkpoint")


@pytest.mark.parametrize("number", [SEVERAL, pytest.param(LINES, marks=pytest.mark.thorough)])
def test_every_token_of_greedy_search_equals_marians(
    kind: Kind, loaded: Checkpoint, number: int
) -> None:
    lines, tokenizer = kind.recorded.lines[1], loaded.tokenizer
    sources, limits = encoded(loaded, lines.sources[:number])
    hypotheses = greedy_search(loaded.model, sources, limits)
    assert [
        as_ids(tokenizer.target.decode(hypothesis.ids)) for hypothesis in hypotheses
    ] == lines.translations[:number]
    at_limit = [
        len(hypothesis.ids) == limit for hypothesis, limit in zip(hypotheses, limits, strict=True)
    ]
    assert 0 < sum(at_limit) < number


@pytest.mark.parametrize("number", [SOME, pytest.param(SEVERAL, marks=pytest.mark.thorough)])
def test_every_token_of_marians_beam_search_equals_marians(
    kind: Kind, loaded: Checkpoint, number: int
) -> None:
    lines, tokenizer = kind.recorded.lines[4], loaded.tokenizer
    sources, limits = encoded(loaded, lines.sources[:number])
    outputs = [
        marian_lines.as_marian(loaded.model, source, limit, 4)
        for source, limit in zip(sources, limits, strict=True)
    ]
    assert [as_ids(tokenizer.target.decode(ids)) for ids in outputs] == lines.translations[:number]


def test_numbers_of_an_int8_file_are_those_of_marians_float32_file(
    kind: Kind, tmp_path: Path
) -> None:
    """So its tokens are those of Marian, which translates with codes divided by multipliers."""
    weights = []
    for stored in ("float32", "int8"):
        import_student(kind.folder / stored, tmp_path / stored)
        weights.append(read_arrays(tmp_path / stored / WEIGHTS))
    expected, actual = weights
    assert actual.keys() == expected.keys()
    for name, array in expected.items():
        assert np.array_equal(actual[name], array), name


def test_our_own_search_gives_the_same_or_a_better_translation(
    kind: Kind, loaded: Checkpoint
) -> None:
    """Than the finished ones of Marian, which ranks unfinished ones among them."""
    lines, tokenizer = kind.recorded.lines[4], loaded.tokenizer
    sources, limits = encoded(loaded, lines.sources[:SOME])
    hypotheses = [best for best, *_ in search(loaded.model, sources, limits, Options(4, 0.0))]
    equal = 0
    for source, limit, ours, theirs in zip(
        sources, limits, hypotheses, lines.translations[:SOME], strict=True
    ):
        ids = tuple(tokenizer.target.encode(as_text(theirs)))
        equal += ours.ids == ids
        if ours.ids != ids and len(ids) < limit:
            assert ours.log_prob is not None
            assert ours.log_prob > log_prob(loaded.model, source, ids) - 1e-3
    assert equal > SOME / 3


def encoded(loaded: Checkpoint, lines: Sequence[Ids]) -> tuple[list[Ids], list[int]]:
    """The ids of source sentences, and their length limits."""
    sources = [loaded.tokenizer.encode_source(as_text(ids), "de") for ids in lines]
    return sources, [loaded.config.limits.target_tokens(len(ids)) for ids in sources]


@torch.no_grad()
def log_prob(model: Transformer, source: list[int], ids: tuple[int, ...]) -> float:
    """Log-probability of a finished translation."""
    src = torch.tensor([source])
    keep_mask = torch.ones_like(src, dtype=torch.bool)
    hidden = model.decode(torch.tensor([[BEGIN_ID, *ids]]), model.encode(src, keep_mask), keep_mask)
    log_probs = model.project(hidden)[0].log_softmax(dim=-1)
    return float(log_probs.gather(1, torch.tensor([*ids, END_ID])[:, None]).sum())


@pytest.mark.skipif(marian_lines.interpreter() is None, reason="Marian is not installed")
@pytest.mark.parametrize("beam", BEAMS)
def test_the_recorded_lines_are_what_marian_translates(kind: Kind, beam: int) -> None:
    lines = kind.recorded.lines[beam]
    translations = marian_lines.translated_by_marian(kind.folder / "float32", lines.sources, beam)
    assert translations == lines.translations
