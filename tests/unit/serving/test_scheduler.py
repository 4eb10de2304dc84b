from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.engine.scheduler import BatchLimits, Closed, Overloaded, Scheduler, length_groups
from serving.engine.sentence import SearchOptions, Sentence


@dataclass(frozen=True)
class Job:
    sentence: Sentence


def jobs(*widths: int) -> list[Job]:
    return [Job(Sentence((4, 3), 9, SearchOptions(beam_width=width))) for width in widths]


def test_a_batch_is_cut_at_the_limit_of_rows_in_order() -> None:
    scheduler = Scheduler[Job](BatchLimits(rows=8))
    waiting = jobs(4, 4, 1, 8, 8)
    scheduler.add(waiting)
    scheduler.close()
    assert scheduler.next_batch() == waiting[:2]
    assert scheduler.next_batch() == waiting[2:3]
    assert [len(scheduler.next_batch()) for _ in range(3)] == [1, 1, 0]


def test_a_sentence_wider_than_the_limit_goes_alone() -> None:
    scheduler = Scheduler[Job](BatchLimits(rows=2))
    scheduler.add(jobs(8, 1))
    assert [len(scheduler.next_batch()) for _ in range(2)] == [1, 1]


def test_arrivals_are_taken_whole_or_not_at_all() -> None:
    scheduler = Scheduler[Job](BatchLimits(waiting=3))
    scheduler.add(jobs(1, 1))
    with pytest.raises(Overloaded, match="2 sentences are waiting and 2 more"):
        scheduler.add(jobs(1, 1))
    scheduler.add(jobs(1))
    assert len(scheduler.next_batch()) == 3
    scheduler.close()
    with pytest.raises(Closed):
        scheduler.add(jobs(1))


@given(st.lists(st.integers(1, 200), min_size=1, max_size=60))
def test_length_groups_hold_all_and_waste_little(lengths: list[int]) -> None:
    lengths.sort()
    groups = [lengths[group] for group in length_groups(lengths)]
    assert [length for group in groups for length in group] == lengths
    assert all(len(group) * max(group) <= 1.15 * sum(group) for group in groups)
