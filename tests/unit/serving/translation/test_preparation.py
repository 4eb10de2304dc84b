from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial

import pytest
from dragoman_serving.engine.batching.waiting_queue import Turns
from dragoman_serving.engine.errors import Closed
from dragoman_serving.engine.settings import Tuning
from dragoman_serving.translation.preparation import Preparation, cut

WAIT_S = 60
TUNING = Tuning(part_texts=3, part_characters=10)


@pytest.fixture
def preparation() -> Iterator[Preparation]:
    running = Preparation()
    yield running
    running.close()


def test_requests_are_prepared_in_turns(preparation: Preparation) -> None:
    may_begin = threading.Event()
    preparation.submit(lambda: may_begin.wait(WAIT_S), Turns())
    order: list[str] = []
    large, other = Turns(), Turns()
    futures = [preparation.submit(partial(order.append, name), large) for name in "abc"]
    futures += [preparation.submit(partial(order.append, name), other) for name in "12"]
    may_begin.set()
    for future in futures:
        future.result(WAIT_S)
    assert "".join(order) == "a1b2c"


def test_only_the_failing_part_fails(preparation: Preparation) -> None:
    failing = preparation.submit(partial("abc".index, "d"), Turns())
    with pytest.raises(ValueError, match="substring not found"):
        failing.result(WAIT_S)
    assert preparation.submit(lambda: 7, Turns()).result(WAIT_S) == 7


def test_a_cancelled_part_is_not_run(preparation: Preparation) -> None:
    may_begin = threading.Event()
    preparation.submit(lambda: may_begin.wait(WAIT_S), Turns())
    ran: list[int] = []
    cancelled = preparation.submit(lambda: ran.append(1), Turns())
    last = preparation.submit(lambda: ran.append(2), Turns())
    assert cancelled.cancel()
    may_begin.set()
    last.result(WAIT_S)
    assert ran == [2]


def test_closing_runs_waiting_parts_and_accepts_no_more() -> None:
    preparation = Preparation()
    futures = [preparation.submit(lambda: 1, Turns()) for _ in range(9)]
    preparation.close()
    assert [future.result(0) for future in futures] == [1] * 9
    with pytest.raises(Closed):
        preparation.submit(lambda: 1, Turns())


@pytest.mark.parametrize(
    ("lengths", "parts"),
    [
        ([1] * 3, [3]),
        ([1] * 7, [3, 3, 1]),  # by their number
        ([5, 5, 1, 9, 2], [2, 2, 1]),  # by their characters
        ([11, 1, 11, 11], [1, 1, 1, 1]),  # a text is never split
        ([1, 11], [1, 1]),
    ],
)
def test_a_large_request_is_prepared_in_parts_of_limited_size(
    lengths: list[int], parts: list[int]
) -> None:
    groups = cut(["a" * length for length in lengths], TUNING)
    assert list(map(len, groups)) == parts
    # Each text is in one part, and they keep their order.
    assert [index for part in groups for index in part] == list(range(len(lengths)))
