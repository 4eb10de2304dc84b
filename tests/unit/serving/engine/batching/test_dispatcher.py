"""Threads that use the scheduler."""

from __future__ import annotations

import threading
import time

from dragoman_serving.engine.batching.dispatcher import Dispatcher
from dragoman_serving.engine.batching.job import Job
from dragoman_serving.engine.batching.pace import PaceMeter
from dragoman_serving.engine.batching.scheduler import Decision, Scheduler
from dragoman_serving.engine.batching.waiting_queue import Turns
from dragoman_serving.engine.sentence import SearchOptions, Sentence
from dragoman_serving.engine.settings import BatchLimits


def dispatcher(lone_rows: int = 0, idle_s: float = 10.0) -> Dispatcher:
    return Dispatcher(Scheduler(BatchLimits(), 2, lone_rows), PaceMeter(2), idle_s)


def job() -> Job:
    return Job(Sentence((4, 3), 9, SearchOptions(beam_width=1)))


def test_a_waiting_worker_continues_when_the_busy_one_is_done() -> None:
    shared = dispatcher(lone_rows=4)
    shared.add([job()], Turns())
    shared.decide(0, 0)
    decisions: list[Decision] = []
    takers = [
        threading.Thread(target=lambda w=w: decisions.append(shared.decide(w, 0))) for w in (1, 0)
    ]
    shared.add([job()], Turns())
    for taker in takers:
        taker.start()
    takers[0].join(0.2)
    shared.close()
    for taker in takers:
        taker.join(30)
    assert sorted(len(decision.joining) for decision in decisions) == [0, 1]
    assert sorted(decision.ends for decision in decisions) == [False, True]


def test_an_idle_worker_returns_after_a_timeout_or_an_arrival() -> None:
    begin_s = time.monotonic()
    assert dispatcher(idle_s=0.05).decide(0, 0) == Decision(waits=True)
    assert time.monotonic() - begin_s >= 0.05
    shared = dispatcher(idle_s=60)
    decisions: list[Decision] = []
    worker = threading.Thread(target=lambda: decisions.append(shared.decide(0, 0)))
    worker.start()
    time.sleep(0.05)
    shared.add([job()], Turns())
    worker.join(30)
    assert len(decisions[0].joining) == 1
