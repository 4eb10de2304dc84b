"""One trace of one sentence, from a client's own span through gateway, Triton and relay."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from dragoman_client import AsyncTranslator, InvalidRequest, Translator
from dragoman_serving.launch.launcher import TritonServer
from dragoman_serving.launch.serve_options import ServeOptions
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from dragoman.kernel.tracing import TraceOptions
from tests.collector import Collector, Span
from tests.conftest import REPOSITORY
from tests.integration.gateway.conftest import RunningGateway, run_gateway

TEXT = "The weather is very nice today."
GATEWAY, TRITON, ENGINE = "dragoman-gateway", "triton-inference-server", "dragoman-engine"
OF_TRITON = ["InferRequest", "translate", "compute"]
OF_ENGINE = ["engine", "queue", "encode", "decode"]
TRACER = TracerProvider().get_tracer("test")
"""Of the application that uses the client; nobody gets its spans."""


@dataclass(frozen=True)
class Traced:
    """Running servers whose requests are traced if they bring a trace context, and no others."""

    collector: Collector
    server: TritonServer
    gateway: RunningGateway


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    with pytest.MonkeyPatch.context() as patch, Collector() as collector:
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        options = ServeOptions(
            REPOSITORY / "model_repository",
            http_port=0,
            grpc_port=0,
            metrics_port=0,
            tracing=TraceOptions(collector.url, rate=0),
        )
        with (
            TritonServer(options) as server,
            run_gateway(
                *(server.grpc_url, server.http_url),
                otlp=collector.url,
                trace_rate=0,
                access_log=True,
                folder=tmp_path_factory.mktemp("gateway"),
            ) as gateway,
        ):
            yield Traced(collector, server, gateway)


def chain(spans: list[Span], leaf: Span) -> list[str]:
    """Names of the spans from the outermost one down to this."""
    by_id = {one.span_id: one for one in spans}
    parent = by_id.get(leaf.parent_id)
    return [*(chain(spans, parent) if parent else ()), leaf.name]


def the(spans: list[Span], name: str, service: str = ENGINE) -> Span:
    (found,) = (one for one in spans if (one.name, one.service) == (name, service))
    return found


def whole(*names: str) -> object:
    return lambda spans: sorted(one.name for one in spans) == sorted(names)


def test_a_sentence_from_the_client_to_the_decoder(traced: Traced) -> None:
    import time
    with Translator(traced.gateway.url) as client:
        client.translate(TEXT, target_language="de")
        with TRACER.start_as_current_span("application") as own:
            client.translate(TEXT + " Yes.", target_language="de", beam_width=2)
    time.sleep(3)
    for one in sorted(traced.collector.spans, key=lambda one: one.begin_ns):
        print(chain(traced.collector.spans, one), one)
    print(traced.gateway.log)
    assert 0
