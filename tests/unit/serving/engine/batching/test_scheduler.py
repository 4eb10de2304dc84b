from __future__ import annotations

import pytest
from dragoman_serving.engine.batching.acceptance import Arrival
from dragoman_serving.engine.batching.job import Job
from dragoman_serving.engine.batching.pace import Pace
from dragoman_serving.engine.batching.scheduler import Decision, Scheduler
from dragoman_serving.engine.batching.waiting_queue import Turns
from dragoman_serving.engine.errors import Closed, Overloaded
from dragoman_serving.engine.sentence import SearchOptions, Sentence
from dragoman_serving.engine.settings import BatchLimits, Tuning


def jobs(*widths: int, priority: int = 0) -> list[Job]:
    return [Job(Sentence((4, 3), 9, SearchOptions(beam_width=w), priority)) for w in widths]


def decide(
    scheduler: Scheduler, worker: int, rows: int, now_s: float = 0.0, pace: Pace | None = None
) -> list[Job]:
    return list(scheduler.decide(worker, rows, now_s, pace).joining)


def add(scheduler: Scheduler, arrivals: list[Job], turns: Turns | None = None) -> None:
    if refusal := scheduler.add(arrivals, turns or Turns()):
        raise refusal


def reserve(scheduler: Scheduler, arrival: Arrival, turns: Turns, pace: Pace | None = None) -> None:
    if refusal := scheduler.line.reserve(arrival, pace, turns):
        raise refusal


def test_admission_stops_at_the_limit_of_rows_in_order() -> None:
    scheduler = Scheduler(BatchLimits(rows=8), workers=1)
    waiting = jobs(4, 4, 1, 8)
    add(scheduler, waiting)
    assert decide(scheduler, 0, 0) == waiting[:2]
    assert decide(scheduler, 0, 8) == []
    assert decide(scheduler, 0, 4) == waiting[2:3]
    assert decide(scheduler, 0, 5) == []
    assert decide(scheduler, 0, 0) == waiting[3:]


def test_a_sentence_wider_than_the_limit_runs_alone() -> None:
    scheduler = Scheduler(BatchLimits(rows=2), workers=1)
    add(scheduler, jobs(8, 1))
    assert [job.rows for job in decide(scheduler, 0, 0)] == [8]
    assert [job.rows for job in decide(scheduler, 0, 0)] == [1]


def test_a_worker_has_a_limited_number_of_kinds() -> None:
    scheduler = Scheduler(BatchLimits(rows=64, kinds=2), workers=1)
    waiting = jobs(1, 4, 1, 8, 1)
    add(scheduler, waiting)
    kinds = [(1, 1), (4, 1)]
    assert scheduler.decide(0, 0, 0.0, None).joining == tuple(waiting[:3])
    assert scheduler.decide(0, 6, 0.0, None, kinds).joining == ()
    assert scheduler.decide(0, 1, 0.0, None, kinds[:1]).joining == tuple(waiting[3:])


def test_workers_get_even_shares() -> None:
    scheduler = Scheduler(BatchLimits(rows=64), workers=2)
    add(scheduler, jobs(*[1] * 10))
    assert len(decide(scheduler, 0, 0)) == 5
    assert len(decide(scheduler, 1, 0)) == 5
    add(scheduler, jobs(1, 1, 1, 1))
    assert len(decide(scheduler, 0, 5)) == 2


def test_few_sentences_wait_briefly_for_others() -> None:
    scheduler = Scheduler(BatchLimits(rows=64), workers=1)
    add(scheduler, jobs(*[1] * 16))
    assert len(decide(scheduler, 0, 0)) == 16
    add(scheduler, jobs(1))
    steps = 0
    while not decide(scheduler, 0, 16):
        steps += 1
        assert steps < 16
    assert steps > 1
    add(scheduler, jobs(1))
    assert decide(scheduler, 0, 16) == []
    add(scheduler, jobs(*[1] * 4))
    assert len(decide(scheduler, 0, 16)) == 5


