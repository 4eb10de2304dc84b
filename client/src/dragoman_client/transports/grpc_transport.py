"""Transports to Triton over gRPC, for threads and for asyncio.

gRPC is imported only where it is needed: the import is slow, and a client over HTTP does not need
it.
"""

from __future__ import annotations

import abc
import asyncio
import functools
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

from dragoman_options.table import STREAM, TRANSLATE

from dragoman_client.core.address import Address
from dragoman_client.core.errors import DeadlineExceeded, ServerError
from dragoman_client.core.request import ENDED_EARLY, Part, is_last
from dragoman_client.core.settings import ClientSettings
from dragoman_client.core.tensors import Values
from dragoman_client.core.trace_context import trace_headers
from dragoman_client.transports import grpc_wire
from dragoman_client.transports.grpc_streams import (
    DEADLINE_GRACE_S,
    OpenCalls,
    OpenStreams,
    StreamReader,
)

_LONG_BYTES = 20_000
"""Requests of at least this size take half a second or more: worth cancelling, and safe."""
_MOST_AT_ONCE = 256
"""Maximum concurrent requests on an asynchronous connection; servers reset some of far more."""


class GrpcTransport(abc.ABC):
    """The part of a gRPC transport that does not depend on asyncio; see `AsyncTransport`."""

    def __init__(self, address: Address, settings: ClientSettings) -> None:
        """Prepare a channel; it is not connected yet.

        Args:
            address: address of the server.
            settings: the client's settings.

        Raises:
            ValueError: a file of `access` has the wrong content.
        """
        self._address, self._settings = address, settings
        self._metadata = tuple(settings.access.all_headers.items())
        self._compression = grpc_wire.compression_of(settings.compression)

    async def infer(
        self, inputs: Mapping[str, Values], timeout_s: float, model: str = TRANSLATE
    ) -> Mapping[str, Values | None]:
        """See `AsyncTransport`."""
        request = grpc_wire.infer_request(model, inputs, timeout_s)
        return grpc_wire.read_response(await self._ask("ModelInfer", request, timeout_s))

    async def stream(
        self, inputs: Mapping[str, Values], timeout_s: float
    ) -> AsyncGenerator[Part, None]:
        """See `AsyncTransport`."""
        import grpc

        write = functools.partial(grpc_wire.stream_request, STREAM, inputs)
        reader = await self._begin_stream(write, timeout_s)
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

        request = ModelReadyRequest(name=TRANSLATE)
        return bool((await self._ask("ModelReady", request, self._settings.timeout_s)).ready)

    async def _ask(self, method: str, request: Any, timeout_s: float) -> Any:
        """Call a method and convert its exception."""
        import grpc

        try:
            return await self._call(method, request, timeout_s)
        except grpc.RpcError as error:
            raise grpc_wire.call_error(self._address, error) from error

    def _open(self, grpc: Any) -> tuple[Any, Any]:
        """Open a channel of `grpc` or `grpc.aio`, with a stub of Triton's service."""
        from tritonclient.grpc.service_pb2_grpc import GRPCInferenceServiceStub

        channel = grpc_wire.open_channel(grpc, self._address, self._settings.access)
        return channel, GRPCInferenceServiceStub(channel)

    def _more(self) -> dict[str, Any]:
        """Arguments of a call besides its request and timeout."""
        metadata = (*self._metadata, *trace_headers().items())
        return {"metadata": metadata, "compression": self._compression}

    @abc.abstractmethod
    async def _call(self, method: str, request: Any, timeout_s: float) -> Any:
        """Call a method of Triton's service and return its answer."""

    @abc.abstractmethod
    async def _begin_stream(self, write: Callable[[float], Any], timeout_s: float) -> Any:
        """Send the request that `write` makes for the remaining time; return the reader."""


