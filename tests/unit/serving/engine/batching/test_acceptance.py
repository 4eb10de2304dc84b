from __future__ import annotations

import pytest
from dragoman_serving.engine.batching.acceptance import Arrival, BoundedLine
from dragoman_serving.engine.batching.job import Job
from dragoman_serving.engine.batching.pace import Pace
from dragoman_serving.engine.batching.waiting_queue import Turns
from dragoman_serving.engine.errors import DeadlineExceeded, Overloaded
from dragoman_serving.engine.sentence import SearchOptions, Sentence
from dragoman_serving.engine.settings import Tuning

PACE = Pace(work_s=0.1, token_s=0.0)


def line(wait_s: float = 0.0, tuning: Tuning | None = None) -> BoundedLine[Job]:
    """A queue in which a request of one item would wait this long."""
    made: BoundedLine[Job] = BoundedLine(1000, "sentences are waiting", 64, tuning or Tuning())
    fill(made, wait_s)
    return made


def fill(made: BoundedLine[Job], wait_s: float) -> None:
    for _ in range(round(wait_s / PACE.work_s)):
        made.accept([Job(Sentence((3,), 9, SearchOptions(beam_width=1)))], Turns())


def ask(made: BoundedLine[Job], left_s: float, own_s: float = 0.1) -> None:
    if refusal := made.reserve(Arrival(1, round(own_s / PACE.work_s), left_s=left_s), PACE):
        raise refusal


def test_a_request_may_wait_twice_as_long_as_estimated() -> None:
    ask(line(wait_s=4.9), left_s=10)
    with pytest.raises(Overloaded, match=r"about 5.0 s, and the request's time is 10.0 s"):
        ask(line(wait_s=5.0), left_s=10)
    with pytest.raises(Overloaded):
        ask(line(wait_s=4.9, tuning=Tuning(wait_margin=3)), left_s=10)


def test_after_a_refusal_the_queue_must_stay_short_until_it_is_empty() -> None:
    made = line(wait_s=6)
    with pytest.raises(Overloaded):
        ask(made, left_s=10)
    for _ in range(round(3 / PACE.work_s)):
        made.take()
    with pytest.raises(Overloaded, match="try again in 3 s"):
        ask(made, left_s=10)
    ask(made, left_s=60)
    for _ in range(25):
        made.take()
    ask(made, left_s=10)
    fill(made, 2.5)
    with pytest.raises(Overloaded):
        ask(made, left_s=10)
    made.drop(lambda _job: True)
    fill(made, 2.5)
    ask(made, left_s=10)


def test_the_wait_after_a_refusal_is_tunable() -> None:
    made = line(wait_s=6, tuning=Tuning(overload_wait_s=6.0))
    with pytest.raises(Overloaded):
        ask(made, left_s=10)
    ask(made, left_s=60)
    made = line(wait_s=6, tuning=Tuning(overload_divisor=2))
    with pytest.raises(Overloaded):
        ask(made, left_s=10)
    ask(made, left_s=14)


def test_a_too_large_request_is_not_an_overload() -> None:
    made = line(wait_s=1)
    with pytest.raises(DeadlineExceeded, match=r"takes about 50.0 s on this busy server"):
        ask(made, left_s=10, own_s=50)
    fill(made, 2)
    ask(made, left_s=10)


def test_an_idle_server_accepts_requests_with_short_deadlines() -> None:
    ask(line(), left_s=0.05, own_s=0.1)
