from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serving.engine.job import Job
from serving.engine.scheduler import BatchLimits, Closed, Overloaded, Scheduler, length_groups
from serving.engine.sentence import SearchOptions, Sentence


def jobs(*widths: int, priority: int = 0) -> list[Job]:
    return [Job(Sentence((4, 3), 9, SearchOptions(beam_width=w), priority)) for w in widths]


def test_admission_stops_at_the_limit_of_rows_in_order() -> None:
    scheduler = Scheduler(BatchLimits(rows=8), workers=1)
    waiting = jobs(4, 4, 1, 8)
    scheduler.add(waiting)
    assert scheduler.admit(0, 0) == waiting[:2]
    assert scheduler.admit(0, 8) == []
    assert scheduler.admit(0, 4) == waiting[2:3]
    assert scheduler.admit(0, 5) == []
    assert scheduler.admit(0, 0) == waiting[3:]


def test_a_sentence_wider_than_the_limit_goes_alone() -> None:
    scheduler = Scheduler(BatchLimits(rows=2), workers=1)
    scheduler.add(jobs(8, 1))
    assert [job.rows for job in scheduler.admit(0, 0) or []] == [8]
    assert [job.rows for job in scheduler.admit(0, 0) or []] == [1]


def test_workers_get_even_shares() -> None:
    scheduler = Scheduler(BatchLimits(rows=64), workers=2)
    scheduler.add(jobs(*[1] * 10))
    assert len(scheduler.admit(0, 0) or []) == 5
    assert len(scheduler.admit(1, 0) or []) == 5
    scheduler.add(jobs(1, 1, 1, 1))
    assert len(scheduler.admit(0, 5) or []) == 2


def test_few_wait_for_others_to_join_with_but_not_for_long() -> None:
    scheduler = Scheduler(BatchLimits(rows=64), workers=1)
    scheduler.add(jobs(*[1] * 16))
    assert len(scheduler.admit(0, 0) or []) == 16
    scheduler.add(jobs(1))
    steps = 0
    while not scheduler.admit(0, 16):
        steps += 1
        assert steps < 16
    assert steps > 1
    scheduler.add(jobs(1))
    assert scheduler.admit(0, 16) == []
    scheduler.add(jobs(*[1] * 4))
    assert len(scheduler.admit(0, 16) or []) == 5


def test_few_rows_stay_with_one_worker() -> None:
    scheduler = Scheduler(BatchLimits(), workers=2, lone_rows=4)
    scheduler.add(jobs(1))
    assert len(scheduler.admit(0, 0) or []) == 1
    scheduler.add(jobs(1, 1))
    assert scheduler.alone(0)
    assert len(scheduler.admit(0, 1) or []) == 2
    scheduler.add(jobs(1, 1, 1))
    assert len(scheduler.admit(1, 0) or []) == 3
    assert not scheduler.alone(0)


def test_a_waiting_worker_takes_over_when_the_busy_one_is_done() -> None:
    scheduler = Scheduler(BatchLimits(), workers=2, lone_rows=4)
    scheduler.add(jobs(1))
    scheduler.admit(0, 0)
    found: list[list[Job] | None] = []
    takers = [
        threading.Thread(target=lambda w=w: found.append(scheduler.admit(w, 0))) for w in (1, 0)
    ]
    scheduler.add(jobs(1))
    for taker in takers:
        taker.start()
    takers[0].join(0.2)
    scheduler.close()
    for taker in takers:
        taker.join(30)
    assert sorted(len(admitted or []) for admitted in found) == [0, 1]


def test_arrivals_are_taken_whole_or_not_at_all() -> None:
    scheduler = Scheduler(BatchLimits(waiting=3), workers=1)
    scheduler.add(jobs(1, 1))
    with pytest.raises(Overloaded, match="2 sentences are waiting and 2 more"):
        scheduler.add(jobs(1, 1))
    scheduler.add(jobs(1))
    assert len(scheduler.admit(0, 0) or []) == 3
    scheduler.close()
    with pytest.raises(Closed):
        scheduler.add(jobs(1))
    assert scheduler.admit(0, 0) is None


def test_higher_priority_goes_first_and_equal_ones_in_order() -> None:
    scheduler = Scheduler(BatchLimits(), workers=1)
    first, urgent, second = jobs(1), jobs(1, priority=5), jobs(1)
    for arrivals in (first, urgent, second):
        scheduler.add(arrivals)
    assert scheduler.admit(0, 0) == urgent + first + second


def test_what_is_dropped_is_not_handed_out() -> None:
    scheduler = Scheduler(BatchLimits(), workers=1)
    waiting = jobs(1, 2, 4)
    scheduler.add(waiting)
    assert scheduler.drop(lambda job: job.rows == 2) == waiting[1:2]
    assert scheduler.waiting == 2
    assert scheduler.admit(0, 0) == [waiting[0], waiting[2]]


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
