"""One trace of one sentence, from a client's own span through gateway, Triton and relay."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from dragoman_client import AsyncTranslator, Translator
from dragoman_serving.launch.launcher import TritonServer
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from dragoman.kernel.tracing import TraceOptions
from tests.collector import Collector, Span
from tests.exchanges import send
from tests.gateways import RunningGateway, run_gateway
from tests.servers import serving

TEXT = "The weather is very nice today."
GATEWAY, TRITON, ENGINE = "dragoman-gateway", "triton-inference-server", "dragoman-engine"
OF_TRITON = ("InferRequest", "translate", "compute")
TRACER = TracerProvider().get_tracer("test")
"""Spans of the application that uses the client; nobody receives them."""


@dataclass(frozen=True)
class Traced:
    """Running servers that trace only requests with a trace context.

    The gateway reaches the engine through Triton or at its socket.
    """

    collector: Collector
    server: TritonServer
    gateway: RunningGateway
    through_triton: bool


@pytest.fixture(scope="module", params=["engine_url", "grpc_url"])
def traced(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Traced]:
    triton = request.param == "grpc_url"
    with pytest.MonkeyPatch.context() as patch, Collector() as collector:
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        with (
            serving(tracing=TraceOptions(collector.url, rate=0)) as served,
            run_gateway(
                getattr(served.server, request.param),
                served.server.http_url,
                otlp=collector.url,
                trace_rate=0,
                access_log=True,
                folder=tmp_path_factory.mktemp("gateway"),
            ) as gateway,
        ):
            yield Traced(collector, served.server, gateway, triton)


def chain(spans: list[Span], leaf: Span) -> list[str]:
    """Names of the spans from the outermost one to this."""
    by_id = {span.span_id: span for span in spans}
    parent = by_id.get(leaf.parent_id)
    return [*(chain(spans, parent) if parent else ()), leaf.name]


def the(spans: list[Span], name: str, service: str = ENGINE) -> Span:
    (span,) = (span for span in spans if (span.name, span.service) == (name, service))
    return span


def id_of(span: trace.Span) -> str:
    return f"{span.get_span_context().trace_id:032x}"


def test_a_sentence_from_the_client_to_the_decoder(traced: Traced) -> None:
    with Translator(traced.gateway.url) as client:
        client.translate("Hello.", target_language="de")  # queries the server info; not traced
        with TRACER.start_as_current_span("application") as own:
            translation = client.translate(TEXT, target_language="de", beam_width=2)
    route = "POST /api/v1/translate"
    between = OF_TRITON if traced.through_triton else ()
    spans = traced.collector.of_trace(id_of(own), {route, *between, "engine", "decode"})
    chains = {(span.service, *chain(spans, span)) for span in spans}
    engine = (ENGINE, route, *between[:2], "engine")
    assert chains == {
        (GATEWAY, route),
        *((TRITON, route, *between[: number + 1]) for number in range(len(between))),
        engine,
        *((*engine, stage) for stage in ("queue", "encode", "decode")),
    }
    assert len(spans) == len(chains)
    gateway = the(spans, route, GATEWAY)
    assert gateway.parent_id == f"{own.get_span_context().span_id:016x}"
    request_id = gateway.attributes.pop("dragoman.request_id")
    if traced.through_triton:
        assert the(spans, "translate", TRITON).attributes["triton.request_id"] == request_id
    assert gateway.attributes == {
        "http.request.method": "POST",
        "http.route": "/api/v1/translate",
        "http.response.status_code": 200,
        "dragoman.protocol": "own",
        "dragoman.characters": len(TEXT),
    }
    queue, encode, decode = (the(spans, name) for name in ("queue", "encode", "decode"))
    assert queue.attributes == {"dragoman.sentences": 1}
    assert encode.attributes["dragoman.sentences"] == 1
    assert len(TEXT.split()) < encode.attributes["dragoman.input_tokens"] < len(TEXT)
    assert decode.attributes == {
        "dragoman.sentences": 1,
        "dragoman.output_tokens": translation.output_tokens,
        "dragoman.beam_width": 2,
        "dragoman.steps": decode.attributes["dragoman.steps"],
        "dragoman.finish_reason": "stop",
    }
    assert decode.attributes["dragoman.steps"] > translation.output_tokens  # and the end symbol
    assert not any(span.failed for span in spans)
    moments = [queue.begin_ns, queue.end_ns, encode.end_ns, decode.end_ns]
    assert moments == sorted(moments)
    assert (encode.begin_ns, decode.begin_ns) == (queue.end_ns, encode.end_ns)
    of_log = next(json.loads(line) for line in traced.gateway.log if id_of(own) in line)
    assert of_log["request_id"] == request_id
    received = b"".join(traced.collector.received)
    for text in (TEXT, translation.text):
        assert not [word for word in text.encode().split() if len(word) > 4 and word in received]


def test_scores_and_streams(traced: Traced) -> None:
    async def ask() -> tuple[str, str]:
        async with AsyncTranslator(traced.server.grpc_url) as client:
            with TRACER.start_as_current_span("scores") as scoring:
                await client.score(TEXT, "Das Wetter ist heute sehr schön.", target_language="de")
        async with AsyncTranslator(traced.gateway.url) as client:
            with TRACER.start_as_current_span("parts") as streaming:
                async for _ in client.translate_stream(TEXT, target_language="de"):
                    pass
        return id_of(scoring), id_of(streaming)

    scoring, streaming = asyncio.run(ask())
    spans = traced.collector.of_trace(scoring, {"InferRequest", "score", "engine"})
    score = next(span for span in spans if (span.name, span.service) == ("score", ENGINE))
    assert chain(spans, score) == ["InferRequest", "score", "engine", "score"]
    assert score.attributes["dragoman.sentences"] == 1
    route = "POST /api/v1/translate/stream"
    models = ["InferRequest", "translate_stream"] if traced.through_triton else []
    spans = traced.collector.of_trace(streaming, {route, *models, "engine", "decode"})
    assert chain(spans, the(spans, "decode")) == [route, *models, "engine", "decode"]
    request_id = the(spans, route, GATEWAY).attributes["dragoman.request_id"]
    if traced.through_triton:
        span = the(spans, "translate_stream", TRITON)
        assert span.attributes["triton.request_id"] == request_id


def test_a_refused_request(traced: Traced) -> None:
    body = {"text_input": TEXT, "beam_width": 99}
    trace_id = f"{uuid.uuid4().int:032x}"
    context = {"traceparent": f"00-{trace_id}-00f067aa0ba902b7-01"}
    url = f"{traced.server.http_url}/v2/models/translate/generate"
    assert send(url, body, context).status == 400
    spans = traced.collector.of_trace(trace_id, {"engine"})
    engine = the(spans, "engine")
    assert engine.failed
    assert engine.attributes == {"error.type": "INVALID_ARGUMENT"}


def test_requests_without_a_sampled_context_are_not_traced(traced: Traced) -> None:
    before = {span.trace_id for span in traced.collector.spans}
    unsampled = TracerProvider(sampler=ALWAYS_OFF).get_tracer("test")
    sampled = set()
    for number, url in enumerate((traced.gateway.url, traced.server.grpc_url)):
        with Translator(url) as client:
            client.translate(f"I have {number} apples.", target_language="de")
            with unsampled.start_as_current_span("not sampled"):
                client.translate(f"I have {number} pears.", target_language="de")
            with TRACER.start_as_current_span("sampled") as last:
                client.translate(f"I have {number} plums.", target_language="de")
        traced.collector.of_trace(id_of(last), {"engine"})
        sampled.add(id_of(last))
    assert {span.trace_id for span in traced.collector.spans} - before == sampled
