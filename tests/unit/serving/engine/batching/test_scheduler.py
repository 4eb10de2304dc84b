from __future__ import annotations

import threading

import pytest
from dragoman_serving.engine.batching.job import Job
from dragoman_serving.engine.batching.line import Turns
from dragoman_serving.engine.batching.pace import Pace
from dragoman_serving.engine.batching.scheduler import (
    Arrival,
    BatchLimits,
    Scheduler,
    length_groups,
)
from dragoman_serving.engine.errors import Closed, DeadlineExceeded, Overloaded
from dragoman_serving.engine.sentence import SearchOptions, Sentence
from hypothesis import given, settings
from hypothesis import strategies as st


def jobs(*widths: int, priority: int = 0) -> list[Job]:
    return [Job(Sentence((4, 3), 9, SearchOptions(beam_width=w), priority)) for w in widths]


def admit(scheduler: Scheduler, worker: int, rows: int, now_s: float = 0.0) -> list[Job]:
    admission = scheduler.admit(worker, rows, now_s)
    return admission.joining if admission else []


def test_admission_stops_at_the_limit_of_rows_in_order() -> None:
    scheduler = Scheduler(BatchLimits(rows=8), workers=1)
    waiting = jobs(4, 4, 1, 8)
    scheduler.add(waiting)
    assert admit(scheduler, 0, 0) == waiting[:2]
    assert admit(scheduler, 0, 8) == []
    assert admit(scheduler, 0, 4) == waiting[2:3]
    assert admit(scheduler, 0, 5) == []
    assert admit(scheduler, 0, 0) == waiting[3:]


def test_a_sentence_wider_than_the_limit_goes_alone() -> None:
    scheduler = Scheduler(BatchLimits(rows=2), workers=1)
    scheduler.add(jobs(8, 1))
    assert [job.rows for job in admit(scheduler, 0, 0)] == [8]
    assert [job.rows for job in admit(scheduler, 0, 0)] == [1]


def test_workers_get_even_shares() -> None:
    scheduler = Scheduler(BatchLimits(rows=64), workers=2)
    scheduler.add(jobs(*[1] * 10))
    assert len(admit(scheduler, 0, 0)) == 5
    assert len(admit(scheduler, 1, 0)) == 5
    scheduler.add(jobs(1, 1, 1, 1))
    assert len(admit(scheduler, 0, 5)) == 2


def test_few_wait_for_others_to_join_with_but_not_for_long() -> None:
    scheduler = Scheduler(BatchLimits(rows=64), workers=1)
    scheduler.add(jobs(*[1] * 16))
    assert len(admit(scheduler, 0, 0)) == 16
    scheduler.add(jobs(1))
    steps = 0
    while not admit(scheduler, 0, 16):
        steps += 1
        assert steps < 16
    assert steps > 1
    scheduler.add(jobs(1))
    assert admit(scheduler, 0, 16) == []
    scheduler.add(jobs(*[1] * 4))
    assert len(admit(scheduler, 0, 16)) == 5


def test_few_rows_stay_with_one_worker() -> None:
    scheduler = Scheduler(BatchLimits(), workers=2, lone_rows=4)
    scheduler.add(jobs(1))
    assert len(admit(scheduler, 0, 0)) == 1
    scheduler.add(jobs(1, 1))
    assert scheduler.alone(0)
    assert len(admit(scheduler, 0, 1)) == 2
    scheduler.add(jobs(1, 1, 1))
    assert len(admit(scheduler, 1, 0)) == 3
    assert not scheduler.alone(0)


def test_a_waiting_worker_takes_over_when_the_busy_one_is_done() -> None:
    scheduler = Scheduler(BatchLimits(), workers=2, lone_rows=4)
    scheduler.add(jobs(1))
    scheduler.admit(0, 0)
    found: list[list[Job]] = []
    takers = [
        threading.Thread(target=lambda w=w: found.append(admit(scheduler, w, 0))) for w in (1, 0)
    ]
    scheduler.add(jobs(1))
    for taker in takers:
        taker.start()
    takers[0].join(0.2)
    scheduler.close()
    for taker in takers:
        taker.join(30)
    assert sorted(len(admitted) for admitted in found) == [0, 1]


def test_arrivals_are_taken_whole_or_not_at_all() -> None:
    scheduler = Scheduler(BatchLimits(waiting=3), workers=1)
    scheduler.add(jobs(1, 1))
    with pytest.raises(Overloaded, match="2 sentences are waiting and 2 more"):
        scheduler.add(jobs(1, 1))
    scheduler.add(jobs(1))
    assert len(admit(scheduler, 0, 0)) == 3
    scheduler.close()
    with pytest.raises(Closed):
        scheduler.add(jobs(1))
    assert scheduler.admit(0, 0) is None


def test_higher_priority_goes_first_and_equal_ones_in_order() -> None:
    scheduler = Scheduler(BatchLimits(), workers=1)
    first, urgent, second = jobs(1), jobs(1, priority=5), jobs(1)
    for arrivals in (first, urgent, second):
        scheduler.add(arrivals)
    assert admit(scheduler, 0, 0) == urgent + first + second


def test_what_is_dropped_is_not_handed_out() -> None:
    scheduler = Scheduler(BatchLimits(), workers=1)
    waiting = jobs(1, 2, 4)
    scheduler.add(waiting)
    assert scheduler.drop(lambda job: job.rows == 2) == waiting[1:2]
    assert scheduler.waiting == 2
    assert admit(scheduler, 0, 0) == [waiting[0], waiting[2]]


