from __future__ import annotations

from concurrent.futures import Future

import pytest
from dragoman_serving.engine.futures import when_all_done


def test_the_first_error_ends_the_whole_and_cancels_the_other_parts() -> None:
    parts: list[Future[int]] = [Future() for _ in range(3)]
    whole = when_all_done(parts, sum)
    parts[1].set_exception(ValueError("second"))
    assert parts[0].cancelled()
    assert parts[2].cancelled()
    with pytest.raises(ValueError, match="second"):
        whole.result(0)


def test_a_part_that_is_running_is_waited_for() -> None:
    parts: list[Future[int]] = [Future() for _ in range(2)]
    whole = when_all_done(parts, sum)
    parts[1].set_running_or_notify_cancel()
    parts[0].set_exception(ValueError("first"))
    assert not whole.done()
    parts[1].set_result(1)
    with pytest.raises(ValueError, match="first"):
        whole.result(0)


def test_all_results_are_joined() -> None:
    parts: list[Future[int]] = [Future() for _ in range(3)]
    whole = when_all_done(parts, sum)
    for part, value in zip(parts, (4, 2, 1), strict=True):
        part.set_result(value)
    assert whole.result(0) == 7
    assert when_all_done([], sum).result(0) == 0
