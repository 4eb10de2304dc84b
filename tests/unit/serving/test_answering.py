from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial

import pytest

from serving.triton_models import answering
from serving.triton_models.answering import Answering


@pytest.fixture
def answers() -> Iterator[Answering]:
    running = Answering()
    yield running
    running.close()


def expect(answers: Answering, number: int) -> None:
    for _ in range(number):
        answers.expect()


def test_with_few_in_flight_an_answer_is_given_at_once(answers: Answering) -> None:
    expect(answers, 2)
    given: list[int] = []
    answers.add(lambda: given.append(threading.get_ident()))
    assert given == [threading.get_ident()]


def test_with_many_in_flight_answers_go_out_in_groups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(answering, "_LONGEST_S", 3600)
    answers = Answering()
    expect(answers, 64)
    given: list[int] = []
    for index in range(7):
        answers.add(partial(given.append, index))
    time.sleep(0.05)
    assert given == []
    answers.add(partial(given.append, 7))
    deadline = time.monotonic() + 30
    while sorted(given) != list(range(8)):
        assert time.monotonic() < deadline
        time.sleep(0.001)
    answers.close()


def test_none_is_held_for_long(answers: Answering) -> None:
    expect(answers, 100)
    given = threading.Event()
    answers.add(given.set)
    assert given.wait(30)


def test_one_that_fails_does_not_keep_back_the_others(answers: Answering) -> None:
    expect(answers, 3)
    given = threading.Event()
    answers.add(partial(exec, "1 // 0"))
    answers.add(given.set)
    assert given.is_set()


def test_closing_gives_what_is_held(answers: Answering) -> None:
    expect(answers, 100)
    given: list[int] = []
    for index in range(5):
        answers.add(partial(given.append, index))
    answers.close()
    assert sorted(given) == list(range(5))
