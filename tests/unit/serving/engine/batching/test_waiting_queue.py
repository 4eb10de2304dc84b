from __future__ import annotations

import random

from dragoman_serving.engine.batching.waiting_queue import Turns, WaitingQueue
from hypothesis import given
from hypothesis import strategies as st


def taken(line: WaitingQueue[str], number: int) -> str:
    return "".join(line.take() for _ in range(number))


def test_items_of_a_request_take_turns_with_other_requests() -> None:
    line: WaitingQueue[str] = WaitingQueue()
    large = Turns()
    for item in "abcdef":
        line.add(item, large)
    assert taken(line, 2) == "ab"
    line.add("1", Turns())
    line.add("2", Turns())
    more = Turns()
    for item in "xyz":
        line.add(item, more)
    assert taken(line, 4) == "c12x"
    assert taken(line, 5) == "dyezf"
    assert not line


def test_later_items_of_a_request_wait_behind_its_earlier_ones() -> None:
    line: WaitingQueue[str] = WaitingQueue()
    turns = Turns()
    for item in "abc":
        line.add(item, turns)
    line.add("1", Turns())
    line.add("d", turns)
    line.add("2", Turns())
    assert taken(line, 6) == "a12bcd"


def test_priority_comes_before_turns_and_does_not_disturb_them() -> None:
    line: WaitingQueue[str] = WaitingQueue()
    urgent, large = Turns(), Turns()
    for item in "ABCDEFGH":
        line.add(item, urgent, priority=1)
    for item in "abcd":
        line.add(item, large)
    assert taken(line, 9) == "ABCDEFGHa"
    line.add("1", Turns())
    assert taken(line, 4) == "b1cd"


def test_work_ahead_counts_earlier_turns() -> None:
    line: WaitingQueue[int] = WaitingQueue()
    large = Turns()
    for item in range(100):
        line.add(item, large, work=10)
    line.add(0, Turns(), work=3)
    assert line.work_ahead(1) == 13
    assert line.work_ahead(5) == 53
    assert line.work_ahead(1000) == 1003
    assert line.work_ahead(1, priority=1) == 0
    line.add(0, Turns(), work=7, priority=1)
    assert line.work_ahead(1) == 20
    line.drop(lambda item: item % 2 == 1)
    assert len(line) == 52
    assert line.work_ahead(1000) == 510


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 9)), max_size=60), st.randoms())
def test_every_item_is_taken_once_and_in_its_requests_order(
    additions: list[tuple[int, int]], chance: random.Random
) -> None:
    line: WaitingQueue[tuple[int, int]] = WaitingQueue()
    turns = [Turns() for _ in range(5)]
    order: list[tuple[int, int]] = []
    works = [work for _, work in additions]
    for number, (request, work) in enumerate(additions):
        line.add((request, number), turns[request], work)
        if line and chance.random() < 0.3:
            order.append(line.take())
    left = sum(works) - sum(works[number] for _, number in order)
    assert line.work_ahead(len(additions)) == left
    while line:
        order.append(line.take())
    assert sorted(order, key=lambda item: item[1]) == [
        (request, number) for number, (request, _) in enumerate(additions)
    ]
    for request in range(5):
        numbers = [number for which, number in order if which == request]
        assert numbers == sorted(numbers)
