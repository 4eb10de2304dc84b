"""Handlers of gRPC calls, with the keys, limits, errors and metrics of every protocol."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, aclosing, asynccontextmanager, nullcontext
from typing import Any

import grpc
from dragoman_options.refusal import Refusal
from google.protobuf.message import DecodeError

from dragoman_gateway.access.record import RequestRecord, begin_record
from dragoman_gateway.access.shares import Budget, client_of
from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.errors import (
    DeadlineExceeded,
    GatewayError,
    InvalidInput,
    SlowUpload,
    log_fault,
)
from dragoman_gateway.shared.gateway import Gateway
from dragoman_gateway.web.body_limits import LEAST_BYTES_PER_S
from dragoman_gateway.web.endpoints import counted
from dragoman_gateway.web.forwarding import FORWARDED, Forwarding, open_behind_proxy
from dragoman_gateway.web.middleware.request_spans import RequestSpans

_LOG = logging.getLogger(__name__)
CALLS = 1000
"""Maximum number of concurrent calls; others get RESOURCE_EXHAUSTED."""
MESSAGE_BYTES = 2 << 20
"""Maximum size of a message, which is reserved while the message arrives."""
_KEYLESS_BYTES = 16 << 20
"""Maximum memory of the messages of calls that need no key."""
_STREAM_BYTES = 128 << 20
"""Maximum memory of the messages of streams."""
_STOPPING_S = 1.0
"""Time after which a call that waits for a message notices that the gateway shuts down."""
_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    408: grpc.StatusCode.DEADLINE_EXCEEDED,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}
Observe = Callable[[float, str, RequestRecord], None]
Answer = Callable[[Any, Any, Caller], Awaitable[Any]]
KeylessAnswer = Callable[[Any], Awaitable[Any]]
Answers = Callable[[Any, Caller], AsyncGenerator[Any, None]]


class Calls:
    """Makes the handlers of a protocol's calls.

    All handlers are those of streams, although most clients send one message: gRPC calls them when
    the metadata has arrived, so the key is checked and memory reserved before a message is read.

    Attributes:
        message_bytes: maximum size of a message.
        upload_s: time within which a message must arrive.
        keyless_bytes: memory of the messages of calls that need no key.
    """

    def __init__(
        self,
        gateway: Gateway,
        protocol: str,
        observe: Observe,
        spans: RequestSpans | None = None,
    ) -> None:
        """Store the parts.

        Args:
            gateway: the gateway's core.
            protocol: name of the protocol.
            observe: counts and logs a call, from the result of `Metrics.begin`, its name, and its
                record with the corresponding HTTP status.
            spans: makes the spans of calls; None: no tracing.
        """
        self._gateway, self._protocol = gateway, protocol
        self._observe, self._spans = observe, spans
        settings = gateway.settings
        self._forwarding = Forwarding(settings.trusted_proxies)
        self.message_bytes = min(settings.body_bytes, MESSAGE_BYTES)
        self.upload_s = settings.upload_timeout_s + self.message_bytes / LEAST_BYTES_PER_S
        self._calls = Budget.of("concurrent calls", CALLS, settings)
        self.keyless_bytes = Budget.of(
            "bytes of calls without a key", _KEYLESS_BYTES, settings, self.message_bytes
        )
        # Not those of all requests: an open stream reserves a message for as long as it waits.
        self._stream_bytes = Budget.of(
            "bytes of streams", _STREAM_BYTES, settings, self.message_bytes
        )

    def unary(self, answer: Answer, request_type: Any) -> Any:
        """Returns a handler that answers a message with one.

        Args:
            answer: answers the parsed message, with the call's context and its caller.
            request_type: type of the message.
        """
        call = answer.__name__.strip("_")

        async def respond(received: AsyncIterator[bytes], context: Any) -> bytes:
            caller = await self._caller(context)
            account = self._gateway.bodies.account(caller, self.address(context))
            async with (
                self.counted(account.client),
                self.message(received, account.memory, account.client) as message,
            ):
                try:
                    response = await answer(parsed(request_type, message), context, caller)
                except GatewayError as error:
                    raise await counted(self._gateway.access, caller, error) from None
                written: bytes = response.SerializeToString()
                return written

        async def handle(received: AsyncIterator[bytes], context: Any) -> Any:
            async with self._observed(call, context) as record:
                async with asyncio.timeout(context.time_remaining()):
                    response = await respond(received, context)
                record.status = 200
                return response

        return grpc.stream_unary_rpc_method_handler(handle)

    def stream(
        self, answer: Answers, request_type: Any, refuse: Callable[[Any, GatewayError], Any]
    ) -> Any:
        """Returns a handler that answers the messages of a stream one after the other.

        Args:
            answer: answers a parsed message of a caller with messages.
            request_type: type of the received messages.
            refuse: makes the message that answers a parsed message with an error.
        """
        call = answer.__name__.strip("_")

        async def respond(message: bytes, context: Any, caller: Caller, status: int) -> int:
            request = parsed(request_type, message)
            try:
                async with aclosing(answer(request, caller)) as responses:
                    async for response in responses:
                        await context.write(response.SerializeToString())
            except GatewayError as refused:
                error = await counted(self._gateway.access, caller, refused)
                await context.write(refuse(request, error).SerializeToString())
                return error.status
            return status

        async def handle(received: AsyncIterator[bytes], context: Any) -> None:
            async with self._observed(call, context) as record:
                caller, status = await self._caller(context), 200
                account = self._gateway.bodies.account(caller, self.address(context))
                messages = self._until_stopping(received)
                async with self.counted(account.client), aclosing(messages):
                    while True:
                        async with self.message(
                            messages, self._stream_bytes, account.client, may_end=True
                        ) as message:
                            if message is None:
                                break
                            caller = await self._caller(context)  # its key may have been revoked
                            record.is_admitted = False
                            status = await respond(message, context, caller, status)
                record.status = status

        return grpc.stream_stream_rpc_method_handler(handle)

    def keyless(self, answer: KeylessAnswer, request_type: Any) -> Any:
        """Returns a handler that answers a message of any client, without metrics and log.

        Args:
            answer: answers the parsed message.
            request_type: type of the message.
        """

        async def handle(received: AsyncIterator[bytes], context: Any) -> Any:
            request = await self.keyless_request(received, context, request_type)
            try:
                return (await answer(request)).SerializeToString()
            except GatewayError as error:
                await abort(context, error)

        return grpc.stream_unary_rpc_method_handler(handle)

    async def keyless_request(
        self, received: AsyncIterator[bytes], context: Any, request_type: Any
    ) -> Any:
        """Returns the parsed message of a call that needs no key, or ends the call."""
        client = self.keyless_client(context)
        try:
            async with (
                self.counted(client),
                self.message(received, self.keyless_bytes, client) as message,
            ):
                return parsed(request_type, message)
        except GatewayError as error:
            await abort(context, error)

    @asynccontextmanager
    async def counted(self, client: str) -> AsyncGenerator[None, None]:
        """Count a call of a client while it runs."""
        self._calls.hold(client)
        try:
            yield
        finally:
            self._calls.let_go(client)

    @asynccontextmanager
    async def message(
        self,
        received: AsyncIterator[bytes],
        budget: Budget,
        client: str,
        *,
        may_end: bool = False,
    ) -> AsyncGenerator[Any, None]:
        """Receive a message of a call; its bytes count until it is answered.

        A call waits while its client's other messages arrive, or all memory is reserved.

        Args:
            received: the messages of the call.
            budget: memory for its bytes.
            client: name of the client; see `client_of`.
            may_end: whether the result is None if there are no more messages.

        Raises:
            SlowUpload: the message did not arrive in time.
            InvalidInput: there is none.
        """
        held = 0
        try:
            try:
                async with asyncio.timeout(self.upload_s):
                    await budget.hold_later(client, self.message_bytes)
                    held = self.message_bytes
                    message = await anext(aiter(received), None)
            except TimeoutError:
                raise SlowUpload(
                    f"the message did not arrive within {self.upload_s:.0f} s"
                ) from None
            if message is None and not may_end:
                raise InvalidInput("the call has no message")
            size = len(message or b"")
            budget.let_go(client, held - size)
            held = size
            yield message
        finally:
            budget.let_go(client, held)

    async def _until_stopping(self, received: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        """Yield messages until they end, or the gateway shuts down."""
        messages = aiter(received)
        while True:
            waiting = asyncio.ensure_future(anext(messages, None))
            try:
                while not waiting.done():
                    await asyncio.wait([waiting], timeout=_STOPPING_S)
                    if self._gateway.stopping and not waiting.done():
                        return
                message = waiting.result()
            finally:
                waiting.cancel()
            if message is None:
                return
            yield message

    @asynccontextmanager
    async def _observed(self, call: str, context: Any) -> AsyncGenerator[RequestRecord, None]:
        """Count, log and trace a call, and convert its errors to gRPC's."""
        record, began = begin_record(), self._gateway.metrics.begin()
        try:
            with self._span(call, context):
                try:
                    yield record
                except TimeoutError:
                    record.status = DeadlineExceeded.status
                    await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "no answer in time")
                except GatewayError as error:
                    record.status = error.status
                    await abort(context, error)
                except Exception as error:
                    log_fault(_LOG, f"{self._protocol} {call}", error)
                    record.status = 500
                    await context.abort(
                        grpc.StatusCode.INTERNAL, "the request failed: see the server's log"
                    )
        finally:
            self._observe(began, call, record)

    def _span(self, call: str, context: Any) -> AbstractContextManager[object]:
        if self._spans is None:
            return nullcontext()
        name, metadata = f"{self._protocol} {call}", metadata_of(context)
        return self._spans.span(name, self._protocol, metadata, self.address(context))

    async def _caller(self, context: Any) -> Caller:
        metadata = metadata_of(context)
        is_forwarded = any(name.encode() in FORWARDED for name in metadata)
        if is_forwarded and await self._gateway.access.is_open():
            raise open_behind_proxy()
        scheme, _, token = metadata.get("authorization", "").partition(" ")
        secret = token.strip() or None if scheme.lower() == "bearer" else None
        address = self.address(context)
        caller = await self._gateway.access.caller(secret, self._protocol, address)
        return caller.obeying(metadata.get("cache-control", ""))

    def address(self, context: Any) -> str:
        """Returns the network address of the client of a call, behind trusted proxies."""
        address = _peer_address(context.peer())
        metadata = context.invocation_metadata() or ()
        forwarded = ",".join(str(value) for name, value in metadata if name == "x-forwarded-for")
        if forwarded and self._forwarding.trusts(address):
            return self._forwarding.client(forwarded.encode(), address)
        return address

    def keyless_client(self, context: Any) -> str:
        """Returns the name of the client of a call that needs no key; see `client_of`."""
        return client_of(None, self.address(context))


