"""What a load test found, as it is kept in JSON and CSV."""

from __future__ import annotations

import csv
import dataclasses
import functools
import io
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from dragoman_load_test.confidence import Estimate
from dragoman_load_test.latency import LatencyHistogram
from dragoman_load_test.server_figures import ServerFigures
from dragoman_load_test.texts import TextMix

VERSION = 1
"""Of the format in JSON."""


@dataclass(frozen=True)
class Window:
    """A window of time under load; see `ledger.Page`.

    Attributes:
        elapsed_s: how long it was.
        requests: that were to be sent in it.
        answers: that came in it.
        sentences: in these answers.
        tokens: in these answers.
        errors: of its requests, by kind.
        latencies: of its requests, as `LatencyHistogram.encode` writes them.
        first_parts: likewise, to the first part of an answer.
        per_token: likewise, between tokens after the first part.
        processors: that the generator used.
        in_flight: requests under way at its end.
    """

    elapsed_s: float
    requests: int
    answers: int
    sentences: int
    tokens: int
    errors: Mapping[str, int]
    latencies: str
    first_parts: str
    per_token: str
    processors: float
    in_flight: int

    @property
    def sentences_per_s(self) -> float:
        """Throughput."""
        return self.sentences / self.elapsed_s

    @functools.cached_property
    def histogram(self) -> LatencyHistogram:
        """Of its latencies."""
        return LatencyHistogram.merge([self.latencies])


@dataclass(frozen=True)
class Moment:
    """A second of the time that counts: its requests, and the sentences answered in it."""

    requests: int
    sentences: int
    errors: int
    p50_ms: float
    p99_ms: float
    max_ms: float


@dataclass(frozen=True)
class Point:
    """A server under one load.

    Attributes:
        load: as tables name it.
        closed: whether clients wait for answers.
        amount: clients in a closed loop, sentences a second in an open one.
        batch_size: sentences in a request.
        windows: what was found, in their order.
        timeline: by seconds.
        examples: a message of each kind of error.
        warm_up_errors: errors before the first window, by kind.
        lag: how late the generator did things, encoded.
        server: its own figures; None: it did not tell.
        notes: what to know before these figures are believed.
    """

    load: str
    closed: bool
    amount: float
    batch_size: int
    windows: tuple[Window, ...]
    timeline: tuple[Moment, ...]
    examples: Mapping[str, str]
    warm_up_errors: Mapping[str, int]
    lag: str
    server: ServerFigures | None
    notes: tuple[str, ...]

    @property
    def sentences_per_s(self) -> Estimate:
        """Throughput."""
        return Estimate.of([window.sentences_per_s for window in self.windows])

    @property
    def tokens_per_s(self) -> float:
        """Output tokens, mean."""
        return sum(w.tokens for w in self.windows) / sum(w.elapsed_s for w in self.windows)

    @functools.cached_property
    def latencies(self) -> LatencyHistogram:
        """Of all windows."""
        return self._merged(lambda window: window.latencies)

    @functools.cached_property
    def first_parts(self) -> LatencyHistogram:
        """Of all windows; empty where answers come in one."""
        return self._merged(lambda window: window.first_parts)

    @functools.cached_property
    def per_token(self) -> LatencyHistogram:
        """Of all windows; empty where answers come in one."""
        return self._merged(lambda window: window.per_token)

    def percentile_ms(self, percentile: float) -> Estimate:
        """A percentile of latency: of all requests, with the spread of the windows'."""
        each = [w.histogram.percentile_ms(percentile) for w in self.windows if len(w.histogram)]
        spread = Estimate.of(each).half_width if each else float("inf")
        return Estimate(self.latencies.percentile_ms(percentile), spread)

    @property
    def requests(self) -> int:
        """All that were to be sent while it counted."""
        return sum(window.requests for window in self.windows)

    @property
    def errors(self) -> Counter[str]:
        """Of these requests, by kind."""
        return sum((Counter(window.errors) for window in self.windows), Counter[str]())

    @property
    def processors(self) -> float:
        """That the generator used, mean."""
        return sum(window.processors for window in self.windows) / len(self.windows)

    def _merged(self, of: Callable[[Window], str]) -> LatencyHistogram:
        return LatencyHistogram.merge(map(of, self.windows))


