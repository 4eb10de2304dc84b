"""Stand-ins: a transport without a server, and servers without a model."""

from __future__ import annotations

import http.server
import json
import random
import threading
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import grpc
import numpy as np
from dragoman_client import DeadlineExceeded, InvalidRequest, ServerError, ServerUnavailable
from tritonclient.grpc import model_config_pb2, service_pb2, service_pb2_grpc
from tritonclient.utils import deserialize_bytes_tensor, serialize_byte_tensor

TIMEOUT_S = 0.25

REFUSALS = {
    "!invalid": (grpc.StatusCode.INVALID_ARGUMENT, 400),
    "!unavailable": (grpc.StatusCode.UNAVAILABLE, 503),
    "!internal": (grpc.StatusCode.INTERNAL, 500),
    "!cancelled": (grpc.StatusCode.CANCELLED, 499),
}
"""Texts that the servers below refuse, and how."""

SECRET_ONLY = "x-secret-only"
"""A header by which a request asks the servers below to want a token."""

HEADERS: list[dict[str, Any]] = []
"""Headers and deadline of what the servers below have translated."""

KINDS = [
    ("!invalid", InvalidRequest),
    ("!unavailable", ServerUnavailable),
    ("!internal", ServerError),
    ("!cancelled", DeadlineExceeded),
]
"""What each of them is to a client."""

NAMED = ("INVALID_ARGUMENT", "UNAVAILABLE", "CANCELLED", "INTERNAL")
"""Statuses that Dragoman's server puts at the front of a message in a stream."""

ENDLESS = "!endless"
"""A text whose stream ends without its last part."""

LATE = "!late"
"""A text that the servers below answer too late."""


def translated(text: str) -> str:
    """What every stand-in translates a text into."""
    return f"<{text.upper()}>"


class FakeTransport:
    """Answers after a random delay, and remembers what it was asked."""

    def __init__(self, longest_delay_s: float = 0.0) -> None:
        """A transport whose delays are the same in every run."""
        self.requests: list[Mapping[str, Any]] = []
        self.most_under_way = 0
        self.closed = False
        self._under_way = 0
        self._lock = threading.Lock()
        self._random = random.Random(0)
        self._longest_delay_s = longest_delay_s

    def infer(self, inputs: Mapping[str, Any], timeout_s: float = 1.0) -> dict[str, Any]:
        """Texts in capitals; the length of each as its number of tokens."""
        with self._lock:
            self.requests.append({name: values[0] for name, values in inputs.items()})
            self._under_way += 1
            self.most_under_way = max(self.most_under_way, self._under_way)
            delay_s = self._random.uniform(0, self._longest_delay_s)
        time.sleep(delay_s)
        with self._lock:
            self._under_way -= 1
        texts = [text.decode() for text in inputs["text_input"][0]]
        reasons = [b"length" if "cut" in text else b"stop" for text in texts]
        return {
            "text_output": np.array([[translated(text).encode() for text in texts]], np.object_),
            "output_tokens": np.array([[len(text) for text in texts]], np.int32),
            "finish_reason": np.array([reasons], np.object_),
        }

    def stream(
        self, inputs: Mapping[str, Any], timeout_s: float = 1.0
    ) -> Generator[dict[str, Any], None, None]:
        """Letter by letter."""
        whole = self.infer(inputs)
        text = whole["text_output"][0, 0]
        for end in range(1, len(text)):
            yield {
                "text_output": np.array([[text[:end]]], np.object_),
                "output_tokens": np.array([[0]], np.int32),
                "finish_reason": np.array([[b""]], np.object_),
            }
        yield whole

    def is_ready(self) -> bool:
        """Always."""
        return True

    def close(self) -> None:
        """Remember it."""
        self.closed = True


def _answer(texts: list[bytes]) -> dict[str, tuple[str, bytes]]:
    """Datatype and bytes of each output, as Triton writes them."""
    found = [translated(text.decode()).encode() for text in texts]
    tokens = [len(text) for text in texts]
    return _outputs(found, [b"stop"] * len(texts), tokens)