def test_a_request_of_one_does_not_wait_for_a_large_request() -> None:
    scheduler = Scheduler(BatchLimits(rows=4), workers=1)
    large, single = jobs(*[1] * 1000), jobs(1)
    scheduler.add(large)
    assert admit(scheduler, 0, 0) == large[:4]
    scheduler.add(single)
    assert admit(scheduler, 0, 2) == [large[4], *single]


def steady() -> Pace:
    """Of one worker: a sentence of ten tokens takes ten steps; 100 row steps in a second."""
    pace = Pace(workers=1)
    for _ in range(200):
        pace.finished(steps=10, src_tokens=10)
        pace.stepped(rows=10, elapsed_s=0.1)
    return pace


def of_tokens(number: int, deadline_s: float | None = None) -> Job:
    return Job(Sentence((4,) * number, 90, SearchOptions(1), deadline_s=deadline_s))


def single(left_s: float | None, tokens: int = 10) -> Arrival:
    return Arrival(sentences=1, work=tokens, longest=tokens, left_s=left_s)


def test_what_cannot_be_done_in_time_is_refused_on_arrival() -> None:
    scheduler = Scheduler(BatchLimits(rows=10), workers=1, pace=steady())
    for _ in range(60):
        scheduler.add([of_tokens(10)])  # each 0.1 s of work
    scheduler.reserve(single(None), Turns())
    scheduler.reserve(single(left_s=20.0), Turns())
    with pytest.raises(Overloaded, match=r"which takes about 6.0 s.* is 5.0 s: try again in 6 s"):
        scheduler.reserve(single(left_s=5.0), Turns())


def test_an_overloaded_line_gets_short_before_it_may_get_long_again() -> None:
    scheduler = Scheduler(BatchLimits(rows=10), workers=1, pace=steady())
    for _ in range(30):
        scheduler.add([of_tokens(10)])
    scheduler.reserve(single(left_s=10.0), Turns())
    with pytest.raises(Overloaded):
        scheduler.reserve(single(left_s=5.0), Turns())
    with pytest.raises(Overloaded):
        scheduler.reserve(single(left_s=10.0), Turns())
    for _ in range(3):
        assert len(admit(scheduler, 0, 0)) == 10
    scheduler.add([of_tokens(10) for _ in range(30)])
    scheduler.reserve(single(left_s=10.0), Turns())


def test_a_request_that_takes_longer_than_it_allows_is_told_so() -> None:
    scheduler = Scheduler(BatchLimits(rows=10), workers=1, pace=steady())
    large = Arrival(sentences=200, work=2000, longest=10, left_s=5.0)
    with pytest.raises(DeadlineExceeded, match=r"takes about 21.0 s .* and its time is 5.0 s"):
        scheduler.reserve(large, Turns())
    scheduler.reserve(single(left_s=0.1), Turns())  # nothing waits: it may be fast enough


def test_a_large_request_is_not_counted_against_a_small_one() -> None:
    scheduler = Scheduler(BatchLimits(rows=10), workers=1, pace=steady())
    scheduler.add([of_tokens(10) for _ in range(10_000)])
    scheduler.reserve(single(left_s=3.0), Turns())


def test_one_request_may_take_half_of_what_is_free() -> None:
    scheduler = Scheduler(BatchLimits(rows=10, waiting=100), workers=1)
    first, second, third = Turns(), Turns(), Turns()
    scheduler.reserve(Arrival(50, 500, 10), first)
    with pytest.raises(Overloaded, match="50 sentences are waiting, 50 more may wait"):
        scheduler.reserve(Arrival(26, 260, 10), second)
    scheduler.reserve(Arrival(25, 250, 10), second)
    scheduler.release(first)
    scheduler.reserve(Arrival(37, 370, 10), third)
    scheduler.add(jobs(*[1] * 37), third)
    scheduler.add(jobs(*[1] * 38))
    with pytest.raises(Overloaded, match="limit of 100"):
        scheduler.add(jobs(1))
    scheduler.add(jobs(*[1] * 25), second)


def test_a_request_that_was_cancelled_reserves_nothing() -> None:
    scheduler = Scheduler(BatchLimits(rows=10, waiting=100), workers=1)
    cancelled = Turns()
    scheduler.release(cancelled)
    scheduler.reserve(Arrival(50, 500, 10), cancelled)
    scheduler.reserve(Arrival(50, 500, 10), Turns())


def test_what_would_be_late_gets_no_row() -> None:
    scheduler = Scheduler(BatchLimits(rows=2), workers=1, pace=steady())
    late, in_time = of_tokens(20, deadline_s=101.0), of_tokens(20, deadline_s=105.0)
    for job in (late, in_time, of_tokens(1), of_tokens(1)):
        scheduler.add([job])
    admission = scheduler.admit(0, 0, now_s=100.0)
    assert admission
    assert admission.late == [late]
    assert admission.joining[0] is in_time
    lone = of_tokens(20, deadline_s=101.0)
    scheduler = Scheduler(BatchLimits(rows=2), workers=1, pace=steady())
    scheduler.add([lone])
    assert admit(scheduler, 0, 0, now_s=100.0) == [lone]


@settings(deadline=None)
@given(st.lists(st.integers(1, 200), min_size=1, max_size=60))
def test_length_groups_hold_all_and_waste_little(lengths: list[int]) -> None:
    lengths.sort()
    groups = [lengths[group] for group in length_groups(lengths, 512, padded=True)]
    assert [length for group in groups for length in group] == lengths
    assert all(len(group) * max(group) <= 1.15 * sum(group) for group in groups)
    assert all(len(group) == 1 or len(group) * max(group) <= 512 for group in groups)
    unpadded = [lengths[group] for group in length_groups(lengths, 512, padded=False)]
    assert [length for group in unpadded for length in group] == lengths
    assert all(len(group) == 1 or sum(group) <= 512 for group in unpadded)
