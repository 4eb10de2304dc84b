"""The engine's metrics, for Triton's metrics port."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dragoman_options.frames import Figure, pack_figures

from dragoman_serving.engine.histogram import BOUNDS_S, Histogram
from dragoman_serving.models.keeper import Resident
from dragoman_serving.service.bundles import Bundles, resident_bytes
from dragoman_serving.service.connection import Connection

_EVERY_S = 0.5


@dataclass(frozen=True)
class _Kind:
    name: str
    description: str
    source: str
    """Name of the field in `Counts` or `Load`."""


_COUNTERS = (
    _Kind("dragoman_sentences_total", "Sentences translated", "completed"),
    _Kind("dragoman_sentences_cancelled_total", "Sentences that clients cancelled", "cancelled"),
    _Kind("dragoman_sentences_overdue_total", "Sentences whose deadline passed", "overdue"),
    _Kind(
        "dragoman_sentences_rejected_total",
        "Sentences refused by a busy server",
        "rejected",
    ),
    _Kind("dragoman_input_tokens_total", "Source tokens of translated sentences", "input_tokens"),
    _Kind("dragoman_output_tokens_total", "Tokens generated", "output_tokens"),
    _Kind(
        "dragoman_queue_seconds_total",
        "Time from arrival to joining a batch, summed",
        "queue_s",
    ),
    _Kind(
        "dragoman_first_token_seconds_total",
        "Time from arrival to the first token, summed over dragoman_sentences_total",
        "first_token_s",
    ),
    _Kind(
        "dragoman_decode_seconds_total",
        "Time from joining a batch to the last token, summed; over "
        "dragoman_output_tokens_total it is the time per token",
        "decode_s",
    ),
)
_HISTOGRAMS = (
    _Kind("dragoman_queue_seconds", "Time from arrival to joining a batch", "queue"),
    _Kind("dragoman_first_token_seconds", "Time from arrival to the first token", "first_token"),
    _Kind("dragoman_total_seconds", "Time from arrival to the translation", "total"),
)
_BUCKETS = (*(f"{bound_s:g}" for bound_s in BOUNDS_S), "+Inf")
"""Values of the label `le`."""
_GAUGES = (
    _Kind("dragoman_waiting", "Waiting sentences", "waiting"),
    _Kind("dragoman_rows", "Rows in flight", "rows"),
    _Kind("dragoman_rows_limit", "Limit of rows in flight", "most_rows"),
    _Kind("dragoman_cache_bytes", "Bytes of the KV cache", "cache_bytes"),
)


@dataclass(frozen=True)
class _OfModel:
    name: str
    description: str
    value: Callable[[Resident], float]
    is_gauge: bool = False


_OF_MODELS = (
    _OfModel("dragoman_bundle_loaded", "Whether the bundle is loaded", lambda r: r.is_loaded, True),
    _OfModel(
        "dragoman_bundle_bytes",
        "Maximum memory of the loaded bundle, if --memory is set",
        lambda r: r.bytes,
        True,
    ),
    _OfModel(
        "dragoman_bundle_requests_total", "Requests for the bundle", lambda r: r.record.requests
    ),
    _OfModel("dragoman_bundle_loads_total", "Loads of the bundle", lambda r: r.record.loads),
    _OfModel(
        "dragoman_bundle_load_failures_total",
        "Failed loads of the bundle",
        lambda r: r.record.failures,
    ),
    _OfModel(
        "dragoman_bundle_evictions_total", "Evictions of the bundle", lambda r: r.record.evictions
    ),
    _OfModel(
        "dragoman_bundle_pivoted_sentences_total",
        "Sentences translated as one leg of a request through a pivot language",
        lambda r: r.record.pivoted,
    ),
    _OfModel(
        "dragoman_bundle_load_seconds_total", "Time of its loads, summed", lambda r: r.record.load_s
    ),
)
_Labels = tuple[tuple[str, str], ...]
_PROCESSOR = "dragoman_process_cpu_seconds_total"
_MEMORY = "dragoman_process_resident_memory_bytes"


class FigureReporter:
    """Sends the metrics twice a second, in a thread of its own.

    While Triton does not read, for example because it is stopped, none are sent, so that the
    backlog does not grow. The next metrics then hold the whole increase of each counter.
    """

    def __init__(self, bundles: Bundles, connection: Connection) -> None:
        """Start the thread."""
        self._bundles = bundles
        self._connection = connection
        self._sent: dict[tuple[str, _Labels], float] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dragoman-figures", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            if not self._connection.is_behind:
                self._connection.send(pack_figures(list(self._figures())))
            if self._stopped.wait(_EVERY_S):
                return

    def _figures(self) -> Iterator[Figure]:
        counts, load = self._bundles.statistics.counts, self._bundles.load
        for kind in _COUNTERS:
            now = float(getattr(counts, kind.source))
            yield self._increase(kind.name, kind.description, now)
        for kind in _HISTOGRAMS:
            yield from self._histogram(kind, getattr(counts, kind.source))
        description = "User and system time of the engine's process"
        yield self._increase(_PROCESSOR, description, time.process_time())
        for kind in _GAUGES:
            value = float(getattr(load, kind.source))
            yield Figure(True, kind.name, kind.description, value)
        yield Figure(True, _MEMORY, "Memory of the engine's process", float(resident_bytes()))
        residents = self._bundles.keeper.residents
        for of_model in _OF_MODELS:  # metrics of one name must be consecutive
            for resident in residents:
                yield self._of_model(of_model, resident)

    def _of_model(self, kind: _OfModel, resident: Resident) -> Figure:
        labels = (("bundle", resident.name),)
        value = float(kind.value(resident))
        if kind.is_gauge:
            return Figure(True, kind.name, kind.description, value, labels)
        return self._increase(kind.name, kind.description, value, labels)

    def _histogram(self, kind: _Kind, histogram: Histogram) -> Iterator[Figure]:
        """A histogram's series as counters, because Triton's C API has no histograms.

        Source: https://prometheus.io/docs/concepts/metric_types/#histogram
        """
        cumulative = list(itertools.accumulate(histogram.counts))
        for bound, count in zip(_BUCKETS, cumulative, strict=True):
            labels = (("le", bound),)
            yield self._increase(f"{kind.name}_bucket", kind.description, float(count), labels)
        yield self._increase(f"{kind.name}_sum", kind.description, histogram.sum_s)
        yield self._increase(f"{kind.name}_count", kind.description, float(cumulative[-1]))

    def _increase(self, name: str, description: str, now: float, labels: _Labels = ()) -> Figure:
        increase = now - self._sent.get((name, labels), 0.0)
        self._sent[name, labels] = now
        return Figure(False, name, description, increase, labels)
