"""The engine on a small fake model, and on a bundle against the oracle."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dragoman.hypothesis import Hypothesis
from dragoman.manifest import Manifest, SpecialIds
from serving.engine.cache import FIRST_CAPACITY, Cache, Floats, Ids
from serving.engine.engine import Engine, EngineFailure
from serving.engine.onnx_session import OnnxSession
from serving.engine.scheduler import BatchLimits, Closed, Overloaded
from serving.engine.sentence import SearchOptions, Sentence
from training import checkpoint
from training.search import beam_search, greedy_search

END, GREEDY = 3, SearchOptions(beam_width=1, length_penalty=0.0)
SPECIAL_IDS = SpecialIds(tags={"en": 4, "de": 5})


class CopySession:
    """A fake model that says the source again: its token at each position, then the end.

    It reads the source from the cross cache and what it said from the self cache, so that rows that
    are not where they belong show in the result.
    """

    def __init__(self) -> None:
        self.batch_sizes: list[int] = []
        self.steps = 0
        self.fail = False
        self.gate = threading.Event()
        self.gate.set()

    def encode(self, src_ids: Ids, src_lengths: Ids) -> Cache:
        self.gate.wait(10)
        self.batch_sizes.append(len(src_ids))
        if self.fail:
            raise RuntimeError("no memory")
        cross = src_ids[:, None, :, None].astype(np.float32)
        return Cache.begin([cross], src_lengths)

    def step(self, cache: Cache, input_ids: Ids, positions: Ids) -> tuple[Floats, Ids]:
        self.steps += 1
        ids = np.empty((cache.rows, 16), np.int64)
        scores = np.empty((cache.rows, 16), np.float32)
        for row, position in enumerate(positions):
            cache.past[0][row, 0, position, 0] = input_ids[row]
            said = cache.past[0][row, 0, 1 : position + 1, 0]
            source = cache.cross[0][row, 0, : cache.src_lengths[row], 0]
            best = source[position] if position < len(source) else END
            ids[row] = [best, *range(100, 115)]
            # A row that did not say what its source says is hopeless.
            scores[row] = -0.1 if np.array_equal(said, source[: len(said)]) else -20.0
        scores[:, 1:] -= np.arange(5, 20, dtype=np.float32)
        return scores, ids

    def reorder(self, cache: Cache, rows: Ids) -> None:
        cache.past = [part[rows] for part in cache.past]


@pytest.fixture
def session() -> CopySession:
    return CopySession()


@pytest.fixture
def engine(session: CopySession) -> Iterator[Engine]:
    running = Engine([session], SPECIAL_IDS, BatchLimits(rows=8, waiting=20))
    yield running
    session.gate.set()
    running.close()


def sentence(*ids: int, limit: int = 50, options: SearchOptions = GREEDY) -> Sentence:
    return Sentence(ids, limit, options)


def results(engine: Engine, sentences: list[Sentence]) -> list[Hypothesis]:
    return [future.result(30) for future in engine.submit(sentences)]


def test_sentences_of_all_lengths_come_back_to_their_futures(engine: Engine) -> None:
    generator = random.Random(0)
    sentences = [
        sentence(*(generator.randint(10, 90) for _ in range(generator.randint(1, 30))))
        for _ in range(20)
    ]
    for asked, found in zip(sentences, results(engine, sentences), strict=True):
        assert found.ids == asked.src_ids
        assert found.complete


def test_the_cache_grows_with_the_sentence(engine: Engine) -> None:
    long = sentence(*range(10, 10 + 3 * FIRST_CAPACITY), limit=100)
    assert results(engine, [long])[0].ids == long.src_ids


def test_widths_and_limits_may_differ_within_a_batch(engine: Engine, session: CopySession) -> None:
    session.gate.clear()
    sentences = [
        sentence(11, 12, 13, options=SearchOptions(3, 0.6)),
        sentence(21, 22, 23, 24, limit=2),
        sentence(31),
    ]
    futures = engine.submit([sentence(9)]) + engine.submit(sentences)
    session.gate.set()
    found = [future.result(30) for future in futures[1:]]
    assert [h.ids for h in found] == [(11, 12, 13), (21, 22), (31,)]
    assert [h.complete for h in found] == [True, False, True]


def test_what_waits_makes_one_batch_up_to_the_limit_of_rows(
    engine: Engine, session: CopySession
) -> None:
    session.gate.clear()
    first = engine.submit([sentence(10)])
    waiting = engine.submit([sentence(10) for _ in range(11)])
    session.gate.set()
    for future in first + waiting:
        future.result(30)
    assert sum(session.batch_sizes) == 12
    assert max(session.batch_sizes) <= 8


def test_idle_workers_share_what_waits() -> None:
    sessions = [CopySession(), CopySession()]
    engine = Engine(sessions, SPECIAL_IDS)

    def wait_for_idle(workers: int) -> None:
        deadline = time.monotonic() + 30
        while engine._scheduler._idle != workers:
            assert time.monotonic() < deadline
            time.sleep(0.001)

    wait_for_idle(2)
    for session in sessions:
        session.gate.clear()
    futures = engine.submit([sentence(10, *[11] * length) for length in range(9)])
    wait_for_idle(0)
    for session in sessions:
        session.gate.set()
    found = [future.result(30) for future in futures]
    engine.close()
    assert [len(h.ids) for h in found] == list(range(1, 10))
    assert sorted(sum(session.batch_sizes) for session in sessions) == [4, 5]


def test_a_failing_batch_fails_alone(engine: Engine, session: CopySession) -> None:
    session.fail = True
    (future,) = engine.submit([sentence(10)])
    with pytest.raises(EngineFailure, match="RuntimeError"):
        future.result(30)
    session.fail = False
    assert results(engine, [sentence(10)])[0].ids == (10,)


def test_too_many_waiting_are_refused_all_at_once(engine: Engine, session: CopySession) -> None:
    session.gate.clear()
    with pytest.raises(Overloaded, match="limit of 20"):
        engine.submit([sentence(10)] * 21)
    accepted = engine.submit([sentence(10)] * 20)
    session.gate.set()
    assert all(future.result(30).ids == (10,) for future in accepted)


def test_closing_finishes_what_waits_and_refuses_more(session: CopySession) -> None:
    engine = Engine([session], SPECIAL_IDS)
    session.gate.clear()
    futures = engine.submit([sentence(10), sentence(11)])
    session.gate.set()
    engine.close()
    assert [future.result(0).ids for future in futures] == [(10,), (11,)]
    with pytest.raises(Closed):
        engine.submit([sentence(10)])


@pytest.fixture(scope="module")
def bundle_engine(random_bundle: Path) -> Iterator[Engine]:
    manifest = Manifest.load(random_bundle)
    sessions = [OnnxSession(random_bundle, manifest, threads=1) for _ in range(2)]
    running = Engine(sessions, manifest.special_ids)
    yield running
    running.close()


def random_sentences(number: int) -> list[Sentence]:
    generator = random.Random(1)
    widths = (1, 2, 4, 8)
    return [
        Sentence(
            tuple(generator.randint(6, 319) for _ in range(generator.randint(2, 20))),
            generator.randint(3, 25),
            SearchOptions(generator.choice(widths), generator.choice((0.0, 0.6, 1.0))),
        )
        for _ in range(number)
    ]


def test_mixed_requests_equal_the_oracle_and_their_lone_runs(
    random_bundle: Path, bundle_engine: Engine
) -> None:
    model = checkpoint.load(random_bundle).model
    sentences = random_sentences(40)
    together = results(bundle_engine, sentences)
    for asked, found in zip(sentences, together, strict=True):
        options = asked.options
        (right,) = beam_search(
            *(model, [asked.src_ids], [asked.max_tokens]),
            beam_width=options.beam_width,
            alpha=options.length_penalty,
        )
        assert found.ids == right.ids
        assert found.complete == right.complete
        assert found.score == pytest.approx(right.score, abs=1e-3)
        assert results(bundle_engine, [asked])[0].ids == found.ids


def test_a_beam_of_one_is_greedy_search(random_bundle: Path, bundle_engine: Engine) -> None:
    model = checkpoint.load(random_bundle).model
    sentences = [Sentence(s.src_ids, s.max_tokens, GREEDY) for s in random_sentences(20)]
    right = greedy_search(model, [s.src_ids for s in sentences], [s.max_tokens for s in sentences])
    assert [h.ids for h in results(bundle_engine, sentences)] == [h.ids for h in right]
