"""Fakes of Triton's services, which answer like Dragoman on Triton.

A test compares the answers with those of the real server in `client/tests/recorded_answers.json`.
"""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
from dragoman_options.refusal import Refusal
from dragoman_options.table import INFO, SCORE, STREAM, TRANSLATE
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import deserialize_bytes_tensor, serialize_byte_tensor, triton_to_np_dtype

from dragoman_client.core.errors import (
    AccessDenied,
    DeadlineExceeded,
    InvalidRequest,
    ServerUnavailable,
)
from dragoman_client.testing.answers import (
    DATATYPES,
    Answers,
    Outputs,
    Request,
)

_STATUSES: dict[type[Exception], str] = {
    InvalidRequest: "INVALID_ARGUMENT",
    AccessDenied: "UNAUTHENTICATED",
    ServerUnavailable: "UNAVAILABLE",
    DeadlineExceeded: "CANCELLED",
}


def add_service(server: grpc.Server, service: GrpcService) -> None:
    """Add a service to a gRPC server."""
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(service, server)


class GrpcService(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]
    """Triton's gRPC service as far as the client uses it."""

    def __init__(self, answers: Answers) -> None:
        """Store the object that answers."""
        self.answers = answers

    def ModelReady(self, request: Any, _context: Any) -> Any:  # noqa: N802
        """Ready if the model exists."""
        return service_pb2.ModelReadyResponse(ready=_unknown(request.name) is None)

    def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Translate or score."""
        if unknown := _unknown(request.model_name):
            context.abort(grpc.StatusCode.NOT_FOUND, unknown)
        try:
            leading = [] if request.model_name == INFO else [1]
            outputs = self.answers.whole(_grpc_request(request, context))
            return _response(request, outputs, leading)
        except Exception as error:
            status, message = _refusal(error)
            return context.abort(grpc.StatusCode[status], message)

    def ModelStreamInfer(self, requests: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        """Stream translations."""
        for request in requests:
            answer = service_pb2.ModelStreamInferResponse
            if unknown := _unknown(request.model_name):
                yield answer(error_message=unknown)
                continue
            try:
                for part in self.answers.parts(_grpc_request(request, context)):
                    yield answer(infer_response=_response(request, part, []))
            except Exception as error:
                status, message = _refusal(error, streamed=True)
                if status == "UNAUTHENTICATED":
                    context.abort(grpc.StatusCode.UNAUTHENTICATED, message)
                yield answer(error_message=message)


class HttpServer(http.server.ThreadingHTTPServer):
    """Runs an `HttpHandler`; does not log clients that disconnect."""

    daemon_threads = True
    request_queue_size = 1024  # with the default of 5, the kernel drops simultaneous connections

    def __init__(
        self, address: tuple[str, int], answers: Answers, handler: type[HttpHandler] | None = None
    ) -> None:
        """Listen; `start` begins to answer."""
        super().__init__(address, handler or HttpHandler)
        self.answers = answers

    def start(self) -> None:
        """Start to answer, in threads."""
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        """Stop answering."""
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do nothing."""


