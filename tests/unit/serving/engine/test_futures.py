from __future__ import annotations

from concurrent.futures import Future

import pytest
from dragoman_serving.engine.futures import when_all_done


def test_the_first_error_fails_the_whole_and_cancels_the_other_parts() -> None:
    parts: list[Future[int]] = [Future() for _ in range(3)]
    whole = when_all_done(parts, sum)
    parts[1].set_exception(ValueError("second"))
    assert parts[0].cancelled()
    assert parts[2].cancelled()
    with pytest.raises(ValueError, match="second"):
        whole.result(0)


def test_a_running_part_is_awaited() -> None:
    parts: list[Future[int]] = [Future() for _ in range(2)]
    whole = when_all_done(parts, sum)
    parts[1].set_running_or_notify_cancel()
    parts[0].set_exception(ValueError("first"))
    assert not whole.done()
    parts[1].set_result(1)
    with pytest.raises(ValueError, match="first"):
        whole.result(0)


def test_work_started_by_a_running_part_is_cancelled_with_the_whole() -> None:
    part: Future[Future[int]] = Future()
    begun: Future[int] = Future()
    prepared: Future[int] = when_all_done([part], lambda parts: parts[0])
    whole = when_all_done([prepared], sum)
    part.set_running_or_notify_cancel()
    whole.cancel()
    part.set_result(begun)
    assert begun.cancelled()


def test_all_results_are_joined() -> None:
    parts: list[Future[int]] = [Future() for _ in range(3)]
    whole = when_all_done(parts, sum)
    for part, value in zip(parts, (4, 2, 1), strict=True):
        part.set_result(value)
    assert whole.result(0) == 7
    assert when_all_done([], sum).result(0) == 0


def test_joining_may_return_another_future() -> None:
    part: Future[int] = Future()
    more: Future[int] = Future()
    whole: Future[int] = when_all_done([part], lambda _found: more)
    part.set_result(1)
    assert not whole.done()
    more.set_result(2)
    assert whole.result(0) == 2


def test_cancelling_the_whole_cancels_work_in_progress() -> None:
    part: Future[int] = Future()
    whole: Future[int] = when_all_done([part], lambda _found: part)
    whole.cancel()
    assert part.cancelled()
    first: Future[int] = Future()
    second: Future[int] = Future()
    whole = when_all_done([first], lambda _found: second)
    first.set_result(1)
    whole.cancel()
    assert second.cancelled()


def test_an_error_while_joining_is_the_error_of_the_whole() -> None:
    def fail(_found: list[int]) -> int:
        raise ValueError("not joined")

    part: Future[int] = Future()
    whole = when_all_done([part], fail)
    part.set_result(1)
    with pytest.raises(ValueError, match="not joined"):
        whole.result(0)
    second: Future[int] = Future()
    whole = when_all_done([part], lambda _found: second)
    second.set_exception(ValueError("later"))
    with pytest.raises(ValueError, match="later"):
        whole.result(0)