class BlockingGrpcTransport(GrpcTransport):
    """All threads share one channel; each stream has its own channel. See `blocking`."""

    def __init__(self, address: Address, settings: ClientSettings) -> None:
        """See `GrpcTransport`."""
        import grpc

        super().__init__(address, settings)
        self._channel, self._service = self._open(grpc)

    async def close(self) -> None:
        """Close the channel; running requests end at once, except streams."""
        self._channel.close()

    async def _call(self, method: str, request: Any, timeout_s: float) -> Any:
        # The extra time passes only if the server hangs. A future could stop waiting earlier, but
        # costs half a millisecond.
        late_s = timeout_s + DEADLINE_GRACE_S
        return getattr(self._service, method)(request, timeout=late_s, **self._more())

    async def _begin_stream(self, write: Callable[[float], Any], timeout_s: float) -> Any:
        import grpc

        request = write(timeout_s)
        # The stream has its own channel, which may outlive this transport: see `StreamReader`.
        # Channels to the same address share connections.
        channel, service = self._open(grpc)
        try:
            call = service.ModelStreamInfer(
                iter([request]), timeout=timeout_s + DEADLINE_GRACE_S, **self._more()
            )
        except BaseException:
            channel.close()
            raise
        return StreamReader(call, timeout_s, channel.close)


class AsyncioGrpcTransport(GrpcTransport):
    """One channel, opened in the event loop that uses it."""

    def __init__(self, address: Address, settings: ClientSettings) -> None:
        """See `GrpcTransport`."""
        super().__init__(address, settings)
        if address.tls:
            settings.access.tls_context()  # otherwise a wrong file would fail only in a request
        self._channel: Any = None
        self._slots = asyncio.Semaphore(_MOST_AT_ONCE)
        self._streams, self._calls = OpenStreams(), OpenCalls()

    async def infer(
        self, inputs: Mapping[str, Values], timeout_s: float, model: str = TRANSLATE
    ) -> Mapping[str, Values | None]:
        """See `AsyncTransport`."""
        left_s = await self._take_slot(timeout_s)
        try:
            return await super().infer(inputs, left_s, model)
        finally:
            self._slots.release()

    async def close(self) -> None:
        """Close the channel after abandoned calls have ended; see `grpc_streams`."""
        await self._streams.wait()
        await self._calls.wait()
        if self._channel is not None:
            await self._channel.close()

    async def _call(self, method: str, request: Any, timeout_s: float) -> Any:
        late_s = timeout_s + DEADLINE_GRACE_S
        call = getattr(self._opened, method)(request, timeout=late_s, **self._more())
        return await self._calls.answer(call, timeout_s, request.ByteSize() >= _LONG_BYTES)

    async def _begin_stream(self, write: Callable[[float], Any], timeout_s: float) -> Any:
        left_s = await self._take_slot(timeout_s)
        try:
            call = self._opened.ModelStreamInfer(
                iter([write(left_s)]), timeout=left_s + DEADLINE_GRACE_S, **self._more()
            )
        except BaseException:
            self._slots.release()
            raise
        reader = self._streams.read(call, left_s)
        reader.reading.add_done_callback(lambda _: self._slots.release())
        return reader

    async def _take_slot(self, timeout_s: float) -> float:
        """Wait for a slot for another concurrent request; returns the remaining time."""
        if not self._slots.locked():
            await self._slots.acquire()  # returns at once; a timeout would be slower
            return timeout_s
        deadline_s = time.monotonic() + timeout_s
        try:
            # Python 3.11's `wait_for` ignores a cancellation that arrives together with the slot.
            async with asyncio.timeout(timeout_s):
                await self._slots.acquire()
        except TimeoutError:
            raise DeadlineExceeded(f"too many requests in flight for {timeout_s:g} s") from None
        return max(deadline_s - time.monotonic(), 1e-3)

    @property
    def _opened(self) -> Any:
        """The stub of Triton's service."""
        if self._channel is None:
            import grpc.aio

            self._channel, self._service = self._open(grpc.aio)
        return self._service