def parsed(request_type: Any, received: bytes) -> Any:
    """Returns a received message.

    Raises:
        InvalidInput: it is not of this type.
    """
    try:
        return request_type.FromString(received)
    except DecodeError as error:
        name = request_type.DESCRIPTOR.name
        raise InvalidInput(f"the request is not a valid {name}") from error


def code_of(error: GatewayError) -> grpc.StatusCode:
    """Returns gRPC's status of an error."""
    return _CODES.get(error.status, grpc.StatusCode.INTERNAL)


async def abort(context: Any, error: GatewayError) -> None:
    """End a call with an error."""
    trailing: Sequence[tuple[str, str]] = ()
    if error.retry_whole_s is not None:
        trailing = (("retry-after", str(error.retry_whole_s)),)
    elif isinstance(error, InvalidInput):
        trailing = (("refusal", Refusal.of(error).details()),)
    await context.abort(code_of(error), str(error), trailing)


def metadata_of(context: Any) -> dict[str, str]:
    """Returns the metadata of a call."""
    return {name: str(value) for name, value in context.invocation_metadata() or ()}


def _peer_address(peer: str) -> str:
    """Returns the network address in gRPC's name of a client, such as `ipv4:127.0.0.1:4321`."""
    kind, _, rest = peer.partition(":")
    if kind == "ipv4":
        return rest.rpartition(":")[0]
    if kind == "ipv6":
        return rest.rpartition(":")[0].replace("%5B", "").replace("%5D", "").strip("[]")
    return ""
