from __future__ import annotations

import threading
from concurrent.futures import CancelledError, InvalidStateError
from concurrent.futures import Future as PythonsFuture
from typing import Any

import pytest
from dragoman_serving.engine.futures import Future, when_all_done
from hypothesis import given
from hypothesis import strategies as st

STEPS = ("cancel", "callback", "bad callback", "run", "result", "error", "read", "error of")


def outcome_of(
    future: Future[int] | PythonsFuture[int],
    step: str,
    number: int,
    callbacks: list[tuple[int, bool]],
) -> Any:
    """What a step returns or raises, and the state after it."""

    def tell(done: Any) -> None:
        assert done is future
        callbacks.append((number, done.cancelled()))

    def fail(_: Any) -> None:
        raise ValueError

    steps: dict[str, Any] = {
        "cancel": future.cancel,
        "callback": lambda: future.add_done_callback(tell),
        "bad callback": lambda: future.add_done_callback(fail),
        "run": future.set_running_or_notify_cancel,
        "result": lambda: future.set_result(number),
        "error": lambda: future.set_exception(KeyError(number)),
        "read": lambda: future.result(0),
        "error of": lambda: future.exception(0),
    }
    try:
        outcome = steps[step]()
    except (CancelledError, InvalidStateError, TimeoutError, KeyError) as error:
        outcome = type(error)
    outcome = str(outcome) if isinstance(outcome, KeyError) else outcome
    return outcome, future.done(), future.cancelled(), future.running(), list(callbacks)


@given(steps=st.lists(st.sampled_from(STEPS), max_size=12))
def test_a_future_does_what_pythons_does(steps: list[str]) -> None:
    light, usual = Future[int](), PythonsFuture[int]()
    callbacks: tuple[list[tuple[int, bool]], list[tuple[int, bool]]] = ([], [])
    ran = 0
    for number, step in enumerate(steps):
        ran += step == "run"
        if step == "run" and ran > 1:
            continue  # Python's future allows it once
        if step in ("result", "error") and not usual.running():
            continue  # only after `set_running_or_notify_cancel`, as everywhere here
        outcome = outcome_of(light, step, number, callbacks[0])
        assert outcome == outcome_of(usual, step, number, callbacks[1])


def test_a_thread_may_wait_for_a_future() -> None:
    future, results = Future[int](), list[int]()
    threads = [threading.Thread(target=lambda: results.append(future.result(30))) for _ in range(3)]
    for thread in threads:
        thread.start()
    future.set_running_or_notify_cancel()
    future.set_result(5)
    for thread in threads:
        thread.join()
    assert results == [5, 5, 5]


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


def test_the_log_does_not_quote_a_callbacks_error(caplog: pytest.LogCaptureFixture) -> None:
    message = " ".join(["words", "of", "a", "request"])

    def fail(_: object) -> None:
        raise ValueError(message)

    future, others = Future[int](), list[int]()
    future.add_done_callback(fail)
    future.add_done_callback(lambda done: others.append(done.result(0)))
    future.set_running_or_notify_cancel()
    future.set_result(3)
    assert others == [3]
    assert "ValueError" in caplog.text
    assert message not in caplog.text
