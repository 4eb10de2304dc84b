from __future__ import annotations

import queue
from collections.abc import Iterator
from functools import partial

import pytest
from dragoman_serving.relay.cancellation import CancellationWatch


class Request:
    """A request whose client may have gone."""

    def __init__(self, gone: bool, answered: bool = False) -> None:
        self.gone = gone
        self.is_answered = answered
        self.asked = 0

    def is_cancelled(self) -> bool:
        self.asked += 1
        return self.gone


class Unanswering(Request):
    def is_cancelled(self) -> bool:
        raise OSError


@pytest.fixture
def watch() -> Iterator[CancellationWatch]:
    running = CancellationWatch()
    yield running
    running.close()


def test_only_what_is_cancelled_and_not_answered_is_given_up(watch: CancellationWatch) -> None:
    requests = [Request(index % 3 == 0) for index in range(60)]  # more than are asked at once
    answered = Request(gone=True, answered=True)
    given_up: queue.Queue[Request] = queue.Queue()
    watch.watch(answered, partial(given_up.put, answered))
    for request in requests:
        watch.watch(request, partial(given_up.put, request))
    found = [given_up.get(timeout=60) for _ in range(20)]
    assert {id(request) for request in found} == {id(one) for one in requests if one.gone}
    assert all(request.asked == 1 for request in found)
    assert answered.asked == 0
    # Those that stay are asked again, and given up when they go.
    requests[1].gone = True
    assert given_up.get(timeout=60) is requests[1]
    assert given_up.empty()


def test_one_that_cannot_be_asked_does_not_end_the_watch(watch: CancellationWatch) -> None:
    given_up: queue.Queue[str] = queue.Queue()
    watch.watch(Unanswering(gone=True), partial(given_up.put, "unanswering"))
    watch.watch(Request(gone=True), partial(given_up.put, "gone"))
    assert given_up.get(timeout=60) == "gone"
