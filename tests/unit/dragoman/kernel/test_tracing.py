from __future__ import annotations

import random
import sys
import threading

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import get_current_span

from dragoman.kernel.errors import UsageError
from dragoman.kernel.tracing import TraceOptions, Tracing, sampled_context

URL = "http://localhost:4318"
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def tracing(rate: float) -> tuple[Tracing, InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    return Tracing(TraceOptions(URL, rate), "name", SimpleSpanProcessor(exporter)), exporter


def test_nothing_is_traced_without_a_collector() -> None:
    assert TraceOptions.of(None, 1.0) is None
    options = TraceOptions.of(f"{URL}/", 0.5)
    assert options is not None
    assert (options.traces_url, options.rate) == (f"{URL}/v1/traces", 0.5)


@pytest.mark.parametrize(
    ("url", "rate", "message"),
    [
        (None, 1.5, "--trace-rate 1.5: give 0 to 1"),
        (URL, -1, "--trace-rate -1: give 0 to 1"),
        ("localhost:4318", 1, "--otlp localhost:4318: give a URL such as http://localhost:4318"),
        ("http://me:secret@a:4318", 1, "--otlp: give credentials in OTEL_EXPORTER_OTLP_HEADERS"),
    ],
)
def test_unusable_settings_are_refused(url: str | None, rate: float, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        TraceOptions.of(url, rate)
    assert str(caught.value) == message


def test_the_extra_is_named_if_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(UsageError, match=r"opentelemetry.* is not installed: .*\[tracing\]"):
        TraceOptions.of(URL, 1)


@pytest.mark.parametrize("rate", [0, 0.01, 0.25, 1])
def test_the_given_share_is_sampled(rate: float) -> None:
    random.seed(1)
    many = 20_000
    maker, _ = tracing(rate)
    sampled = sum(maker.sample() is not None for _ in range(many))
    assert abs(sampled - many * rate) <= 4 * (many * rate * (1 - rate)) ** 0.5


def test_a_sampled_request_has_a_span_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment=blue")
    maker, exporter = tracing(1)
    maker.tracer.start_span("one", maker.sample()).end()
    (span,) = exporter.get_finished_spans()
    assert span.parent is None
    assert span.resource.attributes["service.name"] == "name"
    assert span.resource.attributes["deployment"] == "blue"
    monkeypatch.setenv("OTEL_SERVICE_NAME", "another")
    maker, exporter = tracing(1)
    maker.tracer.start_span("one", maker.sample()).end()
    assert exporter.get_finished_spans()[0].resource.attributes["service.name"] == "another"


def test_a_sampled_trace_is_continued() -> None:
    context = sampled_context({"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "a=b"})
    maker, exporter = tracing(0)
    maker.tracer.start_span("one", context).end()
    (span,) = exporter.get_finished_spans()
    assert span.parent is not None
    assert (f"{span.parent.trace_id:x}", f"{span.parent.span_id:016x}") == (TRACE, SPAN)
    assert get_current_span(context).get_span_context().trace_state.get("a") == "b"


@pytest.mark.parametrize("written", [f"00-{TRACE}-{SPAN}-00", "00-0-0-01", "", "\xff"])
def test_other_traces_are_not_continued(written: str) -> None:
    assert sampled_context({"traceparent": written}) is None
    assert sampled_context({}) is None


def test_an_unavailable_collector_does_not_delay_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "4")
    before = set(threading.enumerate())
    maker = Tracing(TraceOptions("http://127.0.0.1:9"), "name")
    maker.tracer.start_span("one").end()
    maker.close()
    sending = set(threading.enumerate()) - before
    assert sending
    # Random waits between attempts would disturb tests with Hypothesis.
    for thread in sending:
        thread.join()
