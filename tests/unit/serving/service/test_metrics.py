"""The metrics that are sent to Triton."""

from __future__ import annotations

import copy
import itertools
import re
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import cast

import pytest
from dragoman_options.client_frames import unpack_figures
from dragoman_options.frames import FrameSplitter, Kind
from dragoman_serving.engine.batching.statistics import Counts
from dragoman_serving.engine.histogram import BOUNDS_S
from dragoman_serving.models.keeper import Record, Resident
from dragoman_serving.service import metrics
from dragoman_serving.service.bundles import Bundles
from dragoman_serving.service.connection import Connection
from dragoman_serving.service.metrics import FigureReporter
from dragoman_serving.translation.translator import Load

from tests.conftest import REPOSITORY
from tests.waiting import wait_for

EVERY_S = 0.001
PERIODS = 200
"""Time in which many frames would be sent."""
WAIT_S = 60


BUNDLES = 500


class Busy:
    """Bundles; one of them completes a sentence each time its counts are read."""

    load = Load(waiting=0, rows=1, most_rows=2, cache_bytes=3)

    def __init__(self, bundles: int = 1) -> None:
        self.statistics = self.keeper = self
        self.residents = [Resident(str(n), n == 0, 5 * n, Record(n)) for n in range(bundles)]
        self._counts = Counts()
        self._lock = threading.Lock()

    @property
    def counts(self) -> Counts:
        self._counts.completed += 1
        with self._lock:
            return copy.deepcopy(self._counts)

    @property
    def completed(self) -> int:
        return self._counts.completed

    def complete(self, sentences: int) -> None:
        self._counts.completed += sentences

    def observe(self, time_s: float) -> None:
        with self._lock:
            self._counts.total.observe(time_s)


@pytest.fixture
def ends() -> Iterator[tuple[Connection, socket.socket]]:
    near, far = socket.socketpair()
    far.settimeout(WAIT_S)
    connection = Connection(near)
    yield connection, far
    far.close()
    connection.close()


def sentences_in(frames: Iterator[tuple[Kind, bytes]]) -> list[float]:
    """The growth of the sentences in each frame."""
    bodies = [body for kind, body in frames if kind is Kind.FIGURES]
    name = "dragoman_sentences_total"
    return [f.value for body in bodies for f in unpack_figures(body) if f.name == name]


def test_a_slow_reader_gets_no_metrics_and_loses_no_count(
    ends: tuple[Connection, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each frame has one more sentence, so that they count the frames too."""
    monkeypatch.setattr(metrics, "_EVERY_S", EVERY_S)
    connection, far = ends
    translator = Busy()
    reporter = FigureReporter(cast(Bundles, translator), connection)
    wait_for(lambda: connection.is_behind)
    packed = translator.completed
    time.sleep(PERIODS * EVERY_S)
    assert translator.completed == packed
    translator.complete(1000)
    counts: list[float] = []
    splitter = FrameSplitter()
    while sum(counts) < packed + 1000:
        counts += sentences_in(splitter.feed(far.recv(1 << 16)))
    assert max(counts) == 1001
    reporter.close()
    connection.close()
    while received := far.recv(1 << 16):
        counts += sentences_in(splitter.feed(received))
    assert sum(counts) == translator.completed


def test_histograms_are_counters_of_cumulative_buckets(
    ends: tuple[Connection, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prometheus sees the sums over all frames."""
    monkeypatch.setattr(metrics, "_EVERY_S", EVERY_S)
    connection, far = ends
    translator = Busy()
    reporter = FigureReporter(cast(Bundles, translator), connection)
    times_s = (0.0005, 0.0025, 0.02, 70.0, 80.0)
    for time_s in times_s:
        translator.observe(time_s)
    series: defaultdict[tuple[str, tuple[tuple[str, str], ...]], float] = defaultdict(float)
    splitter = FrameSplitter()
    while series["dragoman_total_seconds_count", ()] < len(times_s):
        for kind, body in splitter.feed(far.recv(1 << 16)):
            assert kind is Kind.FIGURES
            for figure in unpack_figures(body):
                series[figure.name, figure.labels] += figure.value
    reporter.close()
    buckets = {
        labels[0][1]: number
        for (name, labels), number in series.items()
        if name == "dragoman_total_seconds_bucket"
    }
    assert list(buckets) == [*(f"{bound_s:g}" for bound_s in BOUNDS_S), "+Inf"]
    assert [buckets[bound] for bound in ("0.001", "0.0025", "0.01")] == [1, 2, 2]
    assert [buckets[bound] for bound in ("0.025", "60", "+Inf")] == [3, 3, 5]
    assert list(buckets.values()) == sorted(buckets.values())
    assert series["dragoman_total_seconds_sum", ()] == pytest.approx(sum(times_s))
    for name in ("dragoman_queue_seconds", "dragoman_first_token_seconds"):
        assert series[f"{name}_bucket", (("le", "+Inf"),)] == 0
        assert (f"{name}_count", ()) in series


def test_a_frame_has_no_more_metrics_and_labels_than_the_relay_accepts(
    ends: tuple[Connection, socket.socket],
) -> None:
    connection, far = ends
    reporter = FigureReporter(cast(Bundles, Busy(BUNDLES)), connection)
    splitter = FrameSplitter()
    frames: list[tuple[Kind, bytes]] = []
    while not frames:
        frames += splitter.feed(far.recv(1 << 16))
    reporter.close()
    figures = unpack_figures(frames[0][1])
    requests = [metric for metric in figures if metric.name == "dragoman_bundle_requests_total"]
    assert [(metric.labels, metric.value) for metric in requests] == [
        ((("bundle", str(number)),), number) for number in range(BUNDLES)
    ]
    header = (REPOSITORY / "serving/dragoman_serving/relay/relay.h").read_text()
    most = dict(re.findall(r"\b(MOST_(?:FIGURES|LABELS)) = (\d+)", header))
    assert len(figures) <= int(most["MOST_FIGURES"])
    assert max(len(figure.labels) for figure in figures) <= int(most["MOST_LABELS"])
    assert len({(figure.name, figure.labels) for figure in figures}) == len(figures)
    names = [name for name, _ in itertools.groupby(figure.name for figure in figures)]
    assert len(names) == len(set(names)), "figures of one name follow each other"
