"""The compiled searches on random scores, compared with the oracle's."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from dragoman_serving.engine.arrays import Floats, Ids
from dragoman_serving.engine.compiled import compiled_searches, library
from dragoman_serving.engine.compiled.compiled_searches import NativeSearches
from dragoman_serving.engine.sentence import SearchOptions, Sentence
from dragoman_serving.engine.session import Ranking
from dragoman_training.oracle.constraints import Options
from dragoman_training.oracle.search import _beam, _sample
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.kernel.hypothesis import Hypothesis
from dragoman.kernel.text import END_ID
from tests.unit.serving.engine.random_options import (
    VOCAB,
    constrained,
    options,
    search_options,
)

STEPS = 100


@functools.lru_cache(maxsize=4096)
def scores_after(seed: int, index: int, ids: tuple[int, ...]) -> Floats:
    """Log-probabilities [V] that depend only on a sentence and on its tokens.

    One token has all the probability except a part too small for fp32, so that normalizing changes
    nothing and sums are exact. There are few different scores, so that many are equal.
    """
    generator = np.random.default_rng([seed, index, *ids])
    scores = generator.integers(-49, -40, VOCAB).astype(np.float32)
    scores[END_ID] = generator.integers(-49, -30)
    scores[generator.integers(6, VOCAB) if generator.integers(4) else END_ID] = 0.0
    scores.flags.writeable = False  # it is cached: the search and the oracle ask for the same
    return scores


@dataclass
class RandomScores:
    """A ranking for the scores of rows whose tokens are known."""

    seed: int
    unit: float = 1.0
    """Factor of all scores; with others than 1 their sums are rounded."""
    tokens: dict[int, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    """For each row, the sentence and its tokens so far."""

    def argmax(self, logits: Floats) -> Ids:
        return self.best(logits, 1)[1][:, 0]

    def log_probs(self, _logits: Floats, rows: Ids) -> Floats:
        scores = [scores_after(self.seed, *self.tokens[row]) for row in rows.tolist()]
        return np.array(scores) * np.float32(self.unit)

    def best(self, logits: Floats, number: int) -> tuple[Floats, Ids]:
        scores = self.log_probs(logits, np.arange(len(logits)))
        order = np.argsort(-scores, axis=1, kind="stable")[:, :number]
        return np.take_along_axis(scores, order, axis=1), order

    def move(self, source: int, target: int, width: int) -> None:
        """Move the rows of a search to the place of another."""
        for row in range(width):
            self.tokens[target * width + row] = self.tokens[source * width + row]


@st.composite
def plans(
    draw: st.DrawFn, options: st.SearchStrategy[Options] = options
) -> list[tuple[int, Sentence, Options]]:
    """Sentences with equal searches that join after this many steps, and their options."""
    width = draw(st.integers(1, 5))
    searches = draw(st.integers(1, width))
    plan = []
    for _ in range(draw(st.integers(1, 7))):
        drawn = replace(draw(options), beam_width=width)
        if width > 1:
            drawn = replace(drawn, sampling=False)
        # Options that multiply scores make their sums inexact.
        drawn = replace(drawn, repetition_penalty=1.0, hypotheses=min(drawn.hypotheses, width))
        limit, alternatives = draw(st.integers(1, 20)), range(0)
        if searches > 1:
            drawn = replace(drawn, hypotheses=searches)
            first, limit = draw(st.integers(0, width - searches)), limit + len(drawn.prefix)
            alternatives = range(first, first + searches)
        engine_options = replace(search_options(drawn), alternatives=alternatives)
        sentence = Sentence((1,), limit, engine_options)
        plan.append((draw(st.integers(0, 6)), sentence, drawn))
    return plan


def oracle(seed: int, index: int, sentence: Sentence, drawn: Options) -> list[Hypothesis]:
    """Results of the oracle's search on the same scores."""
    search = (_sample if drawn.sampling else _beam)(sentence.max_tokens, drawn)
    live = next(search)
    while True:
        scores = np.array([scores_after(seed, index, hypothesis.ids) for hypothesis in live])
        try:
            live = search.send(torch.from_numpy(scores))
        except StopIteration as done:
            hypotheses: list[Hypothesis] = done.value
            return hypotheses


def alternatives_of(seed: int, index: int, sentence: Sentence, drawn: Options) -> list[Hypothesis]:
    """The oracle's results for the most probable tokens at a position, one after the other."""
    ranks = sentence.options.alternatives
    to_position = replace(sentence, max_tokens=len(drawn.prefix) + 1)
    begun = oracle(seed, index, to_position, replace(drawn, hypotheses=ranks.stop))
    continued = replace(drawn, not_first=frozenset(), hypotheses=1)
    begun = (begun + begun[-1:] * ranks.stop)[ranks.start : ranks.stop]
    return [
        hypothesis
        if hypothesis.complete or len(hypothesis.ids) in (len(drawn.prefix), sentence.max_tokens)
        else oracle(seed, index, sentence, replace(continued, prefix=hypothesis.ids))[0]
        for hypothesis in begun
    ]


