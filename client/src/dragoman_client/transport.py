"""The two ways to the server, behind one protocol.

Knows sockets and how their failures look; must not know what the tensors mean beyond their names.
"""

from __future__ import annotations

import collections
import contextlib
import http.client
import ssl
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, Protocol

from dragoman_client import grpc_wire, http_wire
from dragoman_client.address import Address
from dragoman_client.errors import AccessDenied, DeadlineExceeded, ServerError, ServerUnavailable
from dragoman_client.grpc_streams import DEADLINE_GRACE_S, StreamReader
from dragoman_client.options import Array
from dragoman_client.request import ENDED_EARLY, MODEL, STREAM_MODEL, Part, is_last
from dragoman_client.settings import ClientSettings

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

        To stop reading before the end, close the iterator. That does not block, though a transport
        may have to go on reading in the background.

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
    """Over gRPC: one channel, which all threads share, and one of its own for each stream."""

    def __init__(self, address: Address, settings: ClientSettings) -> None:
        """Prepare a channel, without a connection yet.

        Args:
            address: of the server.
            settings: the client's.

        Raises:
            ValueError: a file of `access` does not hold what it should.
        """
        self._address, self._settings = address, settings
        self._channel, self._service = self._connect()
        self._more = {
            "metadata": tuple(settings.access.all_headers.items()),
            "compression": grpc_wire.compression_of(settings.compression),
        }

    def infer(
        self, inputs: Mapping[str, Array], timeout_s: float, model: str = MODEL
    ) -> Mapping[str, Array | None]:
        """See `Transport`."""
        request = grpc_wire.infer_request(model, inputs, timeout_s)
        return grpc_wire.read_response(self._call(self._service.ModelInfer, request, timeout_s))

    def stream(self, inputs: Mapping[str, Array], timeout_s: float) -> Generator[Part, None, None]:
        """See `Transport`."""
        import grpc

        request = grpc_wire.stream_request(STREAM_MODEL, inputs, timeout_s)
        # A channel of its own, which may outlive this transport: see `StreamReader`. Channels to
        # one address share connections.
        channel, service = self._connect()
        try:
            call = service.ModelStreamInfer(
                iter([request]), timeout=timeout_s + DEADLINE_GRACE_S, **self._more
            )
        except BaseException:
            channel.close()
            raise
        reader = StreamReader(call, timeout_s, channel.close)
        try:
            while (message := reader.next()) is not None:
                part = grpc_wire.read_stream_response(message)
                yield part
                if is_last(part):
                    return
        except grpc.RpcError as error:
            raise grpc_wire.stream_error(self._address, error) from error
        raise ServerError(ENDED_EARLY)

    def is_ready(self) -> bool:
        """Whether the model can answer."""
        from tritonclient.grpc.service_pb2 import ModelReadyRequest

        request = ModelReadyRequest(name=MODEL)
        return bool(self._call(self._service.ModelReady, request, self._settings.timeout_s).ready)

    def config(self) -> Mapping[str, Any]:
        """See `Transport`."""
        from tritonclient.grpc.service_pb2 import ModelConfigRequest

        request = ModelConfigRequest(name=MODEL)
        answer = self._call(self._service.ModelConfig, request, self._settings.timeout_s)
        return grpc_wire.read_config(answer)

    def close(self) -> None:
        """Close the channel; requests under way end at once, but for streams."""
        self._channel.close()

    def _connect(self) -> tuple[Any, Any]:
        """A channel, and Triton's service on it."""
        # Imported here: gRPC is heavy, and a client over HTTP does without it.
        import grpc
        from tritonclient.grpc.service_pb2_grpc import GRPCInferenceServiceStub

        channel = grpc_wire.open_channel(grpc, self._address, self._settings.access)
        return channel, GRPCInferenceServiceStub(channel)

    def _call(self, method: Callable[..., Any], request: Any, timeout_s: float) -> Any:
        """Call a method and translate its exception."""
        import grpc

        try:
            return method(request, timeout=timeout_s, **self._more)
        except grpc.RpcError as error:
            raise grpc_wire.call_error(error) from error


class HttpTransport:
    """Over HTTP: a pool of connections, each used by one thread at a time."""

    def __init__(self, address: Address, settings: ClientSettings) -> None:
        """Prepare an empty pool.

        Args:
            address: of the server.
            settings: the client's.

        Raises:
            ValueError: a file of `access` does not hold what it should.
        """
        self._authority = address.authority
        self._models_path = f"{address.path}/v2/models"
        self._timeout_s = settings.timeout_s
        self._headers = {**settings.access.all_headers, **http_wire.JSON_HEADERS}
        self._tls = settings.access.tls_context() if address.tls else None
        self._idle: collections.deque[http.client.HTTPConnection] = collections.deque()
        self._closed = False

    def infer(
        self, inputs: Mapping[str, Array], timeout_s: float, model: str = MODEL
    ) -> Mapping[str, Array | None]:
        """See `Transport`."""
        body = http_wire.generate_body(inputs, timeout_s)
        response, answer = self._exchange("POST", f"/{model}/generate", timeout_s, body)
        retry_after = response.headers[http_wire.RETRY_AFTER]
        return http_wire.read_answer(self._authority, response.status, retry_after, answer)

    def stream(self, inputs: Mapping[str, Array], timeout_s: float) -> Generator[Part, None, None]:
        """See `Transport`."""
        connection = self._connect(timeout_s)
        try:
            with self._failures(timeout_s):
                path = f"{self._models_path}/{STREAM_MODEL}/generate_stream"
                body = http_wire.generate_body(inputs, timeout_s)
                connection.request("POST", path, body, self._headers)
                response = connection.getresponse()
                if response.status != http.HTTPStatus.OK:
                    retry_after = response.headers[http_wire.RETRY_AFTER]
                    http_wire.check_status(response.status, retry_after, response.read())
                yield from _event_parts(response)
        finally:
            connection.close()

    def is_ready(self) -> bool:
        """Whether the model can answer."""
        response, answer = self._exchange("GET", f"/{MODEL}/ready", self._timeout_s)
        return http_wire.read_ready(response.status, answer)

    def config(self) -> Mapping[str, Any]:
        """See `Transport`."""
        response, answer = self._exchange("GET", f"/{MODEL}/config", self._timeout_s)
        return http_wire.read_config(self._authority, response.status, answer)

    def close(self) -> None:
        """Close the connections that are not in use; the others close as their answers come."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _exchange(
        self, method: str, path: str, timeout_s: float, body: bytes | None = None
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """An answer, and its body."""
        while True:
            connection, reused = self._connection(timeout_s)
            try:
                connection.request(method, f"{self._models_path}{path}", body, self._headers)
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
        ValueError: see `ClientSettings.address`.
    """
    address = settings.address(url)
    kind = GrpcTransport if address.is_grpc else HttpTransport
    return kind(address, settings)


def _event_parts(response: http.client.HTTPResponse) -> Generator[Part, None, None]:
    """The parts of an answer, as server-sent events.

    Raises:
        TranslationError: one of them is an error, or it ends too early.
    """
    for line in response:
        part = http_wire.event_part(line)
        if part is None:
            continue
        yield part
        if is_last(part):
            return
    raise ServerError(ENDED_EARLY)


def _reason(error: ssl.SSLError) -> str:
    """What is wrong with whose certificate, in words."""
    return str(getattr(error, "verify_message", None) or error.reason or error)