class HttpHandler(http.server.BaseHTTPRequestHandler):
    """Triton's HTTP service as far as the client uses it."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: HttpServer

    def do_GET(self) -> None:
        """Answer whether a model is ready."""
        model = self.path.removeprefix("/v2/models/").partition("/")[0]
        unknown = _unknown(model)
        self.send(*((400, {"error": "Model version not ready"}) if unknown else (200, None)))

    def do_POST(self) -> None:
        """Translate or score."""
        values = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        model, _, what = self.path.removeprefix("/v2/models/").partition("/")
        if unknown := _unknown(model):
            return self.send(404, {"error": unknown})
        timeout, request_id = values.pop("timeout", None), values.pop("id", "")
        request = Request(
            model,
            {name: value if isinstance(value, list) else [value] for name, value in values.items()},
            None if timeout is None else timeout / 1e6,
            {name.lower(): value for name, value in self.headers.items()},
            request_id,
        )
        return self.stream(request) if what == "generate_stream" else self.answer(request)

    def answer(self, request: Request) -> None:
        """Send a whole answer."""
        try:
            self.send(200, _json(request, self.server.answers.whole(request)))
        except Exception as error:
            status, message = _refusal(error)
            self.send(401 if status == "UNAUTHENTICATED" else 400, {"error": message})

    def stream(self, request: Request) -> None:
        """Stream the answer as server-sent events."""
        begun = False
        try:
            for part in self.server.answers.parts(request):
                if not begun:
                    self._begin_events(200)
                    begun = True
                self._send_event(_json(request, part))
        except ConnectionError:  # the client has disconnected
            raise
        except Exception as error:
            status, message = _refusal(error, streamed=True)
            if not begun:
                self._begin_events(401 if status == "UNAUTHENTICATED" else 400)
            self._send_event({"error": message})
        self.wfile.write(b"0\r\n\r\n")

    def send(self, status: int, content: bytes | dict[str, Any] | None) -> None:
        """Write an answer; the client may have disconnected."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        body = b"" if content is None else body
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *values: Any) -> None:
        """Do not log."""

    def _begin_events(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _send_event(self, content: dict[str, Any]) -> None:
        line = f"data: {json.dumps(content)}\n\n".encode()
        self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")


def _unknown(model: str) -> str | None:
    """Returns Triton's message for an unknown model, or None."""
    known = (TRANSLATE, STREAM, SCORE, INFO)
    return None if model in known else f"Request for unknown model: '{model}' is not found"


def _refusal(error: Exception, streamed: bool = False) -> tuple[str, str]:
    """Returns the name of the gRPC status, and the message, of an error.

    Triton drops the status of a failed model over HTTP and in streams, so Dragoman begins messages
    with it: all messages in streams, else those that are not about an invalid request.
    """
    status = _STATUSES.get(type(error), "INTERNAL")
    message = str(Refusal.of(error) if isinstance(error, InvalidRequest) else error)
    if isinstance(error, ServerUnavailable) and error.retry_after_s is not None:
        message += f": try again in {error.retry_after_s:g} s"
    named = status != "UNAUTHENTICATED" and (streamed or status != "INVALID_ARGUMENT")
    return status, f"{status}: {message}" if named else message


def _grpc_request(request: Any, context: Any) -> Request:
    inputs: dict[str, list[Any]] = {}
    for tensor, raw in zip(request.inputs, request.raw_input_contents, strict=True):
        if tensor.datatype == "BYTES":
            inputs[tensor.name] = [text.decode() for text in deserialize_bytes_tensor(raw)]
        else:
            inputs[tensor.name] = np.frombuffer(raw, triton_to_np_dtype(tensor.datatype)).tolist()
    parameters = request.parameters
    timeout_s = parameters["timeout"].int64_param / 1e6 if "timeout" in parameters else None
    headers = dict(context.invocation_metadata())
    return Request(request.model_name, inputs, timeout_s, headers, request.id)


def _response(request: Any, outputs: Outputs, leading: list[int]) -> Any:
    response = service_pb2.ModelInferResponse(model_name=request.model_name, model_version="1")
    for name, values in outputs.items():
        datatype = DATATYPES[name]
        response.outputs.add(name=name, datatype=datatype, shape=[*leading, len(values)])
        if datatype == "BYTES":
            texts = np.array([text.encode() for text in values], np.object_)
            raw = bytes(serialize_byte_tensor(texts).item())
        else:
            raw = np.array(values, triton_to_np_dtype(datatype)).tobytes()
        response.raw_output_contents.append(raw)
    return response


def _json(request: Request, outputs: Outputs) -> dict[str, Any]:
    """Returns outputs in the format of `/generate`: a single value is not a list."""
    values = {name: v[0] if len(v) == 1 else v for name, v in outputs.items()}
    return {"model_name": request.model, "model_version": "1", **values}
