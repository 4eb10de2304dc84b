"""The spans of HTTP requests, and which callers' trace contexts are used."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from dragoman_gateway.application import GatewayApplication
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.web.middleware.access_log import AccessLog
from dragoman_gateway.web.middleware.request_spans import RequestSpans
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from dragoman.kernel.errors import UsageError
from dragoman.kernel.tracing import TraceOptions, Tracing
from tests.unit.gateway.asgi import Application

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
TEXT = "Bananas are yellow."


class Spans:
    """Spans of an application."""

    def __init__(self, rate: float) -> None:
        self._exporter = InMemorySpanExporter()
        processor = SimpleSpanProcessor(self._exporter)
        self._tracing = Tracing(TraceOptions("http://unused", rate), "gateway", processor)

    def of(self, *networks: str) -> RequestSpans:
        return RequestSpans(self._tracing, networks)

    @property
    def found(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())


@contextmanager
def traced(rate: float, log: AccessLog | None = None, **settings: Any) -> Iterator[Any]:
    """An application, and its spans."""
    with Application(**settings) as application:
        spans = Spans(rate)
        made = spans.of(*application.gateway.settings.trace_networks)
        application._application = GatewayApplication(application.gateway, log, made)
        yield application, spans


def translate(application: Application, text: str = TEXT, **headers: str) -> int:
    return application.post("/api/v1/translate", {"text": text}, **headers).status


def test_a_traced_request_is_described_without_its_text() -> None:
    reading, writing = os.pipe()
    log = AccessLog(writing)
    with traced(0, log) as (application, spans):
        assert translate(application, traceparent=TRACEPARENT) == 200
        ((span,), (sent,)) = spans.found, application.requests
    log.close()
    with os.fdopen(reading, "rb") as lines, os.fdopen(writing, "wb"):
        line = json.loads(lines.readline())
    assert span.name == "POST /api/v1/translate"
    assert dict(span.attributes or {}) == {
        "http.request.method": "POST",
        "http.route": "/api/v1/translate",
        "http.response.status_code": 200,
        "dragoman.request_id": line["request_id"],
        "dragoman.protocol": "own",
        "dragoman.characters": len(TEXT),
    }
    assert line["trace_id"] == TRACE
    assert span.parent is not None
    own = span.get_span_context()
    assert sent.headers["traceparent"] == f"00-{TRACE}-{own.span_id:016x}-01"
    assert "Bananas" not in span.to_json()


@pytest.mark.parametrize(
    ("networks", "traceparent", "is_traced"),
    [
        (("127.0.0.0/8",), TRACEPARENT, True),
        (("127.0.0.0/8",), TRACEPARENT[:-1] + "0", False),
        (("127.0.0.0/8",), "nonsense", False),
        (("10.0.0.0/8",), TRACEPARENT, False),
        ((), TRACEPARENT, False),
    ],
)
def test_a_context_is_used_if_its_network_is_trusted(
    networks: tuple[str, ...], traceparent: str, is_traced: bool
) -> None:
    with traced(0, trace_networks=networks) as (application, spans):
        assert translate(application, traceparent=traceparent) == 200
        assert len(spans.found) == is_traced
        assert ("traceparent" in application.requests[-1].headers) == is_traced


def test_an_untrusted_context_starts_a_new_trace() -> None:
    with traced(1, trace_networks=()) as (application, spans):
        translate(application, traceparent=TRACEPARENT)
        (span,) = spans.found
    assert span.parent is None
    assert f"{span.get_span_context().trace_id:032x}" != TRACE


def test_at_a_rate_of_one_every_request_but_probes_is_traced() -> None:
    with traced(1) as (application, spans):
        for path in ("/livez", "/readyz", "/metrics"):
            application.send("GET", path)
        assert not spans.found
        assert translate(application) == translate(application) == 200
        assert application.post("/no/such/path", {}).status == 404
        assert len({span.get_span_context().trace_id for span in spans.found}) == 3
        assert {span.status.status_code for span in spans.found} == {StatusCode.UNSET}


def test_an_internal_error_sets_the_status_of_the_span() -> None:
    def fail(text: str) -> str:
        raise RuntimeError(text)

    with traced(1, translate=fail) as (application, spans):
        assert translate(application) >= 500
        (span,) = spans.found
    assert span.status.status_code is StatusCode.ERROR
    assert not span.status.description
    assert not span.events


def test_an_invalid_network_is_refused() -> None:
    with pytest.raises(UsageError, match="trace_networks: 'here' is not a network"):
        Spans(1).of("here")


def test_nothing_is_traced_by_default() -> None:
    assert GatewaySettings().otlp is None
    with Application() as application:
        assert translate(application, traceparent=TRACEPARENT) == 200
        assert "traceparent" not in application.requests[-1].headers
