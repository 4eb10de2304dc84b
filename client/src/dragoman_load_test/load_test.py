"""A whole load test: a sweep over loads, or the search for what a server can hold.

Knows measurements and objectives; must not know command lines or how results are shown.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from dragoman_load_test.arrivals import Arrivals
from dragoman_load_test.capacity import find_capacity, machines_for
from dragoman_load_test.loops import ClosedLoop, Load, OpenLoop
from dragoman_load_test.machine import machine_in_words
from dragoman_load_test.measurement import Progress, Schedule, is_behind, measure
from dragoman_load_test.objectives import Objective
from dragoman_load_test.results import Judgement, Point, Run, Trial
from dragoman_load_test.senders import open_senders
from dragoman_load_test.target import Target
from dragoman_load_test.texts import TextMix

_START_CONCURRENCY = 32
_TRIAL_REQUESTS = 1000
"""Fewest that a trial sends, so that a 99th percentile means something."""
_MOST_TRIAL_WINDOWS = 12


@dataclass(frozen=True)
class Watcher:
    """Who is told while it runs."""

    window: Callable[[Progress], None] = lambda _: None
    point: Callable[[Point], None] = lambda _: None
    trial: Callable[[Trial], None] = lambda _: None


@dataclass(frozen=True)
class LoadTest:
    """What all loads of a test have in common.

    Attributes:
        target: the server and the form of requests.
        texts: what is sent; at least one.
        texts_name: of their file.
        schedule: how long each load is measured.
        metrics_url: where the server tells of itself; None: nowhere.
        command: for the record.
        watcher: who is told.
    """

    target: Target
    texts: Sequence[str]
    texts_name: str
    schedule: Schedule = field(default_factory=Schedule)
    metrics_url: str | None = None
    command: str = ""
    watcher: Watcher = field(default_factory=Watcher)

    def ask_once(self) -> None:
        """Send one text.

        Raises:
            TranslationError: it was not translated.
            ValueError: a file of the target's access does not hold what it should.
        """
        asyncio.run(self._ask_once())

    async def _ask_once(self) -> None:
        async with open_senders(self.target, [[self.texts[0]]]) as (send,):
            await send()

    def sweep(self, loads: Iterable[tuple[Load, int]], objectives: Sequence[Objective]) -> Run:
        """Put the server under one load after the other.

        Args:
            loads: each with its batch size.
            objectives: judged for each load.
        """
        date = _now()
        points = []
        for load, batch_size in loads:
            points.append(self._measure(load, batch_size, self.schedule))
            self.watcher.point(points[-1])
        judgements = [objective.judge(point) for point in points for objective in objectives]
        return self._run(date, points, judgements)

    def find_capacity(
        self,
        objectives: Sequence[Objective],
        batch_size: int = 1,
        arrivals: Arrivals = "poisson",
        wanted_per_s: float | None = None,
    ) -> Run:
        """Search the highest rate of an open loop that holds the objectives.

        Args:
            objectives: at least one.
            batch_size: sentences in a request.
            arrivals: how requests are spread.
            wanted_per_s: sentences a second to plan machines for.

        Returns:
            A run with a capacity, the loads that led to it, and the verdicts under it.
        """
        date = _now()
        short = dataclasses.replace(self.schedule, windows=2, most_windows=2, give_up=True)
        start = self._measure(ClosedLoop(_START_CONCURRENCY), batch_size, short)
        self.watcher.point(start)
        points = [start]
        judgements: list[Judgement] = []

        def tried(rate: float, schedule: Schedule) -> str:
            point = self._measure(OpenLoop(rate, arrivals), batch_size, schedule)
            verdicts = [objective.judge(point) for objective in objectives]
            missed = [f"{one.objective} missed: {one.found}" for one in verdicts if not one.met]
            in_flight = [window.in_flight for window in point.windows]
            if is_behind(in_flight, point.requests):
                missed.append("more came than was answered")
            self.watcher.trial(Trial(rate, not missed, "; ".join(missed)))
            if len(point.windows) == schedule.windows:
                points.append(point)
            judgements[:] = verdicts
            return "; ".join(missed)

        def try_briefly(rate: float) -> str:
            seconds = _TRIAL_REQUESTS * batch_size / rate
            windows = math.ceil(seconds / short.window_s)
            windows = min(max(windows, short.windows), _MOST_TRIAL_WINDOWS)
            return tried(rate, dataclasses.replace(short, windows=windows))

        def try_at_length(rate: float) -> str:
            return tried(rate, self.schedule)

        capacity = find_capacity(start.sentences_per_s.mean, try_briefly, try_at_length)
        if wanted_per_s is not None:
            machines = machines_for(wanted_per_s, capacity.sentences_per_s)
            capacity = dataclasses.replace(capacity, wanted_per_s=wanted_per_s, machines=machines)
        opened = sorted(points[1:], key=lambda point: point.amount)
        run = self._run(date, [start, *opened], judgements)
        return dataclasses.replace(run, capacity=capacity)

    def _measure(self, load: Load, batch_size: int, schedule: Schedule) -> Point:
        return measure(
            self.target,
            self.texts,
            batch_size,
            load,
            schedule,
            self.metrics_url,
            self.watcher.window,
        )

    def _run(self, date: str, points: Sequence[Point], judgements: Sequence[Judgement]) -> Run:
        return Run(
            date,
            self.command,
            self.target.url,
            self.target.protocol,
            self.target.options,
            TextMix.of(self.texts_name, self.texts),
            machine_in_words(),
            self.schedule.window_s,
            self.schedule.warm_up_s,
            tuple(points),
            tuple(judgements),
        )


def _now() -> str:
    return datetime.datetime.now().astimezone().isoformat(timespec="seconds")
