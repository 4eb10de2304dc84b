from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from dragoman_export.checks import TOLERANCE
from dragoman_serving.engine.errors import Closed, DeadlineExceeded, Overloaded
from dragoman_serving.scoring import scorer as scorer_module
from dragoman_serving.scoring.score_graphs import ScoreGraph, mean_of_heads
from dragoman_serving.scoring.scorer import Scorer, ScoringFailure
from dragoman_serving.scoring.token_pair import (
    MOST_TOKENS,
    Scored,
    TokenPair,
    attention_of_tokens,
    like_lengths,
)
from dragoman_training.network.transformer import Transformer

from dragoman.kernel.errors import InvalidRequest
from dragoman.kernel.manifest import AlignmentHeads, Manifest
from dragoman.kernel.text import BEGIN_ID, END_ID
from tests.tiny_models import tiny_model

HEADS = AlignmentHeads(((0, 1), (2, 3)), False, "anchors", 1.0, 1, "nothing")


def pairs(number: int, seed: int = 0) -> list[TokenPair]:
    """Pairs of many lengths."""
    random = np.random.default_rng(seed)

    def ids(most: int) -> tuple[int, ...]:
        return tuple(random.integers(6, 300, random.integers(1, most)).tolist())

    return [
        TokenPair((4, *ids(40), END_ID), ids(30), bool(random.integers(2)), attention=True)
        for _ in range(number)
    ]


def longest() -> tuple[TokenPair, TokenPair]:
    """Two translations of maximum length: one that was cut, one with its end symbol."""
    ids = tuple(np.random.default_rng(5).integers(6, 300, 320).tolist())
    return TokenPair((4, *ids[:9], END_ID), ids, False, True), TokenPair(
        (4, END_ID), ids[1:], True, True
    )


