"""Metrics of the gateway, in a separate registry."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import lru_cache, partial

from dragoman_options.frames import Figure
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from dragoman_gateway.texts.cache import CacheCounts

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
_OTHER = "none"
"""Endpoint label of unknown paths, so that clients cannot create labels."""


class Metrics:
    """Counts requests; other values are read from their owners when metrics are collected."""

    def __init__(self) -> None:
        """Start with zeros."""
        self._registry = CollectorRegistry()
        ProcessCollector(namespace="dragoman_gateway", registry=self._registry)
        self._requests = Counter(
            "dragoman_gateway_requests",
            "Requests that were answered; status is 2xx, 4xx, 5xx, or 499: the client hung up",
            ("protocol", "endpoint", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "dragoman_gateway_request_seconds",
            "From the end of a request's head to the end of its answer",
            ("protocol",),
            buckets=_BUCKETS_S,
            registry=self._registry,
        )
        self._characters = Counter(
            "dragoman_gateway_characters",
            "Characters of source text that were admitted",
            ("protocol",),
            registry=self._registry,
        )
        # A look-up by labels takes ten times as long as in a cache.
        self._requests_of = lru_cache(256)(self._requests.labels)
        self._seconds_of = lru_cache(16)(self._seconds.labels)
        self._characters_of = lru_cache(16)(self._characters.labels)
        self._in_flight = 0
        self.watch(
            "requests_in_flight", "Requests that are being answered", lambda: self._in_flight
        )

    def begin(self) -> float:
        """Record the beginning of a request; returns the argument for `end`."""
        self._in_flight += 1
        return time.perf_counter()

    def end(
        self, began: float, protocol: str, endpoint: str | None, status: str, characters: int
    ) -> float:
        """Record the end of a request.

        Args:
            began: the result of `begin`.
            protocol: name of the protocol.
            endpoint: path of the endpoint, with the names of its parameters; None: unknown.
            status: a class such as `2xx`, or a single status.
            characters: number of admitted characters of source text.

        Returns:
            The duration in seconds.
        """
        took_s = time.perf_counter() - began
        self._in_flight -= 1
        self._requests_of(protocol, endpoint or _OTHER, status).inc()
        self._seconds_of(protocol).observe(took_s)
        if characters:
            self._characters_of(protocol).inc(characters)
        return took_s

    def watch(self, name: str, what: str, read: Callable[[], float], counts: bool = False) -> None:
        """Add a metric whose value belongs to another part.

        Args:
            name: name without the gateway's prefix and without `_total`.
            what: help text.
            read: returns the current value.
            counts: whether it is a counter.
        """
        self.add(_Watched(f"dragoman_gateway_{name}", what, read, counts))

    def add(self, collector: Collector) -> None:
        """Add metrics of another part."""
        self._registry.register(collector)

    def text(self) -> bytes:
        """Returns all metrics in Prometheus' text format."""
        return bytes(generate_latest(self._registry))


class _Watched(Collector):
    def __init__(self, name: str, what: str, read: Callable[[], float], counts: bool) -> None:
        self._name, self._what, self._read = name, what, read
        self._family = CounterMetricFamily if counts else GaugeMetricFamily

    def collect(self) -> list[Metric]:
        return [self._family(self._name, self._what, value=self._read())]


class EngineMetrics(Collector):
    """The metrics of an engine without Triton, under the names that they have in Triton."""

    def __init__(self, read: Callable[[], Sequence[Figure]]) -> None:
        """Store the function that returns the current metrics; see `EngineTransport.metrics`."""
        self._read = read

    def collect(self) -> list[Metric]:
        """Returns the metrics; see prometheus_client."""
        metrics: dict[str, Metric] = {}
        for figure in self._read():
            name, kind = figure.name, "gauge" if figure.is_gauge else "counter"
            if kind == "counter" and not name.endswith("_total"):
                # One of a histogram's three series, in their order.
                name, kind = name.rpartition("_")[0], "histogram"
            family = name.removesuffix("_total")
            if name not in metrics:
                metrics[name] = Metric(family, figure.description, kind)
            labels = {**dict(figure.labels), "model": "translate"}
            metrics[name].add_sample(figure.name, labels, figure.value)
        return [*metrics.values()]


def watch_cache(metrics: Metrics, counts: CacheCounts) -> None:
    """Add the metrics of the cache."""
    watched = {
        "cache_hits": "Sentences that the cache held",
        "cache_misses": "Sentences that the cache did not hold",
        "cache_shared": "Sentences for which a request waited for another request in flight",
        "cache_size_bytes": "Memory of the cache",
        "cache_entries": "Sentences in the cache",
    }
    for name, what in watched.items():
        attribute = name.removeprefix("cache_")
        grows = attribute not in ("size_bytes", "entries")
        metrics.watch(name, what, partial(getattr, counts, attribute), grows)


def status_class(status: int) -> str:
    """Returns `2xx` for 200; 499, NGINX's status for a disconnected client, is kept."""
    return "499" if status == 499 else f"{status // 100}xx"
