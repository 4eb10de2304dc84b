"""The engine's counts, and its time histograms."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from dragoman_serving.engine.batching.engine import Engine
from dragoman_serving.engine.batching.statistics import Statistics
from dragoman_serving.engine.histogram import BOUNDS_S
from dragoman_serving.engine.runtimes.session_decoding import Sessions
from dragoman_serving.engine.sentence import SearchOptions, Sentence
from dragoman_serving.engine.settings import BatchLimits

from dragoman.kernel.manifest import SpecialIds
from tests.unit.serving.engine.copy_session import CopySession
from tests.waiting import wait_for

WAIT_S = 60
ROWS = 4


@pytest.fixture
def session() -> CopySession:
    return CopySession()


@pytest.fixture
def engine(session: CopySession) -> Iterator[Engine]:
    special_ids = SpecialIds(tags={"en": 4, "de": 5})
    running = Engine(Sessions(session), special_ids, limits=BatchLimits(rows=ROWS, waiting=20))
    yield running
    session.gate.set()
    running.close()


def sentence(length: int) -> Sentence:
    return Sentence((11,) * length, 50, SearchOptions(beam_width=1, length_penalty=0.0))


def wait_for_rows(engine: Engine, rows: int) -> None:
    """Wait until this many rows are in flight and no sentence waits."""
    wait_for(lambda: engine.rows == rows and not engine.waiting)


def observed(engine: Engine) -> tuple[int, int, int]:
    """Number of values in the histograms."""
    counts = engine.statistics.counts
    return sum(counts.queue.counts), sum(counts.first_token.counts), sum(counts.total.counts)


def test_returned_counts_do_not_change() -> None:
    statistics = Statistics()
    counts = statistics.counts
    statistics.add(rejected=1)
    statistics._counts.total.observe(1.0)
    assert (counts.rejected, sum(counts.total.counts)) == (0, 0)
    assert statistics.counts != counts


def test_each_sentence_is_observed_once(engine: Engine) -> None:
    for future in engine.submit([sentence(1 + number) for number in range(3 * ROWS)]):
        future.result(WAIT_S)
    counts = engine.statistics.counts
    assert observed(engine) == (3 * ROWS,) * 3
    assert counts.completed == 3 * ROWS
    assert counts.queue.sum_s == pytest.approx(counts.queue_s)
    assert counts.first_token.sum_s == pytest.approx(counts.first_token_s)
    assert counts.total.sum_s == pytest.approx(counts.queue_s + counts.decode_s)
    assert 0 < counts.queue.sum_s < counts.first_token.sum_s < counts.total.sum_s


def test_times_fall_into_the_right_buckets(engine: Engine, session: CopySession) -> None:
    """A sentence joins at once, and its first step takes as long as the gate is closed."""
    session.gate.clear()
    (future,) = engine.submit([sentence(1)])
    wait_for_rows(engine, 1)
    time.sleep(0.11)
    session.gate.set()
    future.result(WAIT_S)
    counts = engine.statistics.counts
    beyond = BOUNDS_S.index(0.1) + 1
    assert sum(counts.first_token.counts[beyond:]) == 1
    assert sum(counts.total.counts[beyond:]) == 1
    assert counts.queue.sum_s < counts.first_token.sum_s - 0.1


def test_a_cancelled_sentence_is_observed_up_to_its_last_stage(
    engine: Engine, session: CopySession
) -> None:
    session.gate.clear()
    joined = engine.submit([sentence(2) for _ in range(ROWS)])
    wait_for_rows(engine, ROWS)
    waiting = engine.submit([sentence(2) for _ in range(ROWS)])
    for future in (joined[0], *waiting):
        assert future.cancel()
    wait_for_rows(engine, ROWS)
    session.gate.set()
    for future in joined[1:]:
        future.result(WAIT_S)
    wait_for_rows(engine, 0)
    assert observed(engine) == (ROWS, ROWS - 1, ROWS - 1)
    assert engine.statistics.counts.completed == ROWS - 1


def test_a_sentence_cancelled_before_its_first_step_is_not_observed_later(
    engine: Engine, session: CopySession
) -> None:
    """This also holds if no other sentence is in flight."""
    session.gate.clear()
    (future,) = engine.submit([sentence(2)])
    wait_for_rows(engine, 1)
    future.cancel()
    session.gate.set()
    wait_for_rows(engine, 0)
    engine.submit([sentence(1)])[0].result(WAIT_S)
    assert observed(engine) == (2, 1, 1)
