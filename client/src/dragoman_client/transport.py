"""The two ways to the server, behind one protocol.

Knows sockets, tritonclient and how its failures look; must not know what the tensors mean beyond
their names.
"""

from __future__ import annotations

import collections
import http.client
import json
import struct
from collections.abc import Callable, Mapping
from typing import Any, Protocol
from urllib.parse import SplitResult, urlsplit

from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from dragoman_client.errors import (
    DeadlineExceeded,
    ServerError,
    ServerUnavailable,
    TranslationError,
    from_status,
)
from dragoman_client.request import MODEL, OUTPUTS, Array

_MAX_INT32 = 2**31 - 1

_CHANNEL_ARGUMENTS = [
    # These replace tritonclient's own, so its unlimited message sizes are said again.
    ("grpc.max_send_message_length", _MAX_INT32),
    ("grpc.max_receive_message_length", _MAX_INT32),
    # By default gRPC waits up to two minutes before it looks again for a server that was away.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]


class Transport(Protocol):
    """A way to the server; every method may be called from several threads at once."""

    def infer(self, inputs: Mapping[str, Array]) -> Mapping[str, Array | None]:
        """Send tensors and return the model's answer; None for an output that is not in it.

        Raises:
            TranslationError: it went wrong.
        """

    def is_ready(self) -> bool:
        """Whether the model can answer.

        Raises:
            TranslationError: nobody could be asked.
        """

    def close(self) -> None:
        """Let go of the connections."""


class GrpcTransport:
    """Over gRPC: one channel, which all threads share."""

    def __init__(self, address: str, timeout_s: float) -> None:
        """Prepare a channel, without a connection yet.

        Args:
            address: host and port.
            timeout_s: longest time for a request, from sending to the answer.
        """
        # Imported here: gRPC and gevent are heavy, and a process needs one of them at most.
        from tritonclient.grpc import InferenceServerClient, InferInput

        self._tensor = InferInput
        self._client = InferenceServerClient(address, channel_args=_CHANNEL_ARGUMENTS)
        self._timeout_s = timeout_s

    def infer(self, inputs: Mapping[str, Array]) -> Mapping[str, Array | None]:
        """Send tensors and return the model's answer."""
        result = self._call(
            self._client.infer,
            MODEL,
            _tensors(self._tensor, inputs),
            client_timeout=self._timeout_s,
        )
        return _arrays(result)

    def is_ready(self) -> bool:
        """Whether the model can answer."""
        ready = self._call(self._client.is_model_ready, MODEL, client_timeout=self._timeout_s)
        return bool(ready)

    def close(self) -> None:
        """Close the channel; requests under way end at once."""
        self._client.close()

    def _call(self, method: Callable[..., Any], *arguments: Any, client_timeout: float) -> Any:
        """Call a method of tritonclient and translate its exception."""
        try:
            return method(*arguments, client_timeout=client_timeout)
        except InferenceServerException as error:
            raise from_status(error.status(), error.message()) from error


class HttpTransport:
    """Over HTTP: a pool of connections, each used by one thread at a time.

    tritonclient writes and reads the bodies; the wire is the standard library's. tritonclient's
    own is built on gevent: it may not leave the thread that made it, and every thread that ever
    used it keeps an event loop of four file descriptors for as long as the process lives.
    """

    def __init__(self, address: str, timeout_s: float) -> None:
        """Prepare an empty pool.

        Args:
            address: host, port and the path of a proxy, if any.
            timeout_s: longest time to connect, and to wait for the server to send something.
        """
        from tritonclient.http import InferenceServerClient, InferInput

        self._tensor = InferInput
        self._write_body = InferenceServerClient.generate_request_body
        self._read_body = InferenceServerClient.parse_response_body
        self._authority, _, path = address.partition("/")
        self._model_path = f"{'/' + path.rstrip('/') if path else ''}/v2/models/{MODEL}"
        self._timeout_s = timeout_s
        self._idle: collections.deque[http.client.HTTPConnection] = collections.deque()
        self._closed = False

    def infer(self, inputs: Mapping[str, Array]) -> Mapping[str, Array | None]:
        """Send tensors and return the model's answer."""
        body, header_bytes = self._write_body(_tensors(self._tensor, inputs))
        headers = {
            "Content-Type": "application/octet-stream",
            "Inference-Header-Content-Length": str(header_bytes),
        }
        status, header_bytes_back, answer = self._exchange("POST", "/infer", body, headers)
        if status != http.HTTPStatus.OK:
            raise from_status(str(status), _message(answer))
        try:
            length = int(header_bytes_back) if header_bytes_back else None
            return _arrays(self._read_body(answer, header_length=length))
        except (InferenceServerException, KeyError, TypeError, ValueError, struct.error) as error:
            raise ServerError(f"{self._authority}: not an answer of Triton: {error}") from error

    def is_ready(self) -> bool:
        """Whether the model can answer."""
        return self._exchange("GET", "/ready")[0] == http.HTTPStatus.OK

    def close(self) -> None:
        """Close the connections that are not in use; the others close as their answers come."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _exchange(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> tuple[int, str | None, bytes]:
        """Status, length of the JSON part and body of an answer."""
        while True:
            connection, reused = self._connection()
            try:
                connection.request(method, self._model_path + path, body, dict(headers or {}))
                response = connection.getresponse()
                answer = response.read()
            except TimeoutError as error:
                connection.close()
                message = f"{self._authority}: no answer within {self._timeout_s:g} s"
                raise DeadlineExceeded(message) from error
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                if reused and isinstance(error, ConnectionError):
                    # The server had closed a connection that lay idle. Asking again is harmless:
                    # a translation changes nothing. It ends, as a new connection is not reused.
                    continue
                raise self._unavailable(error) from error
            except BaseException:
                # An interrupted connection still has an answer to come, which nobody may read.
                connection.close()
                raise
            self._idle.append(connection)
            if self._closed:
                self.close()
            return response.status, response.headers["Inference-Header-Content-Length"], answer

    def _connection(self) -> tuple[http.client.HTTPConnection, bool]:
        """A connection for this thread alone, and whether it was used before."""
        try:
            return self._idle.pop(), True
        except IndexError:
            return http.client.HTTPConnection(self._authority, timeout=self._timeout_s), False

    def _unavailable(self, error: Exception) -> TranslationError:
        """What a broken connection, or one to something that speaks no HTTP, means."""
        if isinstance(error, OSError):
            return ServerUnavailable(f"{self._authority}: {error.strerror or error}")
        return ServerUnavailable(f"{self._authority} does not speak HTTP: {error!r}")


_TRANSPORTS: dict[str, tuple[type[GrpcTransport] | type[HttpTransport], int]] = {
    "grpc": (GrpcTransport, 8001),
    "http": (HttpTransport, 8000),
}
"""Transport and Triton's usual port of each scheme."""


def open_transport(url: str, timeout_s: float) -> Transport:
    """The transport that a URL names; it connects with the first request.

    Args:
        url: `grpc://host:port` or `http://host:port/path`; Triton's usual port where none is given.
        timeout_s: longest time for a request.

    Raises:
        ValueError: a URL that names no server.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"URL {url!r}: {error}") from error
    if parts.scheme not in _TRANSPORTS or not parts.hostname:
        raise ValueError(f"URL {url!r}: write grpc://localhost:8001 or http://localhost:8000")
    kind, usual_port = _TRANSPORTS[parts.scheme]
    if _has_more_than_an_address(parts):
        raise ValueError(f"URL {url!r}: only a scheme, a host, a port and, for http, a path")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    path = parts.path if parts.path != "/" else ""
    return kind(f"{host}:{port or usual_port}{path}", timeout_s)


def _has_more_than_an_address(parts: SplitResult) -> bool:
    """Whether a URL says something that no transport would heed."""
    path_on_grpc = parts.scheme == "grpc" and parts.path not in ("", "/")
    return bool(path_on_grpc or parts.query or parts.fragment or "@" in parts.netloc)


def _tensors(kind: Any, inputs: Mapping[str, Array]) -> list[Any]:
    """Arrays as tritonclient's input tensors; gRPC and HTTP have each their own kind."""
    return [
        kind(name, list(values.shape), np_to_triton_dtype(values.dtype)).set_data_from_numpy(values)
        for name, values in inputs.items()
    ]


def _arrays(result: Any) -> dict[str, Array | None]:
    """The outputs of an answer; None for one that is not in it."""
    return {name: result.as_numpy(name) for name in OUTPUTS}


def _message(answer: bytes) -> str:
    """What the server said in the body of a refusal: Triton's JSON, or the text of a proxy."""
    try:
        return str(json.loads(answer)["error"])
    except (KeyError, TypeError, ValueError):
        return answer[:200].decode("utf-8", "replace").strip()
