"""The book in which every request is entered, by the window of time that it belongs to.

A request belongs to the window in which it was to be sent, so that a server that stalls cannot put
slow requests off to where nobody looks; throughput counts answers where they came.
"""

from __future__ import annotations

import collections
from collections import Counter
from dataclasses import dataclass, field

from dragoman_load_test.latency import LatencyHistogram
from dragoman_load_test.results import Moment
from dragoman_load_test.senders import Answered


@dataclass
class Page:
    """A window of time.

    Attributes:
        requests: that were to be sent in it.
        answers: that came in it.
        sentences: in these answers.
        tokens: in these answers.
        latencies: of its requests, from when each was to be sent to the end of its answer.
        first_parts: of its requests, to the first part of the answer, where answers have parts.
        per_token: of its requests, time between tokens after the first part.
        errors: of its requests, by kind.
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
    """A second of the timeline, of which little is kept: a test may have many."""

    requests: int = 0
    sentences: int = 0
    errors: int = 0
    latencies: LatencyHistogram = field(default_factory=lambda: LatencyHistogram(digits=2))


class Ledger:
    """Pages of windows, and a timeline of seconds."""

    def __init__(self, window_s: float) -> None:
        """An empty book; until `begin` is called, nothing that is entered counts."""
        self._window_s = window_s
        self._begin_s: float | None = None
        self._pages: collections.defaultdict[int, Page] = collections.defaultdict(Page)
        self._seconds: collections.defaultdict[int, _Second] = collections.defaultdict(_Second)
        self.examples: dict[str, str] = {}
        """A message of each kind of error, warm-up included."""
        self.warm_up_errors: Counter[str] = Counter()
        """Errors of requests that were to be sent before `begin`."""

    def begin(self, now_s: float) -> None:
        """Let the first window begin."""
        self._begin_s = now_s

    def sent(self, intended_s: float) -> None:
        """Enter a request that was to be sent at a time."""
        for page in self._at(intended_s):
            page.requests += 1

    def answered(self, intended_s: float, end_s: float, answered: Answered) -> None:
        """Enter an answer."""
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
        """Enter an error."""
        self.examples.setdefault(kind, message)
        if self._begin_s is None or intended_s < self._begin_s:
            self.warm_up_errors[kind] += 1
        for page in self._at(intended_s):
            if isinstance(page, Page):
                page.errors[kind] += 1
            else:
                page.errors += 1

    def window(self, index: int) -> Page:
        """The page of a window, counted from 0; requests of it may still be under way."""
        return self._pages[index]

    def seconds(self, end_s: float) -> list[Moment]:
        """All whole seconds from the beginning to a time."""
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
