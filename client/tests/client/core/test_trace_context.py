"""Every request carries the trace context of a sampled span and the request's id."""

import asyncio
import subprocess
import sys

import pytest
from dragoman_client import AsyncTranslator, Translator
from dragoman_client.core.trace_context import REQUEST_ID
from dragoman_client.testing import FakeServer
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from stand_ins import HEADERS

TRACER = TracerProvider().get_tracer("test")


def contexts() -> set[str]:
    """The parts of the requests' trace contexts that identify traces and spans."""
    written = (seen.get("traceparent", "") for seen in HEADERS)
    return {header.rpartition("-")[0] for header in written}


def test_requests_carry_the_current_span(url: str) -> None:
    HEADERS.clear()
    with Translator(url) as translator, TRACER.start_as_current_span("own") as span:
        translator.translate("a")
        list(translator.translate_batches(["a", "b", "c"], batch_size=1, concurrency=2))
    assert len(HEADERS) == 4
    own = span.get_span_context()
    assert contexts() == {f"00-{own.trace_id:032x}-{own.span_id:016x}"}


async def test_tasks_carry_their_own_spans(url: str) -> None:
    async def ask(translator: AsyncTranslator, text: str) -> str:
        with TRACER.start_as_current_span(text) as span:
            await translator.translate(text)
            own = span.get_span_context()
            return f"00-{own.trace_id:032x}-{own.span_id:016x}"

    HEADERS.clear()
    async with AsyncTranslator(url) as translator:
        expected = set(await asyncio.gather(*(ask(translator, text) for text in "abc")))
    assert contexts() == expected
    assert len(HEADERS) == 3


def test_streams_carry_the_trace_context(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    for module in ("grpc_transport", "http_connections"):
        name = f"dragoman_client.transports.{module}.trace_headers"
        monkeypatch.setattr(name, lambda: seen.append(1) or {"traceparent": "x"})
    with Translator(url) as translator:
        translator.translate("a")  # the first request also asks for the kind of the server
        seen.clear()
        assert list(translator.translate_stream("a"))
    assert seen == [1]


def test_without_a_sampled_span_no_trace_context_is_sent(url: str) -> None:
    """Triton traces every request that has a trace context."""
    HEADERS.clear()
    tracer = TracerProvider(sampler=ALWAYS_OFF).get_tracer("test")
    with Translator(url) as translator:
        translator.translate("a")
        with tracer.start_as_current_span("not sampled"):
            translator.translate("a")
    assert contexts() == {""}


def test_a_program_without_spans_does_not_load_opentelemetry() -> None:
    code = (
        "import sys, dragoman_client.core.trace_context as it; assert it.trace_headers() == {}\n"
        "print(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("protocol", ["grpc_url", "http_url"])
async def test_requests_have_the_id_of_their_task(protocol: str) -> None:
    async def ask(translator: AsyncTranslator, request_id: str) -> None:
        REQUEST_ID.set(request_id)
        await translator.translate("a")
        await translator.score("a", "b")
        async for _ in translator.translate_stream("a"):
            pass

    with FakeServer() as server:
        async with AsyncTranslator(getattr(server, protocol)) as translator:
            await asyncio.gather(*(ask(translator, name) for name in ("one", "two", "")))
        sent = sorted((request.request_id, request.model) for request in server.requests)
    models = ("score", "translate", "translate_stream")
    assert sent == [(name, model) for name in ("", "one", "two") for model in models]