def _thought(texts: list[bytes]) -> dict[str, tuple[str, bytes]]:
    """What the model `score` says of translations of these texts."""
    numbers = np.array([-len(text) for text in texts], np.float32)
    links = np.array([b"0-0"] * len(texts), np.object_)
    return {
        "scores": ("FP32", numbers.tobytes()),
        "confidences": ("FP32", (numbers / 10).tobytes()),
        "alignments": ("BYTES", bytes(serialize_byte_tensor(links).item())),
    }


def _outputs(
    texts: list[bytes], reasons: list[bytes], tokens: list[int] | None = None
) -> dict[str, tuple[str, bytes]]:
    def strings(values: list[bytes]) -> bytes:
        return bytes(serialize_byte_tensor(np.array(values, np.object_)).item())

    counts = np.array(tokens or [len(text) for text in texts], np.int32)
    return {
        "finish_reason": ("BYTES", strings(reasons)),
        "output_tokens": ("INT32", counts.tobytes()),
        "text_output": ("BYTES", strings(texts)),
    }


def _generated(texts: list[str]) -> dict[str, Any]:
    """The same, as JSON: one element has no list around it."""
    columns = {
        "finish_reason": ["stop"] * len(texts),
        "output_tokens": [len(text.encode()) for text in texts],
        "text_output": [translated(text) for text in texts],
    }
    return _as_generated("translate", columns)


def _scored(texts: list[str]) -> dict[str, Any]:
    """`_thought`, as JSON."""
    numbers = [-len(text.encode()) for text in texts]
    columns = {
        "scores": [float(number) for number in numbers],
        "confidences": [float(np.float32(number) / 10) for number in numbers],
        "alignments": ["0-0"] * len(texts),
    }
    return _as_generated("score", columns)


def _as_generated(model: str, columns: dict[str, list[Any]]) -> dict[str, Any]:
    values = {name: v[0] if len(v) == 1 else v for name, v in columns.items()}
    return {"model_name": model, "model_version": "1", **values}


def parts_of(text: str) -> list[tuple[bytes, bytes]]:
    """What a stream brings of a text, and why each part ends."""
    whole = translated(text).encode()
    parts = [(whole[:end], b"") for end in range(1, len(whole) + 1)]
    return parts if text == ENDLESS else [*parts, (whole, b"stop")]


