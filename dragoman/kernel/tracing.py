"""Spans of requests, which go to an OpenTelemetry collector.

A span holds names, times and numbers, never texts. OpenTelemetry is imported when tracing is on,
and not before. It reads its own variables (`OTEL_*`), such as `OTEL_EXPORTER_OTLP_HEADERS`.

Source: https://www.w3.org/TR/trace-context/, https://opentelemetry.io/docs/specs/otlp/
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from dragoman.kernel.errors import UsageError
from dragoman.kernel.installation import install_command

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import SpanProcessor

EXTRA = "tracing"
DEFAULT_RATE = 0.01
TRACEPARENT, TRACESTATE = "traceparent", "tracestate"
_CLOSE_S = 2.0
"""For the last spans to reach the collector."""


@dataclass(frozen=True)
class TraceOptions:
    """Where spans are sent, and which requests have some.

    Attributes:
        url: of a collector that takes OTLP over HTTP, without `/v1/traces`.
        rate: share, from 0 to 1, of the requests that are traced, of those that bring no trace
            context.
    """

    url: str
    rate: float = DEFAULT_RATE

    @classmethod
    def of(cls, url: str | None, rate: float) -> TraceOptions | None:
        """Options as a command line has them; None: no URL, or an empty one, and no tracing.

        Raises:
            UsageError: one is not what it should be, or OpenTelemetry is not installed.
        """
        if not 0 <= rate <= 1:
            raise UsageError(f"--trace-rate {rate:g}: give 0 to 1")
        if not url:
            return None
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"--otlp {url}: give a URL such as http://localhost:4318")
        if "@" in parts.netloc:  # command lines of processes can be read by every user
            raise UsageError("--otlp: give credentials in OTEL_EXPORTER_OTLP_HEADERS")
        try:
            import opentelemetry.exporter.otlp.proto.http
            import opentelemetry.sdk.trace  # noqa: F401
        except ModuleNotFoundError as error:
            message = f"--otlp {url}: {error.name} is not installed: {install_command(EXTRA)}"
            raise UsageError(message) from None
        return cls(url, rate)

    @property
    def traces_url(self) -> str:
        """Where a collector takes spans."""
        return f"{self.url.rstrip('/')}/v1/traces"


class Tracing:
    """Makes the spans of one process.

    Attributes:
        tracer: OpenTelemetry's.
    """

    def __init__(
        self, options: TraceOptions, service: str, processor: SpanProcessor | None = None
    ) -> None:
        """Begin to send spans, in a thread.

        Args:
            options: where to.
            service: name of the process, unless `OTEL_SERVICE_NAME` gives another.
            processor: takes the spans; None: one that sends them.
        """
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased

        # One line for each batch that is lost, none for each try.
        logging.getLogger(OTLPSpanExporter.__module__).setLevel(logging.ERROR)
        named = Resource.create({"service.name": service})
        self._provider = TracerProvider(
            sampler=ParentBased(ALWAYS_ON),
            resource=named.merge(OTELResourceDetector().detect()),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(
            processor or BatchSpanProcessor(OTLPSpanExporter(endpoint=options.traces_url))
        )
        self._rate = options.rate
        self.tracer = self._provider.get_tracer("dragoman")

    def sample(self) -> Context | None:
        """An empty context for a request that brings none; None: it is not traced."""
        if random.random() >= self._rate:  # noqa: S311  (no secret)
            return None
        from opentelemetry.context import Context

        return Context()

    def close(self) -> None:
        """Send the last spans, unless the collector takes too long."""
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(_CLOSE_S)


def sampled_context(carrier: Mapping[str, str]) -> Context | None:
    """The context of a trace, of the headers that carry it.

    Args:
        carrier: `traceparent`, and `tracestate` if there is one.

    Returns:
        None if there is no valid one, or if the request is not to be traced.
    """
    from opentelemetry.context import Context
    from opentelemetry.trace import get_current_span
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    context = TraceContextTextMapPropagator().extract(carrier, Context())
    return context if get_current_span(context).get_span_context().trace_flags.sampled else None
