"""The two ways to the server for asyncio, behind one protocol.

As `transport`, which they share all with that does not wait; they are used in one event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import http
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from typing import Any, Protocol

from dragoman_client import grpc_wire, http_wire
from dragoman_client.address import Address
from dragoman_client.errors import AccessDenied, DeadlineExceeded, ServerError, ServerUnavailable
from dragoman_client.grpc_streams import DEADLINE_GRACE_S, OpenStreams
from dragoman_client.options import Array
from dragoman_client.request import ENDED_EARLY, MODEL, STREAM_MODEL, Part, is_last
from dragoman_client.settings import ClientSettings

_MOST_LINE_BYTES = 4 << 20
_MOST_AT_ONCE = 256
"""Requests on a gRPC connection; far more at once, and servers reset some of them."""


class AsyncTransport(Protocol):
    """A way to the server; any number of tasks of one event loop may use it."""

    async def infer(
        self, inputs: Mapping[str, Array], timeout_s: float, model: str = MODEL
    ) -> Mapping[str, Array | None]:
        """See `Transport.infer`."""
        ...

    def stream(self, inputs: Mapping[str, Array], timeout_s: float) -> AsyncGenerator[Part, None]:
        """See `Transport.stream`."""
        ...

    async def is_ready(self) -> bool:
        """See `Transport.is_ready`."""
        ...

    async def config(self) -> Mapping[str, Any]:
        """See `Transport.config`."""
        ...

    async def close(self) -> None:
        """Let go of the connections."""


class AsyncGrpcTransport:
    """Over gRPC: one channel."""

    def __init__(self, address: Address, settings: ClientSettings) -> None:
        """Prepare a channel, which the first request opens; see `GrpcTransport`."""
        if address.tls:
            settings.access.tls_context()  # else a wrong file would be reported by a request
        self._address, self._settings = address, settings
        self._more = {
            "metadata": tuple(settings.access.all_headers.items()),
            "compression": grpc_wire.compression_of(settings.compression),
        }
        self._channel: Any = None
        self._slots = asyncio.Semaphore(_MOST_AT_ONCE)
        self._streams = OpenStreams()

    async def infer(
        self, inputs: Mapping[str, Array], timeout_s: float, model: str = MODEL
    ) -> Mapping[str, Array | None]:
        """See `AsyncTransport`."""
        left_s = await self._take_slot(timeout_s)
        try:
            request = grpc_wire.infer_request(model, inputs, left_s)
            answer = await self._call(self._service.ModelInfer, request, left_s)
        finally:
            self._slots.release()
        return grpc_wire.read_response(answer)

    async def stream(
        self, inputs: Mapping[str, Array], timeout_s: float
    ) -> AsyncGenerator[Part, None]:
        """See `AsyncTransport`."""
        import grpc

        left_s = await self._take_slot(timeout_s)
        try:
            request = grpc_wire.stream_request(STREAM_MODEL, inputs, left_s)
            call = self._service.ModelStreamInfer(
                iter([request]), timeout=left_s + DEADLINE_GRACE_S, **self._more
            )
        except BaseException:
            self._slots.release()
            raise
        reader = self._streams.read(call, left_s)
        reader.reading.add_done_callback(lambda _: self._slots.release())
        try:
            while (message := await reader.next()) is not None:
                part = grpc_wire.read_stream_response(message)
                yield part
                if is_last(part):
                    return
        except grpc.RpcError as error:
            raise grpc_wire.stream_error(self._address, error) from error
        raise ServerError(ENDED_EARLY)

    async def is_ready(self) -> bool:
        """See `AsyncTransport`."""
        from tritonclient.grpc.service_pb2 import ModelReadyRequest

        request = ModelReadyRequest(name=MODEL)
        answer = await self._call(self._service.ModelReady, request, self._settings.timeout_s)
        return bool(answer.ready)

    async def config(self) -> Mapping[str, Any]:
        """See `AsyncTransport`."""
        from tritonclient.grpc.service_pb2 import ModelConfigRequest

        request = ModelConfigRequest(name=MODEL)
        answer = await self._call(self._service.ModelConfig, request, self._settings.timeout_s)
        return grpc_wire.read_config(answer)

    async def close(self) -> None:
        """Close the channel, once streams that were left early have ended; see `StreamReader`."""
        await self._streams.wait()
        if self._channel is not None:
            await self._channel.close()

    async def _take_slot(self, timeout_s: float) -> float:
        """Wait until so few requests are under way that another may be; the time that is left."""
        deadline_s = time.monotonic() + timeout_s
        try:
            await asyncio.wait_for(self._slots.acquire(), timeout_s)
        except TimeoutError:
            raise DeadlineExceeded(f"too many requests are under way for {timeout_s:g} s") from None
        return max(deadline_s - time.monotonic(), 1e-3)

    async def _call(self, method: Callable[..., Any], request: Any, timeout_s: float) -> Any:
        """Call a method and translate its exception."""
        import grpc

        try:
            return await method(request, timeout=timeout_s, **self._more)
        except grpc.RpcError as error:
            raise grpc_wire.call_error(error) from error

    @property
    def _service(self) -> Any:
        """Triton's, on a channel that is made in the event loop that uses it."""
        if self._channel is None:
            import grpc.aio
            from tritonclient.grpc.service_pb2_grpc import GRPCInferenceServiceStub

            access = self._settings.access
            self._channel = grpc_wire.open_channel(grpc.aio, self._address, access)
            self._opened_service = GRPCInferenceServiceStub(self._channel)
        return self._opened_service


