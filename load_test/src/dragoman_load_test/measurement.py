"""Measures a server under one load: warm-up, windows, and whether the windows agree."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass

from dragoman_load_test.confidence import Estimate, drift
from dragoman_load_test.latency import LatencyHistogram
from dragoman_load_test.ledger import Ledger, Page
from dragoman_load_test.loops import Clients, ClosedLoop, Crowd, Load, OpenLoop, Running
from dragoman_load_test.own_load import OwnLoad, limits_found
from dragoman_load_test.requests.senders import Send, open_senders
from dragoman_load_test.requests.target import Target
from dragoman_load_test.results import Point, Window
from dragoman_load_test.server_figures import ServerFigures, ServerWatch, watch_server
from dragoman_load_test.texts import in_batches

_STEADY = 0.1
"""Maximum half width of the throughput's confidence interval, and maximum drift, over its mean."""
_FEWEST_WINDOWS = 3
"""With fewer windows, their agreement is not meaningful."""
_FALLING_BEHIND = 0.05
"""If the backlog grows by more than this share of an open loop's requests, the load is too high."""
_HOPELESS = 0.25
"""If the backlog grows by more than this share of a window's requests, the test stops."""
_FEW = 5


@dataclass(frozen=True)
class Schedule:
    """How long a load is measured.

    Attributes:
        warm_up_s: time under load before the first window.
        window_s: length of a window.
        windows: number of counted windows.
        most_windows: maximum number of windows until the last `windows` of a closed loop agree.
        seed: seed for the order of texts, and for arrivals.
        give_up: stop early if an open loop is far above the server's capacity.
    """

    warm_up_s: float = 3.0
    window_s: float = 5.0
    windows: int = 5
    most_windows: int = 10
    seed: int = 0
    give_up: bool = False


@dataclass(frozen=True)
class Progress:
    """The results of a window that has just ended."""

    number: int
    sentences_per_s: float
    p50_ms: float
    p99_ms: float
    in_flight: int
    errors: int


async def measure(
    target: Target,
    texts: Sequence[str],
    batch_size: int,
    load: Load,
    schedule: Schedule,
    metrics_url: str | None = None,
    tell: Callable[[Progress], None] = lambda _: None,
) -> Point:
    """Measure a server under a load.

    Run all measurements of a process in one event loop: gRPC does not support several.

    Args:
        target: the server and the form of requests.
        texts: the texts, sent repeatedly in a random order.
        batch_size: number of texts in a request; 1 if the target streams.
        load: closed or open loop.
        schedule: how long to measure.
        metrics_url: URL of the server metrics, or None.
        tell: called after each window.

    Raises:
        ValueError: a file of the target's access has the wrong content.
    """
    batches = in_batches(texts, batch_size, schedule.seed)
    ledger = Ledger(schedule.window_s)
    at_once = load.concurrency if isinstance(load, ClosedLoop) else None
    async with (
        open_senders(target, batches, at_once) as senders,
        _watching(metrics_url) as watch,
    ):
        own = OwnLoad()
        running = _start(load, senders, ledger, batch_size, schedule, own.lag)
        await asyncio.sleep(schedule.warm_up_s)
        if watch:
            await watch.begin()
        own.restart()
        begin_s = time.perf_counter()
        ledger.begin(begin_s)
        ends = _Ends(load, ledger, schedule, running, own, begin_s, tell)
        hopeless = await ends.wait()
        await own.stop()
        server = await watch.end() if watch else None
        # Requests in flight belong to the windows too, so wait for them. Also, a server that does
        # not notice cancellation would still be busy with them under the next load.
        await running.stop(wait=not hopeless or not target.notices_cancellation)
    return _point(load, batch_size, schedule, ledger, ends, own.lag, server, watch)


def _point(
    load: Load,
    batch_size: int,
    schedule: Schedule,
    ledger: Ledger,
    ends: _Ends,
    lag: LatencyHistogram,
    server: ServerFigures | None,
    watch: ServerWatch | None,
) -> Point:
    """Returns the results of a load that has ended."""
    pages = [ledger.window(index) for index in range(len(ends.processors))]
    first = _first_that_counts(pages, schedule.windows)
    windows = tuple(
        _window(page, schedule.window_s, processors, in_flight)
        for page, processors, in_flight in zip(pages, ends.processors, ends.in_flight, strict=True)
    )[first:]
    timeline = ledger.seconds(ends.begin_s + len(pages) * schedule.window_s)
    point = Point(
        str(load),
        isinstance(load, ClosedLoop),
        load.concurrency if isinstance(load, ClosedLoop) else load.rate,
        batch_size,
        windows,
        tuple(timeline[int(first * schedule.window_s) :]),
        ledger.examples,
        dict(ledger.warm_up_errors),
        lag.encode(),
        server,
        (),
    )
    notes = list(_notes(point, first, lag, watch, server))
    return dataclasses.replace(point, notes=tuple(notes))