def run(
    plan: list[tuple[int, Sentence, Options]], seed: int, unit: float = 1.0
) -> dict[int, list[Hypothesis]]:
    """Results of the compiled searches, by index; stable prefixes are checked during the search."""
    options = plan[0][1].options
    width = options.rows
    searches = NativeSearches(options.beam_width, END_ID, VOCAB, options.searches)
    ranking = RandomScores(seed, unit)
    hypotheses: dict[int, list[Hypothesis]] = {}
    certain: dict[int, list[tuple[int, ...]]] = {index: [] for index in range(len(plan))}
    slots: list[int] = []
    waiting = list(enumerate(plan))
    for step in range(STEPS):
        joining = [(index, entry[1]) for index, entry in waiting if entry[0] <= step]
        waiting = [arrival for arrival in waiting if arrival[1][0] > step]
        if joining:
            searches.join([sentence for _, sentence in joining])
        for index, _ in joining:
            for row in range(len(slots) * width, (len(slots) + 1) * width):
                ranking.tokens[row] = (index, ())
            slots.append(index)
        if not slots:
            continue
        logits = np.zeros((len(slots) * width, VOCAB), np.float32)
        advance = searches.advance(cast(Ranking, ranking), logits)
        before = dict(ranking.tokens)
        for copy in advance.copies:
            assert copy.tokens == len(before[copy.source][1]) + 1
            ranking.tokens[copy.target] = before[copy.source]
        for slot, index in enumerate(slots):
            certain[index].append(searches.certain(slot))
            if slot in advance.done:
                count = plan[index][1].options.hypotheses
                hypotheses[index] = [searches.result(slot), *searches.next_best(slot, count - 1)]
            for row in range(slot * width, (slot + 1) * width):
                _, ids = ranking.tokens[row]
                ranking.tokens[row] = (index, (*ids, int(advance.tokens[row])))
        for slot in reversed(advance.done):
            searches.leave(slot)
            slots[slot] = slots[-1]
            slots.pop()
            ranking.move(len(slots), slot, width)
    assert not slots
    for index, (best, *_) in hypotheses.items():
        reports = certain[index]
        assert all(best.ids[: len(report)] == report for report in reports)
        assert [len(report) for report in reports] == sorted(len(report) for report in reports)
    return hypotheses


def as_seen(hypotheses: list[Hypothesis], count: int) -> list[tuple[Any, ...]]:
    """Tokens and scores of this many results; the last one is repeated if there are fewer."""
    hypotheses = (hypotheses + hypotheses[-1:] * count)[:count]
    return [(hypothesis.ids, hypothesis.complete, hypothesis.log_prob) for hypothesis in hypotheses]


@given(plans(), st.integers(0, 1000))
def test_searches_give_the_same_results_as_the_oracle(
    plan: list[tuple[int, Sentence, Options]], seed: int
) -> None:
    """Other sentences join and leave during the search, and many scores are equal."""
    hypotheses = run(plan, seed)
    for index, (_, sentence, drawn) in enumerate(plan):
        find = alternatives_of if sentence.options.alternatives else oracle
        right = find(seed, index, sentence, drawn)
        count = sentence.options.hypotheses
        seen, expected = as_seen(hypotheses[index], count), as_seen(right, count)
        if hypotheses[index][0].log_prob is None:  # plain greedy search computes no scores
            seen, expected = [triple[:2] for triple in seen], [triple[:2] for triple in expected]
        assert seen == expected


@settings(max_examples=20)
@given(plans(constrained), st.integers(0, 1000))
def test_every_instruction_set_finds_the_same(
    plan: list[tuple[int, Sentence, Options]], seed: int
) -> None:
    """Tokens and bits of scores."""
    outcomes = []
    for name in library.usable_instruction_sets():
        loaded = library.Library(library._path(name))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(compiled_searches, "load", lambda loaded=loaded: loaded)
            outcomes.append(run(plan, seed, unit=0.37))
    assert all(outcome == outcomes[0] for outcome in outcomes)


@pytest.mark.parametrize("width", [1, 4, 512])
def test_beams_of_every_width_find_their_first_tokens(width: int) -> None:
    searches = NativeSearches(width, END_ID, vocab_size=4 * width + 10)
    searches.join([Sentence((1,), 3, SearchOptions(width, 0.6))])
    scores = np.tile(np.arange(2 * width, dtype=np.float32)[::-1], (width, 1))
    ids = np.tile(np.arange(10, 10 + 2 * width), (width, 1))
    ranking = SimpleNamespace(
        best=lambda _logits, _number: (scores, ids), argmax=lambda _logits: ids[:, 0]
    )
    advance = searches.advance(cast(Ranking, ranking), None)
    assert advance.done == []
    assert sorted(advance.tokens.tolist()) == list(range(10, 10 + width))