class AsyncHttpTransport:
    """Over HTTP: aiohttp's pool of connections."""

    def __init__(self, address: Address, settings: ClientSettings) -> None:
        """Prepare a pool, which the first request opens; see `HttpTransport`."""
        self._address, self._timeout_s = address, settings.timeout_s
        self._headers = {**settings.access.all_headers, **http_wire.JSON_HEADERS}
        self._tls = settings.access.tls_context() if address.tls else None
        scheme = "https" if address.tls else "http"
        self._models = f"{scheme}://{address.authority}{address.path}/v2/models"
        self._opened: Any = None

    async def infer(
        self, inputs: Mapping[str, Array], timeout_s: float, model: str = MODEL
    ) -> Mapping[str, Array | None]:
        """See `AsyncTransport`."""
        body = http_wire.generate_body(inputs, timeout_s)
        with self._failures(timeout_s):
            url = f"{self._models}/{model}/generate"
            request = self._session.post(url, data=body, timeout=_timeout(timeout_s))
            async with request as response:
                answer = await response.read()
        retry_after = response.headers.get(http_wire.RETRY_AFTER)
        return http_wire.read_answer(self._address.authority, response.status, retry_after, answer)

    async def stream(
        self, inputs: Mapping[str, Array], timeout_s: float
    ) -> AsyncGenerator[Part, None]:
        """See `AsyncTransport`."""
        with self._failures(timeout_s):
            body = http_wire.generate_body(inputs, timeout_s)
            url = f"{self._models}/{STREAM_MODEL}/generate_stream"
            request = self._session.post(url, data=body, timeout=_timeout(timeout_s))
            async with request as response:
                if response.status != http.HTTPStatus.OK:
                    retry_after = response.headers.get(http_wire.RETRY_AFTER)
                    http_wire.check_status(response.status, retry_after, await response.read())
                async for line in response.content:
                    part = http_wire.event_part(line)
                    if part is None:
                        continue
                    yield part
                    if is_last(part):
                        return
        raise ServerError(ENDED_EARLY)

    async def is_ready(self) -> bool:
        """See `AsyncTransport`."""
        with self._failures(self._timeout_s):
            url = f"{self._models}/{MODEL}/ready"
            async with self._session.get(url, timeout=_timeout(self._timeout_s)) as response:
                answer = await response.read()
        return http_wire.read_ready(response.status, answer)

    async def config(self) -> Mapping[str, Any]:
        """See `AsyncTransport`."""
        with self._failures(self._timeout_s):
            url = f"{self._models}/{MODEL}/config"
            async with self._session.get(url, timeout=_timeout(self._timeout_s)) as response:
                answer = await response.read()
        return http_wire.read_config(self._address.authority, response.status, answer)

    async def close(self) -> None:
        """See `AsyncTransport`."""
        if self._opened is not None:
            await self._opened.close()

    @property
    def _session(self) -> Any:
        """Made in the event loop that uses it."""
        if self._opened is None:
            import aiohttp

            connector = aiohttp.TCPConnector(ssl=self._tls or True)
            self._opened = aiohttp.ClientSession(
                connector=connector,
                headers=self._headers,
                # By default it asks for compressed answers, which cost the server time.
                skip_auto_headers=("Accept-Encoding",),
                # The longest line of a stream: an event holds the text so far, in JSON.
                read_bufsize=_MOST_LINE_BYTES,
            )
        return self._opened

    @contextlib.contextmanager
    def _failures(self, timeout_s: float) -> Iterator[None]:
        """What a broken connection, or one to something that speaks no HTTP, means."""
        import aiohttp

        authority = self._address.authority
        try:
            yield
        except TimeoutError as error:
            raise DeadlineExceeded(f"{authority}: no answer within {timeout_s:g} s") from error
        except aiohttp.ClientSSLError as error:
            raise AccessDenied(f"{authority}: TLS: {error}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise ServerUnavailable(f"{authority}: {error}") from error


def _timeout(seconds: float) -> Any:
    import aiohttp

    return aiohttp.ClientTimeout(total=seconds)


def open_async_transport(url: str, settings: ClientSettings) -> AsyncTransport:
    """See `open_transport`."""
    address = settings.address(url)
    kind = AsyncGrpcTransport if address.is_grpc else AsyncHttpTransport
    return kind(address, settings)
