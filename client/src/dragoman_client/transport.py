"""The two ways to the server, behind one protocol.

Knows sockets, tritonclient and how its failures look; must not know what the tensors mean beyond
their names.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import http.client
import ssl
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, Protocol

from tritonclient.utils import InferenceServerException

from dragoman_client.address import Address, read_url
from dragoman_client.errors import (
    AccessDenied,
    DeadlineExceeded,
    ServerUnavailable,
    from_status,
)
from dragoman_client.options import Array
from dragoman_client.request import MODEL, STREAM_MODEL
from dragoman_client.settings import ClientSettings
from dragoman_client.streams import Part, as_json, as_stream_inputs, grpc_parts, http_parts
from dragoman_client.wire import (
    HEADER_LENGTH,
    arrays,
    grpc_arguments,
    grpc_config,
    http_answer,
    http_config,
    http_ready,
    http_request,
    microseconds,
    refusal_message,
    tensors,
    unpacked,
)

_LOST = (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
"""How a connection ends that the other side closes, with TLS and without."""


class Transport(Protocol):
    """A way to the server; every method may be called from several threads at once."""

    def infer(
        self, inputs: Mapping[str, Array], timeout_s: float, model: str = MODEL
    ) -> Mapping[str, Array | None]:
        """Send tensors and return the model's answer; None for an output that is not in it.

        Args:
            inputs: tensors by name.
            timeout_s: longest time for it, which the server is told too.
            model: whom to ask.

        Raises:
            TranslationError: it went wrong.
        """

    def stream(self, inputs: Mapping[str, Array], timeout_s: float) -> Generator[Part, None, None]:
        """Send the tensors of one text and return the model's answer as it grows.

        Whoever stops reading before the end gives it up: close the iterator then.

        Args:
            inputs: tensors by name.
            timeout_s: longest time for all of it, which the server is told too.

        Raises:
            TranslationError: while iterating: it went wrong.
        """

    def is_ready(self) -> bool:
        """Whether the model can answer.

        Raises:
            TranslationError: nobody could be asked.
        """

    def config(self) -> Mapping[str, Any]:
        """Triton's configuration of the model, as JSON has it.

        Raises:
            TranslationError: nobody could be asked, or what was answered is no configuration.
        """

    def close(self) -> None:
        """Let go of the connections."""


class GrpcTransport:
    """Over gRPC: one channel, which all threads share."""

    def __init__(self, address: Address, settings: ClientSettings) -> None:
        """Prepare a channel, without a connection yet.

        Args:
            address: of the server.
            settings: the client's.

        Raises:
            ValueError: a file of `access` does not hold what it should.
        """
        # Imported here: gRPC and gevent are heavy, and a process needs one of them at most.
        from tritonclient.grpc import InferenceServerClient, InferInput

        self._tensor = InferInput
        # A client of tritonclient's holds one stream; channels to one address share connections.
        self._connect = functools.partial(
            InferenceServerClient, **grpc_arguments(address, settings.access)
        )
        self._client = self._connect()
        self._headers = settings.access.all_headers
        self._timeout_s = settings.timeout_s
        self._compression = settings.compression

    def infer(
        self, inputs: Mapping[str, Array], timeout_s: float, model: str = MODEL
    ) -> Mapping[str, Array | None]:
        """See `Transport`."""
        result = self._call(
            self._client.infer,
            model,
            tensors(self._tensor, inputs),
            timeout=microseconds(timeout_s),
            client_timeout=timeout_s,
            compression_algorithm=self._compression,
        )
        return arrays(result)

    def stream(self, inputs: Mapping[str, Array], timeout_s: float) -> Generator[Part, None, None]:
        """See `Transport`."""
        sent = tensors(self._tensor, as_stream_inputs(inputs))
        return grpc_parts(self._connect(), sent, timeout_s, self._headers, self._compression)

    def is_ready(self) -> bool:
        """Whether the model can answer."""
        ready = self._call(self._client.is_model_ready, MODEL, client_timeout=self._timeout_s)
        return bool(ready)

    def config(self) -> Mapping[str, Any]:
        """See `Transport`."""
        return grpc_config(
            self._call(
                self._client.get_model_config,
                MODEL,
                as_json=True,
                client_timeout=self._timeout_s,
            )
        )

    def close(self) -> None:
        """Close the channel; requests under way end at once."""
        self._client.close()

    def _call(self, method: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
        """Call a method of tritonclient and translate its exception."""
        try:
            return method(*arguments, headers=self._headers, **more)
        except InferenceServerException as error:
            raise from_status(error.status(), error.message()) from error


class HttpTransport:
    """Over HTTP: a pool of connections, each used by one thread at a time.

    tritonclient writes and reads the bodies; the wire is the standard library's. tritonclient's
    own is built on gevent: it may not leave the thread that made it, and every thread that ever
    used it keeps an event loop of four file descriptors for as long as the process lives.
    """

    def __init__(self, address: Address, settings: ClientSettings) -> None:
        """Prepare an empty pool.

        Args:
            address: of the server.
            settings: the client's; streams, whose parts are small, are not compressed.

        Raises:
            ValueError: a file of `access` does not hold what it should.
        """
        self._authority = address.authority
        self._models_path = f"{address.path}/v2/models"
        self._stream_path = f"{self._models_path}/{STREAM_MODEL}/generate_stream"
        self._timeout_s = settings.timeout_s
        self._headers = settings.access.all_headers
        self._tls = settings.access.tls_context() if address.tls else None
        self._compression = settings.compression
        self._idle: collections.deque[http.client.HTTPConnection] = collections.deque()
        self._closed = False

    def infer(
        self, inputs: Mapping[str, Array], timeout_s: float, model: str = MODEL
    ) -> Mapping[str, Array | None]:
        """See `Transport`."""
        body, headers = http_request(inputs, timeout_s, self._compression)
        response, answer = self._exchange("POST", "/infer", timeout_s, body, headers, model)
        length = response.headers[HEADER_LENGTH]
        answer = unpacked(answer, response.headers["Content-Encoding"])
        return http_answer(self._authority, response.status, length, answer)

    def stream(self, inputs: Mapping[str, Array], timeout_s: float) -> Generator[Part, None, None]:
        """See `Transport`."""
        connection = self._connect(timeout_s)
        try:
            with self._failures(timeout_s):
                headers = {**self._headers, "Content-Type": "application/json"}
                body = as_json(inputs, timeout_s)
                connection.request("POST", self._stream_path, body, headers)
                response = connection.getresponse()
                if response.status != http.HTTPStatus.OK:
                    raise from_status(str(response.status), refusal_message(response.read()))
                yield from http_parts(response)
        finally:
            connection.close()

    def is_ready(self) -> bool:
        """Whether the model can answer."""
        response, answer = self._exchange("GET", "/ready", self._timeout_s)
        return http_ready(response.status, answer)

    def config(self) -> Mapping[str, Any]:
        """See `Transport`."""
        response, answer = self._exchange("GET", "/config", self._timeout_s)
        return http_config(self._authority, response.status, answer)

    def close(self) -> None:
        """Close the connections that are not in use; the others close as their answers come."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _exchange(
        self,
        method: str,
        path: str,
        timeout_s: float,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        model: str = MODEL,
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """An answer, and its body."""
        while True:
            connection, reused = self._connection(timeout_s)
            try:
                all_headers = {**self._headers, **(headers or {})}
                connection.request(method, f"{self._models_path}/{model}{path}", body, all_headers)
                response = connection.getresponse()
                answer = response.read()
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                if reused and isinstance(error, _LOST):
                    # The server had closed a connection that lay idle. Asking again is harmless:
                    # a translation changes nothing. It ends, as a new connection is not reused.
                    continue
                with self._failures(timeout_s):
                    raise
            except BaseException:
                # An interrupted connection still has an answer to come, which nobody may read.
                connection.close()
                raise
            self._idle.append(connection)
            if self._closed:
                self.close()
            return response, answer

    @contextlib.contextmanager
    def _failures(self, timeout_s: float) -> Iterator[None]:
        """What a broken connection, or one to something that speaks no HTTP, means."""
        try:
            yield
        except TimeoutError as error:
            message = f"{self._authority}: no answer within {timeout_s:g} s"
            raise DeadlineExceeded(message) from error
        except _LOST as error:
            raise ServerUnavailable(f"{self._authority}: {error.strerror or error}") from error
        except ssl.SSLError as error:
            raise AccessDenied(f"{self._authority}: TLS: {_reason(error)}") from error
        except OSError as error:
            raise ServerUnavailable(f"{self._authority}: {error.strerror or error}") from error
        except http.client.HTTPException as error:
            raise ServerUnavailable(f"{self._authority} does not speak HTTP: {error!r}") from error

    def _connection(self, timeout_s: float) -> tuple[http.client.HTTPConnection, bool]:
        """A connection for this thread alone, and whether it was used before."""
        try:
            connection = self._idle.pop()
        except IndexError:
            return self._connect(timeout_s), False
        connection.timeout = timeout_s
        if connection.sock is not None:
            connection.sock.settimeout(timeout_s)
        return connection, True

    def _connect(self, timeout_s: float) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self._authority, timeout=timeout_s)
        return http.client.HTTPSConnection(self._authority, timeout=timeout_s, context=self._tls)


def open_transport(url: str, settings: ClientSettings) -> Transport:
    """The transport that a URL names; it connects with the first request.

    Args:
        url: see `read_url`.
        settings: the client's.

    Raises:
        ValueError: a URL that names no server, or certificates that it has no use for.
    """
    address = read_url(url, settings.access)
    kind = GrpcTransport if address.is_grpc else HttpTransport
    return kind(address, settings)


def _reason(error: ssl.SSLError) -> str:
    """What is wrong with whose certificate, in words."""
    return str(getattr(error, "verify_message", None) or error.reason or error)