class GrpcServicer(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]
    """Triton's gRPC service as far as the client uses it."""

    def ModelReady(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Ready, if it is the right model."""
        return service_pb2.ModelReadyResponse(ready=request.name == "translate")

    def ModelConfig(self, request: Any, context: Any) -> Any:  # noqa: N802
        """With languages, as Dragoman's has them."""
        config = model_config_pb2.ModelConfig(name=request.name)
        config.parameters["languages"].string_value = "en,de"
        return service_pb2.ModelConfigResponse(config=config)

    def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Translate."""
        seen = dict(context.invocation_metadata())
        if SECRET_ONLY in seen and seen.get("authorization") != "Bearer secret":
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "a token is missing")
        HEADERS.append({**seen, "timeout": request.parameters["timeout"].int64_param})
        (texts,) = (
            deserialize_bytes_tensor(content).tolist()
            for tensor, content in zip(request.inputs, request.raw_input_contents, strict=True)
            if tensor.name == "text_input"
        )
        first = texts[0].decode()
        if first in REFUSALS:
            context.abort(REFUSALS[first][0], f"refused: {first}")
        if first == LATE:
            time.sleep(2 * TIMEOUT_S)
        response = service_pb2.ModelInferResponse(model_name=request.model_name)
        answer = _thought if request.model_name == "score" else _answer
        for name, (datatype, content) in answer(texts).items():
            response.outputs.add(name=name, datatype=datatype, shape=[1, len(texts)])
            response.raw_output_contents.append(content)
        return response

    def ModelStreamInfer(self, requests: Any, context: Any) -> Any:  # noqa: N802
        """Translate letter by letter."""
        for request in requests:
            HEADERS.append(dict(context.invocation_metadata()))
            text = deserialize_bytes_tensor(request.raw_input_contents[0])[0].decode()
            if text in REFUSALS:
                code = REFUSALS[text][0]
                if code.name not in NAMED:
                    context.abort(code, f"refused: {text}")
                message = f"{code.name}: refused: {text}"
                yield service_pb2.ModelStreamInferResponse(error_message=message)
                continue
            for part, reason in parts_of(text):
                response = service_pb2.ModelInferResponse(model_name="translate_stream")
                for name, (datatype, content) in _outputs([part], [reason]).items():
                    response.outputs.add(name=name, datatype=datatype, shape=[1])
                    response.raw_output_contents.append(content)
                yield service_pb2.ModelStreamInferResponse(infer_response=response)


class HttpHandler(http.server.BaseHTTPRequestHandler):
    """Triton's HTTP service as far as the client uses it."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    connections: ClassVar[set[Any]] = set()

    def do_GET(self) -> None:
        """Ready, if it is the right model; and its configuration."""
        if self.path == "/v2/models/translate/config":
            parameters = {"languages": {"string_value": "en,de"}}
            return self._send(200, json.dumps({"parameters": parameters}).encode())
        self._send(200 if self.path == "/v2/models/translate/ready" else 400, b"")
        return None

    def do_POST(self) -> None:
        """Translate."""
        self.connections.add(self.client_address)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        asked = json.loads(body)
        if self.path.endswith("/generate_stream"):
            return self._stream(asked)
        if SECRET_ONLY in self.headers and self.headers["Authorization"] != "Bearer secret":
            return self._send(401, b"")
        seen = {name.lower(): value for name, value in self.headers.items()}
        HEADERS.append({**seen, "timeout": asked["timeout"]})
        texts = asked["text_input"]
        texts = texts if isinstance(texts, list) else [texts]
        first = texts[0]
        if first in REFUSALS:
            refusal = {"error": f"refused: {first}"}
            return self._send(REFUSALS[first][1], json.dumps(refusal).encode())
        if first == "!proxy":
            return self._send(502, b"<html>Bad Gateway</html>")
        if first == "!nonsense":
            return self._send(200, b"<html>Welcome</html>")
        if first == LATE:
            time.sleep(2 * TIMEOUT_S)
        scoring = "/score/" in self.path
        self._send(200, json.dumps(_scored(texts) if scoring else _generated(texts)).encode())
        if first == "!hangup":
            # Without a word to the client, as a server that drops idle connections does it.
            self.close_connection = True
        return None

    def _stream(self, asked: dict[str, Any]) -> None:
        """Translate letter by letter."""
        text = asked["text_input"]
        if text in REFUSALS:
            code = REFUSALS[text][0].name
            named = f"{code}: " if code in NAMED else ""
            answer = json.dumps({"error": f"{named}refused: {text}"})
            return self._send(REFUSALS[text][1], f"data: {answer}\n\n".encode())
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for part, reason in parts_of(text):
            event = {
                "text_output": part.decode(),
                "output_tokens": len(part),
                "finish_reason": reason.decode(),
            }
            line = f"data: {json.dumps(event)}\n\n".encode()
            self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")
        return None

    def log_message(self, format: str, *values: Any) -> None:
        """Say nothing."""

    def _send(self, status: int, body: bytes) -> None:
        """Write an answer; the client may have gone."""
        try:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            self.close_connection = True


class QuietServer(http.server.ThreadingHTTPServer):
    """Says nothing of clients that hang up, or that it turns away."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing."""


@dataclass(frozen=True)
class TlsFiles:
    """Files in PEM."""

    ca: Path
    certificate: Path
    key: Path