def _first_that_counts(pages: Sequence[Page], windows: int) -> int:
    """Returns the first counted window: only the last count, unless earlier ones had errors."""
    first = max(0, len(pages) - windows)
    return 0 if any(page.errors for page in pages[:first]) else first


def _start(
    load: Load,
    senders: Sequence[Send],
    ledger: Ledger,
    batch_size: int,
    schedule: Schedule,
    lag: LatencyHistogram,
) -> Running:
    if isinstance(load, ClosedLoop):
        return Clients(load, senders, ledger)
    return Crowd(load, senders, ledger, batch_size, schedule.seed, lag)


class _Ends:
    """Waits for the end of each window, and takes the measurements that are made there."""

    def __init__(
        self,
        load: Load,
        ledger: Ledger,
        schedule: Schedule,
        running: Running,
        own: OwnLoad,
        begin_s: float,
        tell: Callable[[Progress], None],
    ) -> None:
        self._load, self._ledger, self._schedule = load, ledger, schedule
        self._running, self._own, self.begin_s, self._tell = running, own, begin_s, tell
        self.processors: list[float] = []
        self.in_flight: list[int] = []

    async def wait(self) -> bool:
        """Wait until enough windows have ended; returns whether the load is far too high."""
        while not self._enough():
            due_s = self.begin_s + (len(self.processors) + 1) * self._schedule.window_s
            await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
            self.processors.append(self._own.processors())
            self.in_flight.append(self._running.in_flight)
            page = self._ledger.window(len(self.processors) - 1)
            self._tell(
                Progress(
                    len(self.processors),
                    page.sentences / self._schedule.window_s,
                    page.latencies.percentile_ms(50),
                    page.latencies.percentile_ms(99),
                    self.in_flight[-1],
                    page.errors.total(),
                )
            )
            if self._schedule.give_up and self._hopeless():
                return True
        return False

    def _enough(self) -> bool:
        done, schedule = len(self.processors), self._schedule
        if done < schedule.windows:
            return False
        if isinstance(self._load, OpenLoop) or done >= schedule.most_windows:
            return True
        last = range(done - schedule.windows, done)
        return is_steady([float(self._ledger.window(index).sentences) for index in last])

    def _hopeless(self) -> bool:
        """Whether the backlog grows so fast that more windows are not needed."""
        if isinstance(self._load, ClosedLoop) or len(self.in_flight) < 2:
            return False
        arrived = self._ledger.window(len(self.in_flight) - 1).requests
        grown = self.in_flight[-1] - self.in_flight[-2]
        return grown > max(_FEW, _HOPELESS * arrived)


def is_steady(throughputs: Sequence[float]) -> bool:
    """Whether windows agree, by their confidence interval and by their drift.

    Windows without an answer do not: the server may be starting, or an answer may take longer.
    """
    if not any(throughputs):
        return False
    return Estimate.of(throughputs).relative <= _STEADY and abs(drift(throughputs)) <= _STEADY


def _notes(
    point: Point,
    left_out: int,
    lag: LatencyHistogram,
    watch: ServerWatch | None,
    server: ServerFigures | None,
) -> Iterator[str]:
    """Yields notes on the reliability of a point's results."""
    yield from limits_found(point.processors, lag, point.latencies.percentile_ms(50))
    throughputs = [window.sentences_per_s for window in point.windows]
    if left_out:
        yield f"{left_out} windows before these did not agree with each other and are not counted"
    if not any(throughputs):
        yield "no request was answered"
    elif point.closed and len(throughputs) >= _FEWEST_WINDOWS and not is_steady(throughputs):
        yield (
            f"the windows do not agree: throughput to {Estimate.of(throughputs).relative:.0%}, "
            f"with a drift of {drift(throughputs):+.0%}: measure for longer"
        )
    if not point.closed and is_behind([w.in_flight for w in point.windows], point.requests):
        yield "the backlog grew: latencies depend on the length of the test"
    if watch and server is None:
        yield f"no server metrics: {watch.problem}"


def is_behind(in_flight: Sequence[int], requests: int) -> bool:
    """Whether the backlog grew from the end of the first window to the end of the last."""
    return in_flight[-1] - in_flight[0] > max(_FEW, _FALLING_BEHIND * requests)


def _window(page: Page, elapsed_s: float, processors: float, in_flight: int) -> Window:
    return Window(
        elapsed_s,
        page.requests,
        page.answers,
        page.sentences,
        page.tokens,
        dict(page.errors),
        page.latencies.encode(),
        page.first_parts.encode(),
        page.per_token.encode(),
        processors,
        in_flight,
    )


@contextlib.asynccontextmanager
async def _watching(url: str | None) -> AsyncIterator[ServerWatch | None]:
    if url is None:
        yield None
        return
    async with watch_server(url) as watch:
        yield watch