@pytest.fixture(scope="module")
def bundle(random_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with alignment heads."""
    path = tmp_path_factory.mktemp("scoring") / "bundle"
    shutil.copytree(random_bundle, path)
    replace(Manifest.load(path), alignment=HEADS).write(path)
    return path


@pytest.fixture
def scorer(bundle: Path) -> Iterator[Scorer]:
    running = Scorer(bundle, Manifest.load(bundle))
    yield running
    running.close()


@torch.no_grad()
def by_pytorch(model: Transformer, pair: TokenPair) -> torch.Tensor:
    """Log-probabilities of a pair's target, and of the end symbol if the pair has it."""
    steps = len(pair.tgt_ids) + pair.complete
    src_ids = torch.tensor([pair.src_ids])
    tgt_ids = torch.tensor([(BEGIN_ID, *pair.tgt_ids)[:steps]])
    hidden = model(src_ids, torch.ones_like(src_ids).bool(), tgt_ids)
    right = torch.tensor([(*pair.tgt_ids, END_ID)[:steps]])[..., None]
    return model.project(hidden).log_softmax(-1).gather(-1, right)[0, :, 0]


def test_log_probabilities_equal_pytorchs(scorer: Scorer) -> None:
    model, given = tiny_model(), [*pairs(60), *longest()]
    for pair, future in zip(given, scorer.submit(given), strict=True):
        log_probs, right = future.result(60).log_probs, by_pytorch(model, pair)
        assert len(log_probs) == len(right) == len(pair.tgt_ids) + pair.complete
        bound = TOLERANCE["fp32"] * max(1.0, float(right.abs().max()))
        assert np.abs(np.array(log_probs) - right.numpy()).max() <= bound


def test_a_result_does_not_depend_on_its_neighbours(scorer: Scorer) -> None:
    given = pairs(40, seed=1)
    together = [future.result(60) for future in scorer.submit(given)]
    for pair, among in zip(given, together, strict=True):
        alone = scorer.submit([pair])[0].result(60)
        np.testing.assert_allclose(among.log_probs, alone.log_probs, atol=TOLERANCE["fp32"])
        assert among.attention is not None
        assert alone.attention is not None
        assert among.attention.shape == (len(pair.tgt_ids), len(pair.src_ids))
        np.testing.assert_allclose(among.attention, alone.attention, atol=TOLERANCE["fp32"])
        np.testing.assert_allclose(among.attention.sum(axis=1), 1.0, atol=1e-4)


def test_attention_belongs_to_the_chosen_heads_and_step(bundle: Path) -> None:
    manifest = Manifest.load(bundle)
    (pair,) = pairs(1, seed=3)
    _, (attention,) = ScoreGraph(bundle, manifest).run_all([pair])
    mean = (attention[0, 1] + attention[2, 3]) / 2
    np.testing.assert_allclose(mean_of_heads(attention, HEADS), mean, atol=1e-6)
    tokens = len(pair.tgt_ids)
    np.testing.assert_allclose(attention_of_tokens(mean, HEADS, tokens), mean[:-1], atol=1e-6)
    when_read = attention_of_tokens(mean, replace(HEADS, when_read=True), tokens)
    np.testing.assert_allclose(when_read, mean[1:], atol=1e-6)
    assert np.abs(when_read - mean[:-1]).max() > 1e-3


@pytest.mark.parametrize("when_read", [False, True])
def test_attention_of_the_longest_translation_has_its_last_token(
    bundle: Path, when_read: bool
) -> None:
    manifest = Manifest.load(bundle)
    heads = replace(HEADS, when_read=when_read)
    scorer = Scorer(bundle, replace(manifest, alignment=heads))
    cut, _ = longest()
    whole, shorter = scorer.submit([cut, replace(cut, tgt_ids=cut.tgt_ids[:-1])])
    of_whole, of_shorter = whole.result(60).attention, shorter.result(60).attention
    scorer.close()
    assert of_whole is not None
    assert of_shorter is not None
    assert of_whole.shape == (320, len(cut.src_ids))
    np.testing.assert_allclose(of_whole[:-1], of_shorter, atol=TOLERANCE["fp32"])
    # The step that generates the last token is the one that reads the last but one.
    _, (attention,) = ScoreGraph(bundle, manifest).run_all([cut])
    last = (attention[0, 1, -1] + attention[2, 3, -1]) / 2
    np.testing.assert_allclose(of_whole[-1], last, atol=TOLERANCE["fp32"])


def test_too_long_pairs_are_refused_by_name(scorer: Scorer) -> None:
    cut, ended = longest()
    for pair, message in (
        (replace(cut, tgt_ids=(*cut.tgt_ids, 9)), "a translation of 321 tokens cannot be scored"),
        (replace(ended, tgt_ids=cut.tgt_ids), "a translation of 321 tokens cannot be scored"),
        (replace(cut, src_ids=(9,) * 257), "a text of 257 tokens cannot be scored, more than 256"),
    ):
        with pytest.raises(InvalidRequest, match=message):
            scorer.submit([ended, pair])
    assert not scorer._waiting


def test_attention_is_returned_only_on_request(scorer: Scorer) -> None:
    (pair,) = pairs(1)
    (future,) = scorer.submit([replace(pair, attention=False)])
    assert future.result(60).attention is None


def test_the_graph_is_loaded_when_it_is_needed(bundle: Path) -> None:
    threads = threading.active_count()
    scorer = Scorer(bundle, Manifest.load(bundle))
    assert threading.active_count() == threads
    assert scorer._scoring is None
    scorer.submit(pairs(1))[0].result(60)
    assert scorer._scoring is not None
    scorer.close()
    assert threading.active_count() == threads


class Gate:
    """A graph that waits for a signal, and records its inputs."""

    def __init__(self, bundle: Path, manifest: Manifest) -> None:
        self.began, self.may = threading.Event(), threading.Event()
        self.runs: list[int] = []
        self._graph = ScoreGraph(bundle, manifest)

    def run(self, given: Sequence[TokenPair]) -> list[Scored]:
        self.began.set()
        assert self.may.wait(60)
        self.runs.append(len(given))
        return self._graph.run(given)


@pytest.fixture
def gate(scorer: Scorer, bundle: Path) -> Iterator[Gate]:
    made = Gate(bundle, Manifest.load(bundle))
    scorer._scoring = made
    yield made
    made.may.set()


def test_cancelled_pairs_are_not_scored(scorer: Scorer, gate: Gate) -> None:
    pair, *others = pairs(4)
    (first,) = scorer.submit([pair])
    assert gate.began.wait(60)
    late = replace(others[1], deadline_s=time.monotonic() - 1)
    cancelled, overdue, valid = scorer.submit([others[0], late, others[2]])
    assert cancelled.cancel()
    gate.may.set()
    assert valid.result(60).log_probs
    assert first.result(60).log_probs
    with pytest.raises(DeadlineExceeded, match="the deadline passed"):
        overdue.result(60)
    with pytest.raises(CancelledError):
        cancelled.result(60)
    assert gate.runs == [1, 1]


def test_the_number_of_waiting_pairs_is_limited(bundle: Path) -> None:
    scorer = Scorer(bundle, Manifest.load(bundle), most_waiting=3)
    gate = Gate(bundle, Manifest.load(bundle))
    scorer._scoring = gate
    (first,) = scorer.submit(pairs(1))
    assert gate.began.wait(60)
    waiting = scorer.submit(pairs(2))
    scorer.check(1)
    with pytest.raises(Overloaded, match="2 translations wait to be scored and 2 more"):
        scorer.submit(pairs(2))
    with pytest.raises(Overloaded, match="1 more may wait, and one request may take half"):
        scorer.check(2)
    gate.may.set()
    scorer.close()  # scores what is waiting
    assert all(future.done() for future in (first, *waiting))
    with pytest.raises(Closed):
        scorer.submit(pairs(1))


def test_pairs_of_higher_priority_run_first(scorer: Scorer, gate: Gate) -> None:
    scorer.submit(pairs(1))
    assert gate.began.wait(60)
    order: list[str] = []
    many = scorer.submit(pairs(300))
    (urgent,) = scorer.submit([replace(pairs(1)[0], priority=9)])
    (last,) = scorer.submit([replace(pairs(1)[0], priority=0)])
    urgent.add_done_callback(lambda _: order.append("urgent"))
    last.add_done_callback(lambda _: order.append("last"))
    gate.may.set()
    for future in (*many, urgent, last):
        future.result(60)
    assert order == ["urgent", "last"]


def test_later_requests_wait_for_few_runs(scorer: Scorer, gate: Gate) -> None:
    long = TokenPair((4, *[11] * 98, END_ID), (11,) * 99)
    many = scorer.submit([long] * 200)
    assert gate.began.wait(60)
    late, important = replace(long, deadline_s=time.monotonic() - 1), replace(long, priority=9)
    overdue, urgent = scorer.submit([late, important])
    scored: list[int] = []
    overdue.add_done_callback(lambda _: scored.append(sum(gate.runs)))
    urgent.add_done_callback(lambda _: scored.append(sum(gate.runs)))
    gate.may.set()
    assert urgent.result(60).log_probs
    with pytest.raises(DeadlineExceeded):
        overdue.result(60)
    assert max(scored) <= 100
    assert all(future.result(60).log_probs for future in many)


def test_a_failure_affects_only_its_own_pairs(scorer: Scorer, gate: Gate) -> None:
    (first,) = scorer.submit(pairs(1))
    assert gate.began.wait(60)
    good = TokenPair((4, 11, END_ID), (11,))
    bad = replace(good, tgt_ids=(10**6,))
    earlier, failed, later = scorer.submit([good, bad, good])
    gate.may.set()
    with pytest.raises(ScoringFailure, match="scoring failed: InvalidArgument"):
        failed.result(60)
    assert earlier.result(60).log_probs == later.result(60).log_probs
    assert first.result(60).log_probs
    assert gate.runs == [1, 3, 1, 1, 1]


@pytest.mark.parametrize("where", ["replace", "like_lengths"])
def test_failures_end_every_wait(
    scorer: Scorer, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    with monkeypatch.context() as broken:
        broken.setattr(scorer_module, where, fail)
        for future in scorer.submit(pairs(3)):
            with pytest.raises(ScoringFailure, match="scoring failed: MemoryError"):
                future.result(10)
    assert scorer.submit(pairs(1))[0].result(60).log_probs


def test_a_bundle_without_the_graph_is_refused(bundle: Path) -> None:
    manifest = Manifest.load(bundle)
    graphs = {name: graph for name, graph in manifest.graphs.items() if name != "score"}
    scorer = Scorer(bundle, replace(manifest, graphs=graphs))
    with pytest.raises(ScoringFailure, match="the manifest has no graph 'score'"):
        scorer.submit(pairs(1))[0].result(60)
    scorer.close()


def test_runs_have_similar_lengths_and_a_size_limit() -> None:
    lengths = sorted((len(pair.tgt_ids) + 1, len(pair.src_ids)) for pair in pairs(200))
    groups = like_lengths(lengths)
    assert [length for group in groups for length in lengths[group]] == lengths
    assert 1 < len(groups) < len(lengths)
    for group in groups:
        for side in zip(*lengths[group], strict=True):
            assert len(side) * max(side) <= MOST_TOKENS
    assert like_lengths([(10**6, 1)]) == [slice(0, 1)]
    assert like_lengths([]) == []


def test_a_request_of_one_pair_does_not_wait_for_a_large_request(bundle: Path) -> None:
    scorer = Scorer(bundle, Manifest.load(bundle))
    gate = Gate(bundle, Manifest.load(bundle))
    scorer._scoring = gate
    (first,) = scorer.submit(pairs(1))
    assert gate.began.wait(60)
    order: list[str] = []
    large = scorer.submit(pairs(2000))
    (single,) = scorer.submit(pairs(1))
    large[-1].add_done_callback(lambda _: order.append("large"))
    single.add_done_callback(lambda _: order.append("single"))
    gate.may.set()
    scorer.close()
    assert first.done()
    assert order == ["single", "large"]
