"""The spans that the engine's process makes for requests which Triton traces."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from dragoman_options.client_frames import pack_request, request_of
from dragoman_options.frames import Answer, DataType, Failure, Tensor
from dragoman_options.table import SCORE, STREAM, TRANSLATE
from dragoman_serving.engine.request_trace import RequestTrace
from dragoman_serving.service import answers
from dragoman_serving.service.answers import of_error
from dragoman_serving.service.requests import RequestReader
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from dragoman.kernel.tracing import TraceOptions, Tracing, sampled_context
from tests.unit.serving.service.triton_side import Triton, hello, served

TEXTS = ["Yesterday evening we walked home.", "Bananas are yellow. Apples are mostly red."]
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CONTEXT = json.dumps({"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01", "tracestate": ""})
NUMBERS = ("sentences", "input_tokens", "output_tokens", "beam_width", "steps")
NAMES = {f"dragoman.{name}" for name in (*NUMBERS, "finish_reason", "bundle")} | {"error.type"}
"""All attributes that there are."""
WAIT_S = 30


class Traced:
    """Models, and the spans of requests to them."""

    def __init__(self, models: dict[str, Triton], exporter: InMemorySpanExporter) -> None:
        self._models, self._exporter = models, exporter

    def ask(
        self,
        texts: list[str],
        model: str = TRANSLATE,
        trace: str = CONTEXT,
        request_id: str = "",
        **options: Any,
    ) -> Answer | Failure:
        """The last answer."""
        values = [text.encode() for text in texts]
        names = ("text_input", "target_input")[: 2 if model == SCORE else 1]
        given = [Tensor.of(name, DataType.BYTES, (1, len(texts)), values) for name in names]
        request = request_of(1, 0, options, ("text_output", "confidences"), given)
        request.trace = trace
        self._exporter.clear()
        request.id = request_id
        self._models[model].send(pack_request(request))
        while not (answer := self._models[model].answer()).last:
            pass
        return answer

    @property
    def spans(self) -> dict[str, ReadableSpan]:
        """The request's spans by name, when its span has ended."""
        deadline = time.monotonic() + WAIT_S
        while True:
            finished = self._exporter.get_finished_spans()
            if any(span.name == "engine" for span in finished):
                assert len({span.name for span in finished}) == len(finished)
                return {span.name: span for span in finished}
            assert time.monotonic() < deadline
            time.sleep(0.001)


@pytest.fixture(scope="module")
def traced() -> Iterator[Traced]:
    exporter = InMemorySpanExporter()
    tracing = Tracing(TraceOptions("http://unused", 0), "engine", SimpleSpanProcessor(exporter))
    with served(tracing=tracing) as connect:
        models = {}
        for name in (TRANSLATE, STREAM, SCORE):
            models[name] = connect()
            assert models[name].introduce(hello(name)) is None
        yield Traced(models, exporter)