@dataclass(frozen=True)
class Judgement:
    """Whether an objective was met.

    Attributes:
        objective: as it was asked for.
        load: under which; see `Point.load`.
        found: what was found instead, or in accordance.
        met: the verdict.
    """

    objective: str
    load: str
    found: str
    met: bool


@dataclass(frozen=True)
class Trial:
    """A rate that was tried in the search for a server's capacity; `why`: what spoke against it."""

    rate: float
    held: bool
    why: str


@dataclass(frozen=True)
class Plan:
    """Servers like the one that was tested, for a rate at the busiest time.

    Attributes:
        sentences_per_s: the rate.
        busy: the most that a server is to be used, of its capacity.
        replicas: servers, one more than the rate takes at `busy`: one may fail.
        per_million_characters: what these servers cost for a million characters at that rate, in
            the currency of their price; None: no price was given.
    """

    sentences_per_s: float
    busy: float
    replicas: int
    per_million_characters: float | None = None


@dataclass(frozen=True)
class Capacity:
    """The highest rate that held the objectives.

    Attributes:
        sentences_per_s: the rate; 0: none did.
        trials: in their order.
        plan: for a rate; None: none was asked for, or no rate held.
    """

    sentences_per_s: float
    trials: tuple[Trial, ...]
    plan: Plan | None = None


@dataclass(frozen=True)
class Run:
    """A whole load test.

    Attributes:
        date: when it began, in ISO 8601.
        command: that made it.
        url: of the server.
        protocol: gRPC or HTTP, streamed or not.
        options: of every request.
        texts: what was sent.
        machine: of the generator, in words.
        window_s: length of a window.
        warm_up_s: time under load before the first window.
        points: in their order.
        judgements: of the objectives.
        capacity: where it was searched for.
    """

    date: str
    command: str
    url: str
    protocol: str
    options: Mapping[str, str | int | float | bool]
    texts: TextMix
    machine: str
    window_s: float
    warm_up_s: float
    points: tuple[Point, ...]
    judgements: tuple[Judgement, ...] = ()
    capacity: Capacity | None = None

    @property
    def unanswered(self) -> tuple[str, ...]:
        """Loads that got no answer at all; none where a capacity was searched for."""
        if self.capacity is not None:
            return ()
        return tuple(point.load for point in self.points if not len(point.latencies))

    def to_json(self) -> str:
        """All of it."""
        written: bytes = TypeAdapter(_File).dump_json(_File(VERSION, self))
        return written.decode("utf-8")

    @classmethod
    def read(cls, file: Path) -> Run:
        """What `to_json` wrote.

        Raises:
            ValueError: the file cannot be read, or holds something else.
        """
        try:
            found: _File = TypeAdapter(_File).validate_json(file.read_bytes())
        except OSError as error:
            raise ValueError(f"{file}: cannot be read: {error.strerror}") from error
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"])) or "it"
            raise ValueError(
                f"{file}: not a result of dragoman load-test: {where}: {first['msg']}"
            ) from error
        if found.version != VERSION:
            raise ValueError(f"{file}: has version {found.version}: this reads {VERSION}")
        return found.run


@dataclass(frozen=True)
class _File:
    version: int
    run: Run


_COLUMNS = (
    *("load", "batch_size", "window", "elapsed_s", "requests", "errors", "sentences_per_s"),
    *("tokens_per_s", "p50_ms", "p90_ms", "p95_ms", "p99_ms", "p99_9_ms", "max_ms"),
    *("first_part_p50_ms", "first_part_p99_ms", "per_token_p50_ms", "generator_processors"),
)


def csv_of(points: Iterable[Point]) -> str:
    """One line a window, with the figures that a spreadsheet can draw."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for point in points:
        for number, window in enumerate(point.windows, start=1):
            first = LatencyHistogram.merge([window.first_parts])
            per_token = LatencyHistogram.merge([window.per_token])
            figures = [
                window.sentences_per_s,
                window.tokens / window.elapsed_s,
                *dataclasses.astuple(window.histogram.summary()),
                first.percentile_ms(50),
                first.percentile_ms(99),
                per_token.percentile_ms(50),
                window.processors,
            ]
            counts = (window.requests, sum(window.errors.values()))
            times = (f"{figure:.3f}" for figure in figures)
            elapsed = f"{window.elapsed_s:.3f}"
            writer.writerow((point.load, point.batch_size, number, elapsed, *counts, *times))
    return file.getvalue()
