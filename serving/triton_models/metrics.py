"""The engine's figures on Triton's own metrics port, for Prometheus."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import Any

import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]

from serving.translator import Translator

log = logging.getLogger(__name__)

_EVERY_S = 0.5


@dataclass(frozen=True)
class _Kind:
    name: str
    description: str
    source: str
    """Name of the figure among `Counts` or `Load`."""


_COUNTERS = (
    _Kind("dragoman_sentences_total", "Sentences translated", "completed"),
    _Kind("dragoman_sentences_cancelled_total", "Sentences given up by their clients", "cancelled"),
    _Kind("dragoman_sentences_overdue_total", "Sentences whose deadline passed", "overdue"),
    _Kind("dragoman_sentences_rejected_total", "Sentences refused as too many waited", "rejected"),
    _Kind("dragoman_input_tokens_total", "Source tokens of translated sentences", "input_tokens"),
    _Kind("dragoman_output_tokens_total", "Tokens generated", "output_tokens"),
    _Kind("dragoman_queue_seconds_total", "Time from arrival to joining, summed", "queue_s"),
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
_GAUGES = (
    _Kind("dragoman_waiting", "Sentences that wait", "waiting"),
    _Kind("dragoman_rows", "Rows in flight", "rows"),
    _Kind("dragoman_rows_limit", "Rows that may be in flight", "most_rows"),
    _Kind("dragoman_cache_bytes", "Bytes of keys and values held", "cache_bytes"),
)


class MetricsPublisher:
    """Writes the figures twice a second, in a thread of its own."""

    def __init__(self, translator: Translator) -> None:
        """Declare the metrics and start the thread."""
        self._translator = translator
        self._counters = [
            (kind, _declare(kind, pb_utils.MetricFamily.COUNTER)) for kind in _COUNTERS
        ]
        self._gauges = [(kind, _declare(kind, pb_utils.MetricFamily.GAUGE)) for kind in _GAUGES]
        self._written = dict.fromkeys((kind.source for kind in _COUNTERS), 0.0)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dragoman-metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write once more and stop."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stopped.wait(_EVERY_S):
                self._write()
            self._write()
        except Exception:
            log.exception("the metrics are not written any more")

    def _write(self) -> None:
        counts, load = self._translator.counts, self._translator.load
        for kind, metric in self._counters:
            now = float(getattr(counts, kind.source))
            if now > self._written[kind.source]:
                metric.increment(now - self._written[kind.source])
                self._written[kind.source] = now
        for kind, metric in self._gauges:
            metric.set(float(getattr(load, kind.source)))


def _declare(kind: _Kind, metric_kind: Any) -> Any:
    # The family must live as long as its metric.
    family = pb_utils.MetricFamily(name=kind.name, description=kind.description, kind=metric_kind)
    metric = family.Metric(labels={"model": "translate"})
    _FAMILIES.append(family)
    return metric


_FAMILIES: list[Any] = []
