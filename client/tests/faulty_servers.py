"""Servers with configurable faults: slow, interrupted, incomplete or malformed answers."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from dragoman_client.testing import translated
from dragoman_client.testing.answers import Answers
from dragoman_client.testing.server import GrpcService
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import deserialize_bytes_tensor

_LONGEST_S = 30.0
_CANCELLATION_S = 0.5
"""Time for a cancellation to arrive."""

Fault = Callable[[socket.socket, bytes], None]
"""Sends a faulty answer over a connection; the second argument is the correct answer."""


def strings(values: list[bytes]) -> bytes:
    """The raw bytes of a tensor of strings."""
    return b"".join(struct.pack("<I", len(value)) + value for value in values)


def tensors(texts: list[str]) -> dict[str, tuple[str, bytes]]:
    """The tensors of a complete answer."""
    return {
        "text_output": ("BYTES", strings([f"<{text}>".encode() for text in texts])),
        "output_tokens": ("INT32", struct.pack(f"<{len(texts)}i", *map(len, texts))),
        "finish_reason": ("BYTES", strings([b"stop"] * len(texts))),
    }


def http_answer(texts: list[str], status: str = "200 OK") -> bytes:
    """The correct answer over HTTP, with status line and headers."""
    columns = {
        "text_output": [f"<{text}>" for text in texts],
        "output_tokens": [len(text) for text in texts],
        "finish_reason": ["stop"] * len(texts),
    }
    values = {name: v[0] if len(v) == 1 else v for name, v in columns.items()}
    body = json.dumps({"model_name": "translate", "model_version": "1", **values}).encode()
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def reset(connection: socket.socket) -> None:
    """Reset a connection, as a crashing machine does."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


@contextmanager
def http_server(behave: Callable[[list[str]], Fault | None]) -> Iterator[tuple[str, list[str]]]:
    """An HTTP server that calls `behave` for the fault of each request; None: no fault.

    Yields:
        The URL, and the texts that were answered correctly.
    """
    answered: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve(connection: socket.socket) -> None:
            try:
                with connection, connection.makefile("rb") as incoming:
                    while (texts := _read_request(incoming)) is not None:
                        if not texts:  # a request without texts
                            connection.sendall(
                                b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
                            )
                            continue
                        fault = behave(texts)
                        if fault is None:
                            answered.extend(texts)  # recorded before the client can finish
                            connection.sendall(http_answer(texts))
                        else:
                            fault(connection, http_answer(texts))
                            return
            except OSError:
                return  # the client closed the connection

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", answered


def _read_request(incoming: Any) -> list[str] | None:
    """The texts of a request, empty if it has none; None: the connection is closed."""
    line = incoming.readline()
    if not line:
        return None
    headers = {}
    while (header := incoming.readline().strip()) != b"":
        name, _, value = header.partition(b":")
        headers[name.strip().lower()] = value.strip()
    if line.startswith(b"GET "):
        return []
    body = incoming.read(int(headers[b"content-length"]))
    texts = json.loads(body).get("text_input", [])  # other models, such as `info`, have none
    return texts if isinstance(texts, list) else [texts]


class FaultyGrpc(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]
    """Triton's gRPC service, which calls `behave` for the answer to each request."""

    def __init__(self, behave: Callable[[list[str], Any, Any], Any]) -> None:
        """Call `behave` with the texts, the correct response, and the context of the call."""
        self._behave = behave
        self.answered: list[str] = []

    def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Return what `behave` returns."""
        raw = request.raw_input_contents[0]
        texts = [text.decode() for text in deserialize_bytes_tensor(raw)]
        response = service_pb2.ModelInferResponse(model_name="translate")
        for name, (datatype, content) in tensors(texts).items():
            response.outputs.add(name=name, datatype=datatype, shape=[1, len(texts)])
            response.raw_output_contents.append(content)
        answer = self._behave(texts, response, context)
        if answer is response:
            self.answered.extend(texts)
        return answer

    def ModelStreamInfer(self, requests: Any, context: Any) -> Any:  # noqa: N802
        """Send one part, and then what `behave` returns."""
        for request in requests:
            raw = request.raw_input_contents[0]
            texts = [text.decode() for text in deserialize_bytes_tensor(raw)]
            response = service_pb2.ModelInferResponse(model_name="translate_stream")
            parts = {**tensors(texts), "finish_reason": ("BYTES", strings([b""]))}
            for name, (datatype, content) in parts.items():
                response.outputs.add(name=name, datatype=datatype, shape=[1])
                response.raw_output_contents.append(content)
            yield service_pb2.ModelStreamInferResponse(infer_response=response)
            yield service_pb2.ModelStreamInferResponse(
                infer_response=self._behave(texts, response, context)
            )


class SlowGrpc(GrpcService):
    """Delays answers until `go_on` is set, and records whether the client cancelled."""

    def __init__(self) -> None:
        """Start without a request."""
        super().__init__(Answers(translated))
        self.came, self.go_on, self.over, self.gone = (threading.Event() for _ in range(4))
        self.was_cancelled: bool | None = None
        """Whether the client had cancelled when the call ended; None: it has not ended."""

    def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Answer like `GrpcService`, after `go_on` is set."""
        context.add_callback(self.gone.set)
        self.came.set()
        self.go_on.wait(_LONGEST_S)
        self.was_cancelled = self.gone.wait(_CANCELLATION_S)
        self.over.set()
        return super().ModelInfer(request, context)

    def ModelStreamInfer(self, requests: Any, context: Any) -> Any:  # noqa: N802
        """Answer like `GrpcService`, with the first message after `go_on` is set."""
        context.add_callback(self.gone.set)
        answers = super().ModelStreamInfer(requests, context)
        first = next(answers)
        self.came.set()
        self.go_on.wait(_LONGEST_S)
        yield first
        yield from answers
        self.was_cancelled = self.gone.wait(_CANCELLATION_S)
        self.over.set()


@contextmanager
def grpc_server(
    behave: Callable[[list[str], Any, Any], Any],
) -> Iterator[tuple[str, list[str]]]:
    """The same as `http_server`, over gRPC."""
    service = FaultyGrpc(behave)
    with grpc_service(service) as url:
        yield url, service.answered


@contextmanager
def grpc_service(service: Any) -> Iterator[str]:
    """The URL of a server that offers a service."""
    server = grpc.server(ThreadPoolExecutor(8))
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"grpc://127.0.0.1:{port}"
    finally:
        server.stop(grace=None).wait()


def dribble(connection: socket.socket, answer: bytes) -> None:
    """Send the answer byte by byte over one minute."""
    for byte in answer:
        connection.sendall(bytes([byte]))
        time.sleep(60 / len(answer))
