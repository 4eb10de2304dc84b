"""Requests to a server, and the parts of the answers that are compared.

`recorded_answers.json` has the answers of Dragoman on Triton. A test in tests/integration compares
it with the real server, and rewrites it with `DRAGOMAN_RECORD=1`; a test here compares it with the
fake server.
"""

from __future__ import annotations

import itertools
import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from dragoman_client import DeadlineExceeded, ServerUnavailable, TranslationError
from dragoman_client.transports.grpc_wire import infer_request
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import deserialize_bytes_tensor

RECORDING = Path(__file__).with_name("recorded_answers.json")

_ALL = {
    "return_scores": True,
    "return_confidence": True,
    "return_token_scores": True,
    "return_alignments": "hard",
}
_TWO = ["Good morning.", "Good night."]
_LONG = "Tom and Mary and John " * 20
_VARYING = re.compile(r"(?<=the deadline passed) .*")


@dataclass(frozen=True)
class Case:
    """A request, and the error that the fake's function raises; None: it raises none."""

    name: str
    model: str = "translate"
    inputs: dict[str, Any] = field(default_factory=lambda: {"text_input": ["Good morning."]})
    method: str = "generate"
    timeout_s: float | None = None
    refusal: TranslationError | None = None


_LATE = DeadlineExceeded("the deadline passed while it waited")
_GONE = ServerUnavailable("the engine's process has gone")
_STREAM: dict[str, Any] = {"model": "translate_stream", "method": "generate_stream"}

CASES = [
    Case("a text"),
    Case("two texts", inputs={"text_input": _TWO}),
    Case("assessments", inputs={"text_input": _TWO, **_ALL}),
    Case("alternatives", inputs={"text_input": _TWO, "num_return_sequences": 2}),
    Case("a text that is empty", inputs={"text_input": ["Good.", ""]}),
    Case("a deadline", timeout_s=1e-6, refusal=_LATE),
    Case("an unknown model", model="nothing"),
    Case("scores", model="score", inputs={"text_input": _TWO, "target_input": _TWO}),
    Case(
        "a stream",
        inputs={"text_input": [_LONG], "beam_width": 1},
        **_STREAM,
    ),
    Case("a stream of an empty text", inputs={"text_input": [""]}, **_STREAM),
    Case("a stream with a deadline", timeout_s=1e-6, refusal=_LATE, **_STREAM),
    Case("a stream of an unknown model", model="nothing", method="generate_stream"),
    Case("whether a model is ready", method="ready"),
    Case("whether an unknown model is ready", model="nothing", method="ready"),
    Case("the server", model="info", inputs={}),
    Case("the bundle", inputs={"text_input": _TWO, "return_bundle": True}),
    Case(
        "a stream with the bundle",
        inputs={"text_input": [_LONG], "return_bundle": True, "beam_width": 1},
        **_STREAM,
    ),
    Case(
        "a stream with scores",
        inputs={"text_input": ["Good morning."], "return_scores": True},
        **_STREAM,
    ),
    Case("an option out of range", inputs={"text_input": _TWO, "patience": 11.0}),
    Case(
        "options that exclude each other", inputs={"text_input": _TWO, "seed": 1, "patience": 2.0}
    ),
]

WITHOUT_ENGINE = [
    Case("a text without an engine", refusal=_GONE),
    Case("a stream without an engine", refusal=_GONE, **_STREAM),
]
"""Requests that are sent after the engine's process has ended."""


def answer(case: Case, url: str) -> Any:
    """The compared parts of an answer: status, message, or names, types and shapes of outputs."""
    scheme, _, authority = url.partition("://")
    if scheme == "http":
        return _http_answer(case, url)
    with grpc.insecure_channel(authority) as channel:
        try:
            return list(_grpc_answers(case, service_pb2_grpc.GRPCInferenceServiceStub(channel)))
        except grpc.RpcError as error:
            return {"status": error.code().name, "message": _fixed(error.details())}


def _http_answer(case: Case, url: str) -> Any:
    values = {name: v[0] if len(v) == 1 else v for name, v in _plain(case).items()}
    if case.timeout_s:
        values["timeout"] = 1
    body = json.dumps(values).encode() if case.method.startswith("generate") else None
    request = urllib.request.Request(f"{url}/v2/models/{case.model}/{case.method}", data=body)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            status, content = response.status, response.read()
    except urllib.error.HTTPError as error:
        status, content = error.code, error.read()
    if not content.startswith(b"data: "):
        return {"status": status, **(_of_json(json.loads(content)) if content else {})}
    events = [json.loads(line.removeprefix(b"data: ")) for line in content.split(b"\n\n") if line]
    return {"status": status, "parts": _distinct(map(_of_json, events))}


def _of_json(content: dict[str, Any]) -> dict[str, Any]:
    if "error" in content:
        return {"message": _fixed(content["error"])}
    reason = {"ends": bool(content["finish_reason"])} if "finish_reason" in content else {}
    return {"outputs": _written({name: _type(value) for name, value in content.items()}), **reason}


def _type(value: Any) -> str:
    kinds = [type(v).__name__ for v in (value if isinstance(value, list) else [value])]
    return f"[{', '.join(kinds)}]" if isinstance(value, list) else kinds[0]


def _grpc_answers(case: Case, service: Any) -> Iterator[Any]:
    if case.method == "ready":
        yield {"ready": service.ModelReady(service_pb2.ModelReadyRequest(name=case.model)).ready}
        return
    streamed = case.method == "generate_stream"
    inputs = {name: _encoded(values) for name, values in _plain(case).items()}
    request = infer_request(case.model, inputs, case.timeout_s or 30.0, is_flat=streamed)
    if not streamed:
        yield _of_response(service.ModelInfer(request))
        return
    yield from _distinct(
        {"message": _fixed(message.error_message)}
        if message.error_message
        else _of_response(message.infer_response)
        for message in service.ModelStreamInfer(iter([request]))
    )


def _of_response(response: Any) -> dict[str, Any]:
    tensors = list(zip(response.outputs, response.raw_output_contents, strict=True))
    reasons = [
        deserialize_bytes_tensor(raw) for tensor, raw in tensors if tensor.name == "finish_reason"
    ]
    return {
        "model": f"{response.model_name} {response.model_version}",
        "outputs": _written({t.name: f"{t.datatype} {list(t.shape)}" for t, _ in tensors}),
        **({"ends": bool(reasons[0][0])} if reasons else {}),
    }


def _written(outputs: dict[str, str]) -> str:
    """Names and types in one line."""
    return ", ".join(f"{name} {outputs[name]}" for name in sorted(outputs))


def _distinct(parts: Any) -> list[Any]:
    """The parts that differ from the previous one; the number of all parts depends on timing."""
    return [part for part, _ in itertools.groupby(parts)]


def _plain(case: Case) -> dict[str, list[Any]]:
    return {name: v if isinstance(v, list) else [v] for name, v in case.inputs.items()}


def _encoded(values: list[Any]) -> list[Any]:
    return [value.encode() if isinstance(value, str) else value for value in values]


def _fixed(message: str) -> str:
    """The message without the part that depends on time."""
    return _VARYING.sub(" ...", message)