def test_few_rows_stay_with_one_worker() -> None:
    scheduler = Scheduler(BatchLimits(), workers=2, lone_rows=4)
    add(scheduler, jobs(1))
    assert len(decide(scheduler, 0, 0)) == 1
    add(scheduler, jobs(1, 1))
    decision = scheduler.decide(0, 1, 0.0, None)
    assert len(decision.joining) == 2
    assert decision.alone
    add(scheduler, jobs(1, 1, 1))
    assert len(decide(scheduler, 1, 0)) == 3
    assert not scheduler.decide(0, 3, 0.0, None).alone


def test_arrivals_are_accepted_completely_or_not_at_all() -> None:
    scheduler = Scheduler(BatchLimits(waiting=3), workers=1)
    add(scheduler, jobs(1, 1))
    with pytest.raises(Overloaded, match="2 sentences are waiting and 2 more"):
        add(scheduler, jobs(1, 1))
    add(scheduler, jobs(1))
    assert len(decide(scheduler, 0, 0)) == 3
    scheduler.line.close()
    with pytest.raises(Closed):
        add(scheduler, jobs(1))
    assert scheduler.decide(0, 0, 0.0, None) == Decision(ends=True)


def test_dropped_sentences_are_not_scheduled() -> None:
    scheduler = Scheduler(BatchLimits(), workers=1)
    waiting = jobs(1, 2, 4)
    add(scheduler, waiting)
    assert scheduler.drop(lambda job: job.rows == 2) == waiting[1:2]
    assert len(scheduler.line) == 2
    assert decide(scheduler, 0, 0) == [waiting[0], waiting[2]]


def test_a_request_of_one_does_not_wait_for_a_large_request() -> None:
    scheduler = Scheduler(BatchLimits(rows=4), workers=1)
    large, single = jobs(*[1] * 1000), jobs(1)
    add(scheduler, large)
    assert decide(scheduler, 0, 0) == large[:4]
    add(scheduler, single)
    assert decide(scheduler, 0, 2) == [large[4], *single]


STEADY = Pace(work_s=0.01, token_s=0.1)
"""A pace of one worker that steps ten rows in 0.1 s, one step for each source token."""


def of_tokens(number: int, deadline_s: float | None = None) -> Job:
    return Job(Sentence((4,) * number, 90, SearchOptions(1), deadline_s=deadline_s))


def single(left_s: float | None, tokens: int = 10) -> Arrival:
    return Arrival(items=1, work=tokens, longest=tokens, left_s=left_s)


def test_a_large_request_is_not_counted_against_a_small_one() -> None:
    scheduler = Scheduler(BatchLimits(rows=10), workers=1)
    add(scheduler, [of_tokens(10) for _ in range(10_000)])
    reserve(scheduler, single(left_s=3.0), Turns(), STEADY)


def test_one_request_may_take_half_of_the_free_space() -> None:
    scheduler = Scheduler(BatchLimits(rows=10, waiting=100), workers=1)
    first, second, third = Turns(), Turns(), Turns()
    reserve(scheduler, Arrival(50, 500, 10), first)
    with pytest.raises(Overloaded, match="50 sentences are waiting, 50 more may wait"):
        reserve(scheduler, Arrival(26, 260, 10), second)
    reserve(scheduler, Arrival(25, 250, 10), second)
    scheduler.line.release(first)
    reserve(scheduler, Arrival(37, 370, 10), third)
    add(scheduler, jobs(*[1] * 37), third)
    add(scheduler, jobs(*[1] * 38))
    with pytest.raises(Overloaded, match="limit of 100"):
        add(scheduler, jobs(1))
    add(scheduler, jobs(*[1] * 25), second)


def test_a_request_that_was_cancelled_reserves_nothing() -> None:
    scheduler = Scheduler(BatchLimits(rows=10, waiting=100), workers=1)
    cancelled = Turns()
    scheduler.line.release(cancelled)
    reserve(scheduler, Arrival(50, 500, 10), cancelled)
    reserve(scheduler, Arrival(50, 500, 10), Turns())


