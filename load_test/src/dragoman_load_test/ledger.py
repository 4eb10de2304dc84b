"""Records every request in the window of time that it belongs to.

A request belongs to the window in which it was scheduled, so that the slow requests of a server
that stalls are counted there. Throughput counts answers in the window in which they arrive.
"""

from __future__ import annotations

import collections
from collections import Counter
from dataclasses import dataclass, field

from dragoman_load_test.latency import LatencyHistogram
from dragoman_load_test.requests.senders import Answered
from dragoman_load_test.results import Moment


@dataclass
class Page:
    """The counts of a window of time.

    Attributes:
        requests: number of requests scheduled in it.
        answers: number of answers that arrived in it.
        sentences: number of sentences in these answers.
        tokens: number of tokens in these answers.
        latencies: latencies of its requests, from the scheduled time to the end of the answer.
        first_parts: times of its requests to the first part of a streamed answer.
        per_token: times of its requests between tokens after the first part.
        errors: errors of its requests, by kind.
    """

    requests: int = 0
    answers: int = 0
    sentences: int = 0
    tokens: int = 0
    latencies: LatencyHistogram = field(default_factory=LatencyHistogram)
    first_parts: LatencyHistogram = field(default_factory=LatencyHistogram)
    per_token: LatencyHistogram = field(default_factory=LatencyHistogram)
    errors: Counter[str] = field(default_factory=Counter)


@dataclass
class _Second:
    """A second of the timeline, with little memory: a test may have many."""

    requests: int = 0
    sentences: int = 0
    errors: int = 0
    latencies: LatencyHistogram = field(default_factory=lambda: LatencyHistogram(digits=2))


class Ledger:
    """The pages of the windows, and a timeline of seconds."""

    def __init__(self, window_s: float) -> None:
        """Make an empty ledger; it does not count requests before `begin` is called."""
        self._window_s = window_s
        self._begin_s: float | None = None
        self._pages: collections.defaultdict[int, Page] = collections.defaultdict(Page)
        self._seconds: collections.defaultdict[int, _Second] = collections.defaultdict(_Second)
        self.examples: dict[str, str] = {}
        """A message for each kind of error, including the warm-up."""
        self.warm_up_errors: Counter[str] = Counter()
        """Errors of requests scheduled before `begin`."""

    def begin(self, now_s: float) -> None:
        """Begin the first window."""
        self._begin_s = now_s

    def sent(self, intended_s: float) -> None:
        """Record a request that was scheduled at a time."""
        for page in self._at(intended_s):
            page.requests += 1

    def answered(self, intended_s: float, end_s: float, answered: Answered) -> None:
        """Record an answer."""
        for page in self._at(end_s):
            page.sentences += answered.sentences
            if isinstance(page, Page):
                page.answers += 1
                page.tokens += answered.tokens
        for page in self._at(intended_s):
            page.latencies.record(end_s - intended_s)
            if isinstance(page, Page) and answered.first_s is not None:
                page.first_parts.record(answered.first_s - intended_s)
                if answered.parts > 1 and answered.tokens > 1:
                    page.per_token.record((end_s - answered.first_s) / (answered.tokens - 1))

    def failed(self, intended_s: float, kind: str, message: str) -> None:
        """Record an error."""
        self.examples.setdefault(kind, message)
        if self._begin_s is None or intended_s < self._begin_s:
            self.warm_up_errors[kind] += 1
        for page in self._at(intended_s):
            if isinstance(page, Page):
                page.errors[kind] += 1
            else:
                page.errors += 1

    def window(self, index: int) -> Page:
        """Returns the page of a window, by index; some of its requests may still be in flight."""
        return self._pages[index]

    def seconds(self, end_s: float) -> list[Moment]:
        """Returns all whole seconds from the beginning to a time."""
        if self._begin_s is None:
            return []
        return [_moment(self._seconds[index]) for index in range(int(end_s - self._begin_s))]

    def _at(self, time_s: float) -> tuple[Page, _Second] | tuple[()]:
        if self._begin_s is None or time_s < self._begin_s:
            return ()
        since_s = time_s - self._begin_s
        return self._pages[int(since_s / self._window_s)], self._seconds[int(since_s)]


def _moment(second: _Second) -> Moment:
    p50_ms, p99_ms, max_ms = map(second.latencies.percentile_ms, (50, 99, 100))
    return Moment(second.requests, second.sentences, second.errors, p50_ms, p99_ms, max_ms)
