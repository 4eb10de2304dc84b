"""Closed and open loops, which send the requests of a load test."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from dragoman_client.core.errors import TranslationError

from dragoman_load_test.arrivals import Arrivals, arrival_times, record_span_s, recorded_times
from dragoman_load_test.latency import LatencyHistogram
from dragoman_load_test.ledger import Ledger
from dragoman_load_test.requests.senders import NotSent, Send

GIVEN_UP = "GivenUp"
NOT_SENT = NotSent.__name__
"""The generator's own kinds of errors: cancelled at the end of the test, and not sent."""
_MOST_IN_FLIGHT = 20_000
_PAUSE_AFTER_ERROR_S = 0.05
"""Without a pause, a client would retry in a busy loop while the server is down."""


@dataclass(frozen=True)
class ClosedLoop:
    """Clients that each send their next request when the last one is answered."""

    concurrency: int

    def __str__(self) -> str:
        """The name of the load in tables."""
        return f"concurrency {self.concurrency}"


@dataclass(frozen=True)
class OpenLoop:
    """Requests that arrive whether or not earlier ones are answered.

    Attributes:
        rate: mean number of sentences per second.
        arrivals: distribution of the arrivals; None: recorded.
        record_s: recorded arrival times, if given; then `rate` follows from them.
    """

    rate: float
    arrivals: Arrivals | None = "poisson"
    record_s: tuple[float, ...] | None = None

    @classmethod
    def recorded(cls, times_s: Sequence[float], batch_size: int) -> OpenLoop:
        """Make a load with requests of `batch_size` sentences at recorded times."""
        rate = batch_size * len(times_s) / record_span_s(times_s)
        return cls(rate, None, tuple(times_s))

    def times(self, batch_size: int, seed: int) -> Iterator[float]:
        """Yields when to send requests of `batch_size` sentences, in seconds from the start."""
        if self.record_s is not None:
            return recorded_times(self.record_s)
        assert self.arrivals is not None
        return arrival_times(self.rate / batch_size, self.arrivals, seed)

    def __str__(self) -> str:
        """The name of the load in tables."""
        return f"{round(self.rate, 2):.12g}/s {self.arrivals or 'recorded'}"


Load = ClosedLoop | OpenLoop


class Running(Protocol):
    """A load that runs until it is stopped."""

    @property
    def in_flight(self) -> int:
        """Number of requests in flight."""

    async def stop(self, wait: bool) -> None:
        """Send no more requests, and wait for those in flight or cancel them."""


class Clients:
    """A running closed loop."""

    def __init__(self, loop: ClosedLoop, senders: Sequence[Send], ledger: Ledger) -> None:
        """Start it in the running event loop."""
        self._source = itertools.cycle(senders)
        self._ledger = ledger
        self._stopping = False
        self.in_flight = 0
        self._tasks = [asyncio.create_task(self._run()) for _ in range(loop.concurrency)]

    async def stop(self, wait: bool) -> None:
        """See `Running`."""
        self._stopping = True
        await _end(self._tasks, wait)

    async def _run(self) -> None:
        while not self._stopping:
            begin_s = time.perf_counter()
            self._ledger.sent(begin_s)
            self.in_flight += 1
            try:
                answered = await _send(next(self._source), begin_s, self._ledger)
            finally:
                self.in_flight -= 1
            if not answered:
                await asyncio.sleep(_PAUSE_AFTER_ERROR_S)


class Crowd:
    """A running open loop."""

    def __init__(
        self,
        loop: OpenLoop,
        senders: Sequence[Send],
        ledger: Ledger,
        batch_size: int,
        seed: int,
        lag: LatencyHistogram,
    ) -> None:
        """Start it in the running event loop.

        Args:
            loop: when requests arrive.
            senders: the requests, sent repeatedly in this order.
            ledger: records the requests.
            batch_size: number of sentences in a request.
            seed: seed of the random arrivals.
            lag: records how late each request was sent.
        """
        self._source = itertools.cycle(senders)
        self._ledger = ledger
        self._lag = lag
        self._sent: set[asyncio.Task[bool]] = set()
        self._fault: BaseException | None = None
        times = loop.times(batch_size, seed)
        self._arriving = asyncio.create_task(self._arrive(times))

    @property
    def in_flight(self) -> int:
        """See `Running`."""
        return len(self._sent)

    async def stop(self, wait: bool) -> None:
        """See `Running`."""
        self._arriving.cancel()
        await asyncio.gather(self._arriving, return_exceptions=True)
        await _end(self._sent, wait)
        if self._fault is not None:
            raise self._fault

    async def _arrive(self, times: Iterator[float]) -> None:
        begin_s = time.perf_counter()
        try:
            await self._send_at(begin_s, times)
        except asyncio.CancelledError:
            # Count the requests that should have been sent by now.
            for time_s in times:
                if begin_s + time_s > time.perf_counter():
                    break
                self._ledger.sent(begin_s + time_s)
                self._ledger.failed(begin_s + time_s, NOT_SENT, "the generator was too late")
            raise

    async def _send_at(self, begin_s: float, times: Iterator[float]) -> None:
        for time_s in times:
            intended_s = begin_s + time_s
            early_s = intended_s - time.perf_counter()
            # Yield to the event loop even if late, so that answers are read.
            await asyncio.sleep(max(0.0, early_s))
            self._lag.record(time.perf_counter() - intended_s)
            self._ledger.sent(intended_s)
            if len(self._sent) >= _MOST_IN_FLIGHT:
                message = f"{_MOST_IN_FLIGHT} requests are in flight"
                self._ledger.failed(intended_s, NOT_SENT, message)
                continue
            sending = _send(next(self._source), intended_s, self._ledger)
            task = asyncio.create_task(sending)
            self._sent.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[bool]) -> None:
        self._sent.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._fault = self._fault or task.exception()


async def _send(send: Send, intended_s: float, ledger: Ledger) -> bool:
    """Send a request and record the outcome; returns whether it was answered."""
    try:
        answered = await send()
    except TranslationError as error:
        ledger.failed(intended_s, type(error).__name__, str(error))
        return False
    except asyncio.CancelledError:
        ledger.failed(intended_s, GIVEN_UP, "the test ended first")
        raise
    ledger.answered(intended_s, time.perf_counter(), answered)
    return True


async def _end(tasks: Sequence[asyncio.Task[None]] | set[asyncio.Task[bool]], wait: bool) -> None:
    ending = list(tasks)
    if not wait:
        for task in ending:
            task.cancel()
    for outcome in await asyncio.gather(*ending, return_exceptions=True):
        if isinstance(outcome, Exception):
            raise outcome
