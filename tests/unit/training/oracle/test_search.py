from __future__ import annotations

import numpy as np
import pytest
import torch
from dragoman_training.network.transformer import Transformer
from dragoman_training.oracle.constraints import Options
from dragoman_training.oracle.search import beam_search, draw, greedy_search, search

from dragoman.kernel.hypothesis import Hypothesis
from dragoman.kernel.text import BEGIN_ID, END_ID
from tests.tiny_models import tiny_model

SAMPLES = 4_000
INDEPENDENT_SAMPLES = 20_000
"""Frequencies deviate by no more than five standard deviations of this many independent samples."""


def sources(number: int, seed: int = 0) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randint(6, 320, (int(length),), generator=generator).tolist()
        for length in torch.randint(2, 12, (number,), generator=generator)
    ]


@pytest.fixture(scope="module", params=["post", "pre"])
def model(request: pytest.FixtureRequest) -> Transformer:
    return tiny_model(request.param)


def test_batched_equals_single(model: Transformer) -> None:
    src, limits = sources(12), list(range(3, 15))
    together = greedy_search(model, src, limits)
    for ids, limit, hypothesis in zip(src, limits, together, strict=True):
        (alone,) = greedy_search(model, [ids], [limit])
        assert alone.ids == hypothesis.ids
        assert alone.log_prob == pytest.approx(hypothesis.log_prob, abs=1e-4)


def test_greedy_search_takes_the_argmax_of_every_step(model: Transformer) -> None:
    src, limits = sources(12), [12] * 12
    for ids, hypothesis in zip(src, greedy_search(model, src, limits), strict=True):
        tokens = [*hypothesis.ids, END_ID] if hypothesis.complete else list(hypothesis.ids)
        assert len(tokens) == 12 or hypothesis.complete
        keep = torch.ones(1, len(ids), dtype=torch.bool)
        with torch.no_grad():
            hidden = model(torch.tensor([ids]), keep, torch.tensor([[BEGIN_ID, *tokens[:-1]]]))
        assert model.project(hidden)[0].argmax(dim=-1).tolist() == tokens


def test_scores_equal_the_sums_of_token_scores(model: Transformer) -> None:
    (src,) = sources(1)
    (hypothesis,) = beam_search(model, [src], [9], beam_width=4, alpha=0.6)
    tokens = [*hypothesis.ids, END_ID] if hypothesis.complete else list(hypothesis.ids)
    keep = torch.ones(1, len(src), dtype=torch.bool)
    with torch.no_grad():
        hidden = model(torch.tensor([src]), keep, torch.tensor([[BEGIN_ID, *tokens[:-1]]]))
        log_probs = model.project(hidden)[0].log_softmax(dim=-1)
    total = log_probs.gather(1, torch.tensor(tokens)[:, None]).sum().item()
    assert hypothesis.log_prob == pytest.approx(total, abs=1e-4)


def test_all_tensors_are_on_the_models_device(model: Transformer) -> None:
    (src,) = sources(1)
    every = (
        Options(),
        Options(prefix=(5,), min_tokens=3),
        Options(beam_width=2, not_first=frozenset({6, 7})),
        Options(sampling=True, top_k=5),
    )

    def all_hypotheses() -> list[Hypothesis]:
        return [
            hypothesis for options in every for hypothesis in search(model, [src], [9], options)[0]
        ]

    here = all_hypotheses()
    with torch.device("meta"):  # device of tensors created without an explicit device
        assert all_hypotheses() == here


class TableModel:
    """Scores that depend only on the last token: small enough to search by hand."""

    def __init__(self, probabilities: dict[int, dict[int, float]]) -> None:
        self.embedding = torch.nn.Embedding(8, 1)
        self._log = torch.full((8, 8), -50.0)
        for last, nexts in probabilities.items():
            for token, probability in nexts.items():
                self._log[last, token] = torch.tensor(probability).log()

    def encode(self, src_ids: torch.Tensor, _src_keep_mask: torch.Tensor) -> torch.Tensor:
        return torch.zeros(src_ids.size(0), 1, 1)

    def decode(self, tgt_ids: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        return tgt_ids[..., None].float()

    def project(self, hidden: torch.Tensor) -> torch.Tensor:
        return self._log[hidden[..., 0].long()]


def test_a_beam_finds_what_greedy_search_misses() -> None:
    # The more probable first word, 4, leads to nothing good; 5 leads to a sure end.
    table = {BEGIN_ID: {4: 0.6, 5: 0.4}, 4: {6: 0.5, 7: 0.5}, 5: {END_ID: 1.0}}
    table |= {6: {END_ID: 1.0}, 7: {END_ID: 1.0}}
    model = TableModel(table)
    (greedy,) = greedy_search(model, [[9]], [5])  # type: ignore[arg-type]
    (beam,) = beam_search(model, [[9]], [5], beam_width=2, alpha=0.0)  # type: ignore[arg-type]
    assert greedy.ids[0] == 4
    assert beam.ids == (5,)
    assert beam.complete


def test_the_length_penalty_favours_the_longer() -> None:
    table = {BEGIN_ID: {END_ID: 0.5, 4: 0.5}, 4: {5: 0.9, 6: 0.1}, 5: {END_ID: 1.0}}
    table |= {6: {END_ID: 1.0}}
    model = TableModel(table)
    for alpha, right in ((0.0, ()), (2.0, (4, 5))):
        (hypothesis,) = beam_search(model, [[9]], [6], 2, alpha)  # type: ignore[arg-type]
        assert hypothesis.ids == right


def test_cutting_at_the_limit_is_reported() -> None:
    model = TableModel({BEGIN_ID: {4: 1.0}, 4: {4: 1.0}})
    for width in (1, 3):
        (hypothesis,) = beam_search(model, [[9]], [4], width, 0.6)  # type: ignore[arg-type]
        assert hypothesis.ids == (4, 4, 4, 4)
        assert not hypothesis.complete
    (greedy,) = greedy_search(model, [[9]], [4])  # type: ignore[arg-type]
    assert (greedy.ids, greedy.complete) == ((4, 4, 4, 4), False)


@pytest.mark.parametrize("top_k", [None, 12])
@pytest.mark.parametrize("top_p", [None, 0.05, 0.5, 0.9])
def test_tokens_are_drawn_by_their_probabilities_in_the_smallest_set(
    top_k: int | None, top_p: float | None
) -> None:
    scores = torch.from_numpy(np.random.default_rng(1).normal(scale=1.5, size=40))
    scores[[3, 17, 30]] = scores.max()  # equal ones are kept in the order of their ids
    # One number in each of many equal intervals: with independent ones, a deviation as small would
    # need several times as many.
    random = np.random.Generator(np.random.Philox(2))
    numbers = (np.arange(SAMPLES) + random.random(SAMPLES)) / SAMPLES
    options = Options(sampling=True, temperature=1.3, top_k=top_k, top_p=top_p)
    drawn = np.bincount([draw(scores, options, number) for number in numbers], minlength=40)

    probs = np.exp(scores.numpy() / 1.3)
    order = np.argsort(-probs, kind="stable")[:top_k]
    shares = probs[order] / probs[order].sum()
    order = order[shares.cumsum() - shares < (top_p or 1.0)]
    expected = np.zeros(40)
    expected[order] = probs[order] / probs[order].sum()
    assert not drawn[expected == 0.0].any()
    deviation = np.abs(drawn / len(numbers) - expected)
    assert (deviation <= 5 * np.sqrt(expected * (1 - expected) / INDEPENDENT_SAMPLES)).all()
