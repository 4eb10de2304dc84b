"""A whole load test: a sweep over loads, or the search for a server's capacity."""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from dragoman_load_test.arrivals import Arrivals
from dragoman_load_test.capacity import find_capacity
from dragoman_load_test.loops import NOT_SENT, ClosedLoop, Load, OpenLoop
from dragoman_load_test.machine import machine_in_words
from dragoman_load_test.measurement import Progress, Schedule, is_behind, measure
from dragoman_load_test.objectives import Objective
from dragoman_load_test.requests.senders import open_senders
from dragoman_load_test.requests.target import Target
from dragoman_load_test.results import Point, Run, Trial
from dragoman_load_test.texts import TextMix

_START_CONCURRENCY = 32
_TRIAL_REQUESTS = 1000
"""Minimum number of requests of a trial, so that a 99th percentile is meaningful."""
_MOST_TRIAL_WINDOWS = 12
_OFFERED = 0.95
"""Minimum share of a rate that the generator must have sent for the trial to count."""


@dataclass(frozen=True)
class Watcher:
    """Callbacks that report progress."""

    window: Callable[[Progress], None] = lambda _: None
    point: Callable[[Point], None] = lambda _: None
    trial: Callable[[Trial], None] = lambda _: None


@dataclass(frozen=True)
class LoadTest:
    """The settings that all loads of a test share.

    Attributes:
        target: the server and the form of requests.
        texts: the texts to send; at least one.
        texts_name: name of their file.
        schedule: how long each load is measured.
        metrics_url: URL of the server metrics, or None.
        command: the command line, stored in the results.
        watcher: reports progress.
        date: start of the test, in ISO 8601.
    """

    target: Target
    texts: Sequence[str]
    texts_name: str
    schedule: Schedule = field(default_factory=Schedule)
    metrics_url: str | None = None
    command: str = ""
    watcher: Watcher = field(default_factory=Watcher)
    date: str = field(default_factory=lambda: _now())

    async def ask_once(self) -> None:
        """Send one text.

        Raises:
            TranslationError: it was not translated.
            ValueError: a file of the target's access has the wrong content.
        """
        async with open_senders(self.target, [[self.texts[0]]]) as (send,):
            await send()

    async def sweep(
        self, loads: Iterable[tuple[Load, int]], objectives: Sequence[Objective]
    ) -> Run:
        """Measure the server under each load in turn.

        Args:
            loads: the loads, each with its batch size.
            objectives: evaluated for each load.
        """
        points = []
        for load, batch_size in loads:
            points.append(await self._measure(load, batch_size, self.schedule))
            self.watcher.point(points[-1])
        return self.run_of(points, objectives)

    async def find_capacity(
        self,
        objectives: Sequence[Objective],
        batch_size: int = 1,
        arrivals: Arrivals = "poisson",
    ) -> Run:
        """Search for the highest rate of an open loop that meets the objectives.

        Args:
            objectives: at least one objective.
            batch_size: number of sentences in a request.
            arrivals: distribution of the arrivals.

        Returns:
            A run with the capacity, the loads of the search, and the verdicts at the capacity.
        """
        brief = dataclasses.replace(self.schedule, windows=2, most_windows=2, give_up=True)
        start = await self._measure(ClosedLoop(_START_CONCURRENCY), batch_size, brief)
        self.watcher.point(start)
        points = [start]
        confirmed: list[Point] = []

        def schedule_of(rate: float, least: int, most: int) -> Schedule:
            seconds = _TRIAL_REQUESTS * batch_size / rate
            windows = min(max(math.ceil(seconds / brief.window_s), least), most)
            return dataclasses.replace(brief, windows=windows)

        async def try_briefly(rate: float) -> str:
            schedule = schedule_of(rate, 2, _MOST_TRIAL_WINDOWS)
            point = await self._measure(OpenLoop(rate, arrivals), batch_size, schedule)
            if len(point.windows) == schedule.windows:  # else it was stopped early
                points.append(point)
            return "; ".join(objections(point, objectives))

        async def try_at_length(rate: float) -> str:
            least = max(2, self.schedule.windows)
            schedule = schedule_of(rate, least, max(least, _MOST_TRIAL_WINDOWS))
            point = await self._measure(OpenLoop(rate, arrivals), batch_size, schedule)
            points.append(point)
            confirmed[:] = [point]
            return "; ".join(objections(point, objectives))

        capacity = await find_capacity(
            start.sentences_per_s.mean, try_briefly, try_at_length, self.watcher.trial
        )
        for point in confirmed:
            self.watcher.point(point)
        judgements = [objective.judge(point) for point in confirmed for objective in objectives]
        opened = sorted(points[1:], key=lambda point: point.amount)
        run = self.run_of([start, *opened], ())
        return dataclasses.replace(run, judgements=tuple(judgements), capacity=capacity)

    def run_of(self, points: Sequence[Point], objectives: Sequence[Objective]) -> Run:
        """Returns the measured points as a run, with the verdicts on the objectives."""
        judgements = [objective.judge(point) for point in points for objective in objectives]
        return Run(
            self.date,
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

    async def _measure(self, load: Load, batch_size: int, schedule: Schedule) -> Point:
        return await measure(
            self.target,
            self.texts,
            batch_size,
            load,
            schedule,
            self.metrics_url,
            self.watcher.window,
        )


def objections(point: Point, objectives: Sequence[Objective]) -> list[str]:
    """Returns why a rate failed: missed objectives, a backlog, or a generator that was too slow."""
    verdicts = [objective.judge(point) for objective in objectives]
    reasons = [
        f"{verdict.objective} missed: {verdict.found}" for verdict in verdicts if not verdict.met
    ]
    if is_behind([window.in_flight for window in point.windows], point.requests):
        reasons.append("the backlog grew")
    seconds = sum(window.elapsed_s for window in point.windows)
    sent = (point.requests - point.errors[NOT_SENT]) * point.batch_size / seconds
    # The number of random arrivals varies by itself.
    spread = 3 * math.sqrt(point.amount * point.batch_size / seconds)
    if sent < _OFFERED * point.amount - spread:
        reasons.append(f"the generator sent only {sent:.1f} sentences/s")
    return reasons


def _now() -> str:
    return datetime.datetime.now().astimezone().isoformat(timespec="seconds")
