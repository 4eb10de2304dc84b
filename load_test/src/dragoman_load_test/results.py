"""The results of a load test, and their JSON and CSV files."""

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
"""Version of the JSON format."""


@dataclass(frozen=True)
class Window:
    """A window of time under load; see `ledger.Page`.

    Attributes:
        elapsed_s: length of the window.
        requests: number of requests scheduled in it.
        answers: number of answers that arrived in it.
        sentences: number of sentences in these answers.
        tokens: number of tokens in these answers.
        errors: errors of its requests, by kind.
        latencies: latencies of its requests, as `LatencyHistogram.encode` writes them.
        first_parts: times to the first part of an answer, likewise.
        per_token: times between tokens after the first part, likewise.
        processors: number of CPU cores that the generator used.
        in_flight: requests in flight at its end.
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
        """Histogram of its latencies."""
        return LatencyHistogram.merge([self.latencies])


@dataclass(frozen=True)
class Moment:
    """A second of the measured time: its requests, and the sentences answered in it."""

    requests: int
    sentences: int
    errors: int
    p50_ms: float
    p99_ms: float
    max_ms: float


@dataclass(frozen=True)
class Point:
    """The results of one load.

    Attributes:
        load: name of the load in tables.
        closed: whether it is a closed loop, whose clients wait for answers.
        amount: number of clients of a closed loop, sentences per second of an open one.
        batch_size: number of sentences in a request.
        windows: results of the windows, in order.
        timeline: results of each second.
        examples: a message for each kind of error.
        warm_up_errors: errors before the first window, by kind.
        lag: histogram of the generator's delays, encoded.
        server: server metrics; None: not available.
        notes: notes on the reliability of the results.
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
        """Mean number of output tokens per second."""
        return sum(w.tokens for w in self.windows) / sum(w.elapsed_s for w in self.windows)

    @functools.cached_property
    def latencies(self) -> LatencyHistogram:
        """Latencies of all windows."""
        return self._merged(lambda window: window.latencies)

    @functools.cached_property
    def first_parts(self) -> LatencyHistogram:
        """Times to the first part, of all windows; empty without streaming."""
        return self._merged(lambda window: window.first_parts)

    @functools.cached_property
    def per_token(self) -> LatencyHistogram:
        """Times between tokens, of all windows; empty without streaming."""
        return self._merged(lambda window: window.per_token)

    def percentile_ms(self, percentile: float) -> Estimate:
        """A latency percentile of all requests, with the confidence interval over the windows."""
        each = [w.histogram.percentile_ms(percentile) for w in self.windows if len(w.histogram)]
        spread = Estimate.of(each).half_width if each else float("inf")
        return Estimate(self.latencies.percentile_ms(percentile), spread)

    @property
    def requests(self) -> int:
        """Number of requests in the windows."""
        return sum(window.requests for window in self.windows)

    @property
    def errors(self) -> Counter[str]:
        """Errors of these requests, by kind."""
        return sum((Counter(window.errors) for window in self.windows), Counter[str]())

    @property
    def processors(self) -> float:
        """Mean number of CPU cores that the generator used."""
        return sum(window.processors for window in self.windows) / len(self.windows)

    def _merged(self, of: Callable[[Window], str]) -> LatencyHistogram:
        return LatencyHistogram.merge(map(of, self.windows))


@dataclass(frozen=True)
class Judgement:
    """Whether an objective was met.

    Attributes:
        objective: the objective, as written in the options.
        load: name of the load; see `Point.load`.
        found: the measured value.
        met: whether the objective was met.
    """

    objective: str
    load: str
    found: str
    met: bool


@dataclass(frozen=True)
class Trial:
    """A rate that was tried in the search for the capacity; `why`: the reason if it failed."""

    rate: float
    held: bool
    why: str


@dataclass(frozen=True)
class Plan:
    """How many servers like the tested one a peak rate requires.

    Attributes:
        sentences_per_s: the rate.
        busy: maximum utilization of a server, as a share of its capacity.
        replicas: number of servers: as many as the rate takes at `busy`, plus one that may fail.
        per_million_characters: cost of these servers per million characters at that rate, in the
            currency of their price; None: no price was given.
    """

    sentences_per_s: float
    busy: float
    replicas: int
    per_million_characters: float | None = None


@dataclass(frozen=True)
class Capacity:
    """The highest rate that met the objectives.

    Attributes:
        sentences_per_s: the rate; 0: no rate met them.
        trials: the trials, in order.
        plan: the requested plan for a rate; None: not requested, or no rate met the objectives.
    """

    sentences_per_s: float
    trials: tuple[Trial, ...]
    plan: Plan | None = None


@dataclass(frozen=True)
class Run:
    """A whole load test.

    Attributes:
        date: start of the test, in ISO 8601.
        command: the command line.
        url: URL of the server.
        protocol: gRPC or HTTP, streamed or not.
        options: options of every request.
        texts: the texts that were sent.
        machine: description of the generator's machine.
        window_s: length of a window.
        warm_up_s: time under load before the first window.
        points: results of the loads, in order.
        judgements: verdicts on the objectives.
        capacity: result of the search for a capacity; None: not searched.
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
        """Loads without any answer; always empty for a capacity search."""
        if self.capacity is not None:
            return ()
        return tuple(point.load for point in self.points if not len(point.latencies))

    def to_json(self) -> str:
        """Returns the run as JSON."""
        written: bytes = TypeAdapter(_File).dump_json(_File(VERSION, self))
        return written.decode("utf-8")

    @classmethod
    def read(cls, file: Path) -> Run:
        """Read a file that `to_json` wrote.

        Raises:
            ValueError: the file cannot be read, or has other content.
        """
        try:
            content: _File = TypeAdapter(_File).validate_json(file.read_bytes())
        except OSError as error:
            raise ValueError(f"{file}: cannot be read: {error.strerror}") from error
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"])) or "it"
            raise ValueError(
                f"{file}: not a result of dragoman load-test: {where}: {first['msg']}"
            ) from error
        if content.version != VERSION:
            raise ValueError(f"{file}: has version {content.version}, expected {VERSION}")
        return content.run


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
    """Returns CSV with one line per window, for spreadsheets."""
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
