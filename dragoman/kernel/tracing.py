"""Spans of requests, sent to an OpenTelemetry collector.

A span holds names, times and numbers, never texts. OpenTelemetry is imported only when tracing is
on. It reads its own variables (`OTEL_*`), such as `OTEL_EXPORTER_OTLP_HEADERS`.

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
"""Timeout for sending the last spans."""


@dataclass(frozen=True)
class TraceOptions:
    """Where to send spans, and how many requests to trace.

    Attributes:
        url: URL of a collector that accepts OTLP over HTTP, without `/v1/traces`.
        rate: share, from 0 to 1, of the requests to trace among those without a trace context.
    """

    url: str
    rate: float = DEFAULT_RATE

    @classmethod
    def of(cls, url: str | None, rate: float) -> TraceOptions | None:
        """Returns the options of a command line; None: no tracing, since there is no URL.

        Raises:
            UsageError: an option is not valid, or OpenTelemetry is not installed.
        """
        if not 0 <= rate <= 1:
            raise UsageError(f"--trace-rate {rate:g}: give 0 to 1")
        if not url:
            return None
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"--otlp {url}: give a URL such as http://localhost:4318")
        if "@" in parts.netloc:  # every user can read the command lines of processes
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
        """URL to which spans are sent."""
        return f"{self.url.rstrip('/')}/v1/traces"


class Tracing:
    """Creates the spans of one process.

    Attributes:
        tracer: OpenTelemetry's tracer.
    """

    def __init__(
        self, options: TraceOptions, service: str, processor: SpanProcessor | None = None
    ) -> None:
        """Start a thread that sends spans.

        Args:
            options: where to send spans.
            service: name of the process, unless `OTEL_SERVICE_NAME` gives another.
            processor: processes the spans; None: one that sends them.
        """
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased

        # Log one line for each batch that is lost, and none for each retry.
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
        """Returns an empty context for a request without one; None: it is not traced."""
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
    """Returns the trace context from headers.

    Args:
        carrier: `traceparent`, and `tracestate` if there is one.

    Returns:
        The context; None if there is no valid one, or if the request must not be traced.
    """
    from opentelemetry.context import Context
    from opentelemetry.trace import get_current_span
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    context = TraceContextTextMapPropagator().extract(carrier, Context())
    return context if get_current_span(context).get_span_context().trace_flags.sampled else None
