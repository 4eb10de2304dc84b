"""Recorded events of a scheduler, replayed without threads: its decisions must be the same.

`recorded_decisions.json` has two engines of two workers with eight rows each, and at most 60
waiting sentences. In the second one, up to six rows stay with one worker. Requests with and without
deadlines arrive faster than they are translated, and later more slowly; some are cancelled, and
some are wider than the limit. They were recorded from the scheduler when it held its own lock.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from dragoman_serving.engine.batching.acceptance import Arrival
from dragoman_serving.engine.batching.job import Job, State
from dragoman_serving.engine.batching.pace import Pace
from dragoman_serving.engine.batching.scheduler import Decision, Scheduler
from dragoman_serving.engine.batching.waiting_queue import Turns
from dragoman_serving.engine.sentence import SearchOptions, Sentence
from dragoman_serving.engine.settings import BatchLimits, Tuning

from dragoman.kernel.errors import DragomanError

RECORDS = json.loads((Path(__file__).parent / "recorded_decisions.json").read_text())
Event = dict[str, Any]


class Replay:
    """A scheduler, and the objects that the recorded numbers stand for."""

    def __init__(self, lone_rows: int, tuning: Tuning | None = None) -> None:
        self.scheduler = Scheduler(BatchLimits(rows=8, waiting=60), 2, lone_rows, tuning)
        self.turns: dict[int, Turns] = {}
        self.jobs: list[Job] = []

    def outcome(self, event: Event) -> Any:
        """The scheduler's next decision."""
        pace = Pace(*event["pace"]) if event.get("pace") else None
        match event["event"]:
            case "reserve":
                turns = self.turns.setdefault(event["request"], Turns())
                refusal = self.scheduler.line.reserve(Arrival(**event["arrival"]), pace, turns)
                return _told(refusal)
            case "add":
                arrivals = [_job(*sentence[1:]) for sentence in event["sentences"]]
                self.jobs += arrivals
                return _told(self.scheduler.add(arrivals, self.turns[event["request"]]))
            case "release":
                return self.scheduler.line.release(self.turns[event["request"]])
            case "drop":
                cancelled = {self.jobs[number] for number in event["cancelled"]}
                now_s = event["now_s"]
                gone = self.scheduler.drop(lambda job: job in cancelled or not job.is_wanted(now_s))
                return self.numbers(gone)
            case "decide":
                needed = pace if self.scheduler.needs_pace(event["rows"]) else None
                arguments = event["worker"], event["rows"], event["now_s"], needed
                return self.as_recorded(self.scheduler.decide(*arguments))
            case _:
                return self.scheduler.line.close()

    def numbers(self, jobs: list[Job] | tuple[Job, ...]) -> list[int]:
        return [self.jobs.index(job) for job in jobs]

    def as_recorded(self, decision: Decision) -> dict[str, Any]:
        fields = {name: value for name, value in vars(decision).items() if value}
        return {
            name: self.numbers(value) if isinstance(value, tuple) else value
            for name, value in fields.items()
        }


def _job(rows: int, src_tokens: int, priority: int, deadline_s: float | None) -> Job:
    options = SearchOptions(beam_width=rows)
    return Job(Sentence((4,) * src_tokens, 90, options, priority, deadline_s))


def _told(refusal: DragomanError | None) -> list[str] | None:
    return None if refusal is None else [type(refusal).__name__, str(refusal)]


@pytest.mark.parametrize("record", RECORDS)
def test_recorded_events_give_the_recorded_decisions(record: dict[str, Any]) -> None:
    replay = Replay(record["lone_rows"])
    for event in record["events"]:
        assert replay.outcome(event) == event.get("outcome"), event
    running = {number for e in record["events"] for number in _joining(e)}
    in_flight = {n for n, job in enumerate(replay.jobs) if job.state is State.RUNNING}
    assert in_flight == running


@pytest.mark.parametrize(
    "tuning",
    [
        Tuning(join_wait_steps=5),
        Tuning(join_few_divisor=8),
        Tuning(wait_margin=2.5),
        Tuning(overload_divisor=10),
        Tuning(overload_wait_s=1.0),
    ],
)
def test_other_numbers_give_other_decisions(tuning: Tuning) -> None:
    equal = []
    for record in RECORDS:
        replay = Replay(record["lone_rows"], tuning)
        equal += [replay.outcome(event) == event.get("outcome") for event in record["events"]]
    assert not all(equal)


def _joining(event: Event) -> list[int]:
    outcome = event.get("outcome")
    joining: list[int] = outcome.get("joining", []) if isinstance(outcome, dict) else []
    return joining
