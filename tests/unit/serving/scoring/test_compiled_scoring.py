"""Given translations scored by compiled code, compared with searches and the fp32 graph."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dragoman_serving.engine.batching.engine import Engine
from dragoman_serving.engine.compiled.compiled_network import NativeNetwork
from dragoman_serving.engine.constraints import Constraints
from dragoman_serving.engine.sentence import SearchOptions, Sentence
from dragoman_serving.scoring.compiled_scoring import NativeScoring
from dragoman_serving.scoring.score_graphs import ScoreGraph
from dragoman_serving.scoring.token_pair import TokenPair, attention_of_tokens

from dragoman.kernel.hypothesis import Hypothesis
from dragoman.kernel.manifest import AlignmentHeads, Manifest

HEADS = AlignmentHeads(((0, 1), (2, 3)), True, "anchors", 1.0, 1, "nothing")
SCORED = Constraints(scored=True)


@pytest.fixture(scope="module", params=["random_bundle", "ssru_bundle"])
def bundle(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.getfixturevalue(request.param)
    return folder


@pytest.fixture(scope="module")
def manifest(bundle: Path) -> Manifest:
    return replace(Manifest.load(bundle), alignment=HEADS)


@pytest.fixture(scope="module")
def network(bundle: Path, manifest: Manifest) -> NativeNetwork:
    return NativeNetwork(bundle, manifest)


@pytest.fixture(scope="module")
def scoring(network: NativeNetwork, manifest: Manifest) -> NativeScoring:
    return NativeScoring(network, manifest.special_ids, HEADS)


@pytest.fixture(scope="module")
def engine(network: NativeNetwork, manifest: Manifest) -> Iterator[Engine]:
    running = Engine(network, manifest.special_ids, workers=2)
    yield running
    running.close()


def sources(number: int) -> list[tuple[int, ...]]:
    random = np.random.default_rng(7)
    return [tuple(random.integers(6, 300, random.integers(2, 30)).tolist()) for _ in range(number)]


@pytest.mark.parametrize(
    "options",
    [
        SearchOptions(1, 0.0, 1, SCORED),
        SearchOptions(4, 0.6, 4),
        SearchOptions(4, 0.6, 4, Constraints(repetition_penalty=1.5, no_repeat_ngram_size=2)),
        SearchOptions(8, 0.6, 2, Constraints(prefix=(17, 18, 19))),
        SearchOptions(1, 0.0, 1, Constraints(repetition_penalty=1.5, prefix=(17,))),
        SearchOptions(2, 0.6, 3, Constraints(prefix=(17, 18)), alternatives=range(3)),
    ],
    ids=str,
)
def test_searches_return_the_same_bits_as_scoring_their_results(
    engine: Engine, scoring: NativeScoring, options: SearchOptions
) -> None:
    """Compares log-probabilities and attention by token; options may change the scores."""
    options = replace(options, token_scores=True, alignment=True)
    sentences = [Sentence(src_ids, 2 * len(src_ids), options) for src_ids in sources(20)]
    for sentence, future in zip(sentences, engine.submit(sentences), strict=True):
        best = future.result(60)
        hypotheses = (best, *best.others)
        pairs = [pair_of(sentence, hypothesis) for hypothesis in hypotheses]
        for hypothesis, scored in zip(hypotheses, scoring.run(pairs), strict=True):
            assert hypothesis.token_log_probs == scored.log_probs
            assert hypothesis.attention is not None
            assert scored.attention is not None
            attention = attention_of_tokens(hypothesis.attention, HEADS, len(hypothesis.ids))
            # The step that reads the last token is missing if the search was over.
            read = len(hypothesis.ids) if hypothesis.complete else len(hypothesis.ids) - 1
            assert np.array_equal(attention[:read], scored.attention[:read])


def pair_of(sentence: Sentence, hypothesis: Hypothesis) -> TokenPair:
    return TokenPair(sentence.src_ids, hypothesis.ids, hypothesis.complete, attention=True)


def test_neighbours_change_no_bit(scoring: NativeScoring) -> None:
    pairs = [TokenPair(src_ids, src_ids[::-1], attention=True) for src_ids in sources(30)]
    together = scoring.run(pairs)
    for pair, scored in zip(pairs, together, strict=True):
        (alone,) = scoring.run([pair])
        assert alone.log_probs == scored.log_probs
        assert alone.attention is not None
        assert scored.attention is not None
        assert np.array_equal(alone.attention, scored.attention)
        np.testing.assert_allclose(alone.attention.sum(axis=1), 1.0, atol=1e-4)


def test_scores_are_close_to_the_fp32_graphs(
    scoring: NativeScoring, bundle: Path, manifest: Manifest
) -> None:
    pairs = [TokenPair(src_ids, src_ids[::-1], attention=True) for src_ids in sources(30)]
    right = ScoreGraph(bundle, manifest).run(pairs)
    for scored, exact in zip(scoring.run(pairs), right, strict=True):
        # Random weights, whose scores are far from 0.
        np.testing.assert_allclose(scored.log_probs, exact.log_probs, rtol=0.1, atol=0.1)
        assert scored.attention is not None
        assert exact.attention is not None
        np.testing.assert_allclose(scored.attention, exact.attention, atol=0.05)


def test_the_longest_translation_has_no_step_for_its_end(
    scoring: NativeScoring, manifest: Manifest
) -> None:
    longest = (9,) * manifest.limits.max_target_tokens
    (cut,) = scoring.run([TokenPair((5, 6), longest, complete=False, attention=True)])
    assert len(cut.log_probs) == len(longest)
    assert cut.attention is not None
    assert cut.attention.shape == (len(longest), 2)


def test_stored_attention_stays_within_the_limit(engine: Engine, manifest: Manifest) -> None:
    """The sentences use all rows, and have maximum length."""
    limits = manifest.limits
    options = SearchOptions(4, 0.0, 1, alignment=True)
    longest = Sentence((9,) * limits.max_source_tokens, limits.max_target_tokens, options)
    weights = limits.max_source_tokens * limits.max_target_tokens * engine.most_rows
    held: list[int] = []
    futures = engine.submit(
        many := [longest] * (engine.most_rows // 4),
        [lambda _: held.append(engine.nbytes)] * len(many),
    )
    # Each worker takes its sentences separately, so the first step need not have them all.
    while max(held, default=0) < 4 * weights and not all(future.done() for future in futures):
        time.sleep(0.01)
    for future in futures:
        future.cancel()
    assert 4 * weights <= max(held) <= engine.most_bytes(widest=4)
