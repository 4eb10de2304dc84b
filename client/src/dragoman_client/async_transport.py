"""The two ways to the server for asyncio, behind one protocol.

As `transport`, which they share all with that does not wait; they are used in one event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import http
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from typing import Any, Protocol

from tritonclient.utils import InferenceServerException

from dragoman_client.address import Address, read_url
from dragoman_client.errors import (
    AccessDenied,
    DeadlineExceeded,
    ServerError,
    ServerUnavailable,
    from_status,
)
from dragoman_client.options import Array
from dragoman_client.request import MODEL, STREAM_MODEL
from dragoman_client.settings import ClientSettings
from dragoman_client.streams import (
    ENDED_EARLY,
    Part,
    as_json,
    as_stream_inputs,
    event_part,
    is_last,
    stream_part,
)
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
)

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
        self._arguments, self._timeout_s = (
            grpc_arguments(address, settings.access),
            settings.timeout_s,
        )
        self._compression = settings.compression
        self._headers = settings.access.all_headers
        self._opened: Any = None
        self._slots = asyncio.Semaphore(_MOST_AT_ONCE)

    async def infer(
        self, inputs: Mapping[str, Array], timeout_s: float, model: str = MODEL
    ) -> Mapping[str, Array | None]:
        """See `AsyncTransport`."""
        from tritonclient.grpc import InferInput

        sent = tensors(InferInput, inputs)
        async with self._room(timeout_s) as left_s:
            with _grpc_failures():
                result = await self._client.infer(
                    model,
                    sent,
                    timeout=microseconds(left_s),
                    client_timeout=left_s,
                    headers=self._headers,
                    compression_algorithm=self._compression,
                )
        return arrays(result)

    @contextlib.asynccontextmanager
    async def _room(self, timeout_s: float) -> AsyncIterator[float]:
        """Wait until so few requests are under way that another may be; the time that is left."""
        deadline_s = time.monotonic() + timeout_s
        try:
            await asyncio.wait_for(self._slots.acquire(), timeout_s)
        except TimeoutError:
            raise DeadlineExceeded(f"too many requests are under way for {timeout_s:g} s") from None
        try:
            yield max(deadline_s - time.monotonic(), 1e-3)
        finally:
            self._slots.release()

    async def stream(
        self, inputs: Mapping[str, Array], timeout_s: float
    ) -> AsyncGenerator[Part, None]:
        """See `AsyncTransport`."""
        from tritonclient.grpc import InferInput

        sent = tensors(InferInput, as_stream_inputs(inputs))
        async with self._room(timeout_s) as left_s:

            async def requests() -> AsyncIterator[dict[str, Any]]:
                timeout = microseconds(left_s)
                yield {"model_name": STREAM_MODEL, "inputs": sent, "timeout": timeout}

            answers = self._client.stream_infer(
                requests(),
                stream_timeout=left_s,
                headers=self._headers,
                compression_algorithm=self._compression,
            )
            try:
                with _grpc_failures():
                    async for result, error in answers:
                        if error is not None:
                            raise from_status(error.status(), error.message()) from error
                        part = stream_part(result)
                        yield part
                        if is_last(part):
                            return
                raise ServerError(ENDED_EARLY)
            finally:
                answers.cancel()

    async def is_ready(self) -> bool:
        """See `AsyncTransport`."""
        with _grpc_failures():
            return bool(
                await self._client.is_model_ready(
                    MODEL, client_timeout=self._timeout_s, headers=self._headers
                )
            )

    async def config(self) -> Mapping[str, Any]:
        """See `AsyncTransport`."""
        with _grpc_failures():
            answer = await self._client.get_model_config(
                MODEL, as_json=True, client_timeout=self._timeout_s, headers=self._headers
            )
        return grpc_config(answer)

    async def close(self) -> None:
        """See `AsyncTransport`."""
        if self._opened is not None:
            await self._opened.close()

    @property
    def _client(self) -> Any:
        """Made in the event loop that uses it."""
        if self._opened is None:
            from tritonclient.grpc.aio import InferenceServerClient

            self._opened = InferenceServerClient(**self._arguments)
        return self._opened


class AsyncHttpTransport:
    """Over HTTP: aiohttp's pool of connections, with tritonclient's bodies."""

    def __init__(self, address: Address, settings: ClientSettings) -> None:
        """Prepare a pool, which the first request opens; see `HttpTransport`."""
        self._address, self._timeout_s = address, settings.timeout_s
        self._compression = settings.compression
        self._headers = settings.access.all_headers
        self._tls = settings.access.tls_context() if address.tls else None
        scheme = "https" if address.tls else "http"
        self._models = f"{scheme}://{address.authority}{address.path}/v2/models"
        self._opened: Any = None

    async def infer(
        self, inputs: Mapping[str, Array], timeout_s: float, model: str = MODEL
    ) -> Mapping[str, Array | None]:
        """See `AsyncTransport`."""
        body, headers = http_request(inputs, timeout_s, self._compression)
        with self._failures(timeout_s):
            request = self._session.post(
                f"{self._models}/{model}/infer",
                data=body,
                headers=headers,
                timeout=_timeout(timeout_s),
            )
            async with request as response:
                answer = await response.read()
        length = response.headers.get(HEADER_LENGTH)
        return http_answer(self._address.authority, response.status, length, answer)

    async def stream(
        self, inputs: Mapping[str, Array], timeout_s: float
    ) -> AsyncGenerator[Part, None]:
        """See `AsyncTransport`."""
        with self._failures(timeout_s):
            request = self._session.post(
                f"{self._models}/{STREAM_MODEL}/generate_stream",
                data=as_json(inputs, timeout_s),
                headers={"Content-Type": "application/json"},
                timeout=_timeout(timeout_s),
            )
            async with request as response:
                if response.status != http.HTTPStatus.OK:
                    message = refusal_message(await response.read())
                    raise from_status(str(response.status), message)
                async for line in response.content:
                    part = event_part(line)
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
        return http_ready(response.status, answer)

    async def config(self) -> Mapping[str, Any]:
        """See `AsyncTransport`."""
        with self._failures(self._timeout_s):
            url = f"{self._models}/{MODEL}/config"
            async with self._session.get(url, timeout=_timeout(self._timeout_s)) as response:
                answer = await response.read()
        return http_config(self._address.authority, response.status, answer)

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
                # By default it asks for compressed answers, which is for `compression` to say.
                skip_auto_headers=("Accept-Encoding",),
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


@contextlib.contextmanager
def _grpc_failures() -> Iterator[None]:
    import grpc  # heavy, and not wanted over HTTP

    try:
        yield
    except InferenceServerException as error:
        raise from_status(error.status(), error.message()) from error
    except grpc.aio.AioRpcError as error:
        raise from_status(str(error.code()), error.details()) from error


def _timeout(seconds: float) -> Any:
    import aiohttp

    return aiohttp.ClientTimeout(total=seconds)


def open_async_transport(url: str, settings: ClientSettings) -> AsyncTransport:
    """See `open_transport`."""
    address = read_url(url, settings.access)
    kind = AsyncGrpcTransport if address.is_grpc else AsyncHttpTransport
    return kind(address, settings)