def test_late_sentences_get_no_row() -> None:
    scheduler = Scheduler(BatchLimits(rows=2), workers=1)
    late, in_time = of_tokens(20, deadline_s=101.0), of_tokens(20, deadline_s=105.0)
    for job in (late, in_time, of_tokens(1), of_tokens(1)):
        add(scheduler, [job])
    decision = scheduler.decide(0, 0, 100.0, STEADY)
    assert decision.late == (late,)
    assert decision.joining[0] is in_time
    lone = of_tokens(20, deadline_s=101.0)
    scheduler = Scheduler(BatchLimits(rows=2), workers=1)
    add(scheduler, [lone])
    assert decide(scheduler, 0, 0, 100.0, STEADY) == [lone]


def test_the_wait_of_few_sentences_is_tunable() -> None:
    scheduler = Scheduler(BatchLimits(), workers=1, tuning=Tuning(join_wait_steps=2))
    add(scheduler, jobs(*[1] * 16))
    decide(scheduler, 0, 0)
    add(scheduler, jobs(1))
    decisions = [scheduler.decide(0, 16, 0.0, None) for _ in range(3)]
    assert [decision.held_steps for decision in decisions] == [2, 1, 0]
    assert [len(decision.joining) for decision in decisions] == [0, 0, 1]


@pytest.mark.parametrize("steps", [1, 2, 3, 6])
def test_steps_of_one_call_count_as_a_wait_of_few_sentences(steps: int) -> None:
    scheduler = Scheduler(BatchLimits(), workers=1, tuning=Tuning(join_wait_steps=6))
    add(scheduler, jobs(*[1] * 16))
    decide(scheduler, 0, 0)
    add(scheduler, jobs(1))
    waited = 0
    while not decide(scheduler, 0, 16):
        assert scheduler.may_join == [False]
        scheduler.stepped(0, steps)
        waited += steps
    assert waited == 6


def test_a_call_ends_early_only_if_a_waiting_sentence_may_join_its_worker() -> None:
    scheduler = Scheduler(BatchLimits(rows=8), workers=2)
    add(scheduler, jobs(*[1] * 12))
    assert scheduler.may_join == [True, True]
    assert len(decide(scheduler, 0, 0)) == 6
    assert len(decide(scheduler, 1, 0)) == 6
    add(scheduler, jobs(1))
    assert scheduler.may_join == [True, True]  # each may have one more
    assert [len(decide(scheduler, 0, 6)) for _ in range(7)] == [0] * 6 + [1]
    add(scheduler, jobs(1))
    assert scheduler.may_join == [False, True]  # the other one has fewer
    assert [len(decide(scheduler, 1, 6)) for _ in range(7)] == [0] * 6 + [1]
    add(scheduler, jobs(*[1] * 20))
    assert scheduler.may_join == [True, True]
    for worker in (0, 1):
        assert decide(scheduler, worker, 7) == []
    assert scheduler.may_join == [False, False]  # one more is not worth it
    for worker in (0, 1):
        assert len(decide(scheduler, worker, 0)) == 8
    assert scheduler.may_join == [False, False]  # as many as they may have


def test_few_sentences_that_arrive_one_by_one_share_a_worker() -> None:
    scheduler = Scheduler(BatchLimits(single_rows=4), workers=2)
    for _ in range(3):
        add(scheduler, jobs(1))
    assert decide(scheduler, 1, 0) == []
    assert len(decide(scheduler, 0, 0)) == 3
    assert not scheduler.may_spread
    add(scheduler, jobs(1))
    assert not scheduler.may_spread
    assert decide(scheduler, 1, 0) == []
    assert len(decide(scheduler, 0, 3)) == 1
    for _ in range(4):  # more than one worker should take
        add(scheduler, jobs(1))
    assert scheduler.may_spread
    assert len(decide(scheduler, 1, 0)) == 4


def test_few_sentences_of_one_request_are_divided_among_workers() -> None:
    scheduler = Scheduler(BatchLimits(single_rows=4), workers=2)
    add(scheduler, jobs(1, 1))
    assert scheduler.may_spread
    assert len(decide(scheduler, 1, 0)) == 1
    assert len(decide(scheduler, 0, 0)) == 1


def test_with_more_workers_fewer_sentences_share_one() -> None:
    scheduler = Scheduler(BatchLimits(single_rows=4), workers=3)
    for _ in range(3):
        add(scheduler, jobs(1))
    assert len(decide(scheduler, 1, 0)) == 1