def values(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_several_sentences_are_counted_together(traced: Traced) -> None:
    traced.ask(TEXTS, beam_width=3)
    spans = traced.spans
    assert set(spans) == {"engine", "queue", "encode", "decode"}
    above = spans["engine"].get_span_context()
    assert above is not None
    for name in ("queue", "encode", "decode"):
        assert values(spans[name])["dragoman.sentences"] == 3
        parent = spans[name].parent
        assert parent is not None
        assert parent.span_id == above.span_id
    assert f"{above.trace_id:032x}" == TRACE
    decode = values(spans["decode"])
    assert (decode["dragoman.beam_width"], decode["dragoman.finish_reason"]) == (3, "stop")
    assert decode["dragoman.output_tokens"] > decode["dragoman.steps"] > 3


def test_a_cut_translation_is_recorded(traced: Traced) -> None:
    traced.ask(TEXTS[:1], max_tokens=2)
    decode = values(traced.spans["decode"])
    assert decode["dragoman.finish_reason"] == "length"
    assert decode["dragoman.output_tokens"] == decode["dragoman.steps"] == 2


def test_scores_of_a_search_and_of_given_pairs(traced: Traced) -> None:
    traced.ask(TEXTS, SCORE, target_language="de")
    spans = traced.spans
    assert set(spans) == {"engine", "score"}
    score = values(spans["score"])
    assert score["dragoman.sentences"] == 2
    assert score["dragoman.input_tokens"] > score["dragoman.output_tokens"] > 10
    # A graph computes the attention of every head, after the search.
    traced.ask(TEXTS[:1], return_attention=True)
    assert set(traced.spans) == {"engine", "queue", "encode", "decode", "score"}


def test_a_stream_has_the_same_spans(traced: Traced) -> None:
    traced.ask(TEXTS[1:], STREAM)
    assert set(traced.spans) == {"engine", "queue", "encode", "decode"}
    assert values(traced.spans["engine"])["dragoman.bundle"]


@pytest.mark.parametrize(
    ("model", "texts", "error"),
    [(TRANSLATE, [], "INVALID_ARGUMENT"), (STREAM, TEXTS, "INVALID_ARGUMENT")],
)
def test_a_refused_request_names_its_error(
    traced: Traced, model: str, texts: list[str], error: str
) -> None:
    assert isinstance(traced.ask(texts, model), Failure)
    (engine,) = traced.spans.values()
    assert values(engine) == {"error.type": error}
    assert engine.status.status_code is StatusCode.ERROR
    assert not engine.status.description
    assert not engine.events


def test_no_span_holds_a_text(traced: Traced) -> None:
    for model in (TRANSLATE, STREAM, SCORE):
        traced.ask(TEXTS[:1], model)
        for span in traced.spans.values():
            assert NAMES.issuperset(values(span))
            numbers = {f"dragoman.{name}" for name in NUMBERS}
            assert all(type(values(span)[name]) is int for name in numbers & {*values(span)})
            written = span.to_json()
            assert not [word for word in TEXTS[0].split() if word in written]


@pytest.mark.parametrize("trace", ["", CONTEXT.replace("-01", "-00"), "{", "[]", "null"])
def test_a_request_that_is_not_traced_has_no_span(traced: Traced, trace: str) -> None:
    assert isinstance(traced.ask(TEXTS[:1], trace=trace), Answer)
    traced.ask(TEXTS[:1], STREAM)
    assert len(traced.spans) == 4  # only of the second request


def test_a_failure_in_the_log_names_its_request_and_trace(caplog: pytest.LogCaptureFixture) -> None:
    exporter = InMemorySpanExporter()
    tracing = Tracing(TraceOptions("http://unused", 0), "engine", SimpleSpanProcessor(exporter))
    context = sampled_context(json.loads(CONTEXT))
    assert context is not None
    of_error(RuntimeError("a text"), 1, RequestTrace(tracing.tracer, context), "r-1")
    assert caplog.messages == [f"a request failed: RuntimeError (request 'r-1', trace {TRACE})"]
    (span,) = exporter.get_finished_spans()
    assert values(span) == {"error.type": "INTERNAL"}


@pytest.mark.parametrize("model", [TRANSLATE, SCORE, STREAM])
@pytest.mark.parametrize("broken", ["RequestReader.read", "answers._tensors"])
def test_a_failure_of_every_model_names_its_request(
    traced: Traced,
    model: str,
    broken: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The failure may occur before the search begins or after it has ended."""

    def fail(*_: object) -> None:
        raise RuntimeError("a text")

    module, _, name = broken.partition(".")
    monkeypatch.setattr(RequestReader if module == "RequestReader" else answers, name, fail)
    answer = traced.ask(TEXTS[:1], model, trace="", request_id="r-1\n" + "x" * 3000)
    assert isinstance(answer, Failure)
    shown = "r-1\\n" + "x" * 1996
    assert caplog.messages == [f"a request failed: RuntimeError (request '{shown}')"]
