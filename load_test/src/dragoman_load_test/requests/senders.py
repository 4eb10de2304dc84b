"""Requests over open connections, each as a function that sends it and awaits the answer."""

from __future__ import annotations

import contextlib
import errno
import functools
import http
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dragoman_client.core.address import Address
from dragoman_client.core.errors import (
    DeadlineExceeded,
    ServerError,
    ServerUnavailable,
    TranslationError,
)
from dragoman_client.core.request import ENDED_EARLY
from dragoman_client.transports import grpc_wire, http_wire
from dragoman_client.transports.event_lines import split_lines
from dragoman_client.transports.grpc_streams import DEADLINE_GRACE_S, OpenStreams

from dragoman_load_test.requests import messages
from dragoman_load_test.requests.http_apis import HttpApi
from dragoman_load_test.requests.messages import Answer
from dragoman_load_test.requests.target import Target

_MOST_SHARING = 64
_CONNECTIONS = 16
"""Maximum number of gRPC connections, and of requests that share one."""


@dataclass(frozen=True)
class Answered:
    """Counts of the answer to a request.

    Attributes:
        sentences: number of translated texts.
        tokens: number of tokens in their translations.
        first_s: time of the first part with text, by `time.perf_counter`; None: not streamed.
        parts: number of parts of the answer.
    """

    sentences: int
    tokens: int
    first_s: float | None = None
    parts: int = 1


Send = Callable[[], Awaitable[Answered]]
"""Sends a request and waits for the end of its answer; raises `TranslationError`."""


class NotSent(TranslationError):
    """The generator could not send a request; the server is not at fault."""


@contextlib.asynccontextmanager
async def open_senders(
    target: Target, batches: Sequence[Sequence[str]], at_once: int | None = 1
) -> AsyncIterator[list[Send]]:
    """Connect to a server.

    Args:
        target: the server and the form of requests.
        batches: the texts of each request; one text each if the target streams.
        at_once: number of concurrent requests; None: unknown.

    Yields:
        A function for each request. Over gRPC dozens of requests share a connection; over HTTP
        each request in flight has its own connection, which is reused.

    Raises:
        ValueError: a file of the target's access has the wrong content.
    """
    _raise_limit_of_files()
    if target.address.is_grpc:
        needed = _CONNECTIONS if at_once is None else math.ceil(at_once / _MOST_SHARING)
        connections = min(needed, _CONNECTIONS, len(batches))
        async with _grpc_senders(target, batches, connections) as senders:
            yield senders
    else:
        async with _http_senders(target, batches) as senders:
            yield senders


def _raise_limit_of_files() -> None:
    """Raise the limit of open files, by default about a thousand: each connection is one."""
    try:
        import resource
    except ImportError:
        return  # Windows has no such limit
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@contextlib.asynccontextmanager
async def _grpc_senders(
    target: Target, batches: Sequence[Sequence[str]], connections: int
) -> AsyncIterator[list[Send]]:
    """Open connections and distribute the requests over them in turn."""
    async with contextlib.AsyncExitStack() as stack:
        shares = [
            await stack.enter_async_context(_grpc_connection(target, batches[first::connections]))
            for first in range(connections)
        ]
        yield [shares[i % connections][i // connections] for i in range(len(batches))]


@contextlib.asynccontextmanager
async def _grpc_connection(
    target: Target, batches: Sequence[Sequence[str]]
) -> AsyncIterator[list[Send]]:
    import grpc.aio

    # Otherwise channels to the same server would share a connection.
    own = (("grpc.use_local_subchannel_pool", 1),)
    metadata = tuple(target.access.all_headers.items())
    streams = OpenStreams()
    async with grpc_wire.open_channel(grpc.aio, target.address, target.access, own) as channel:
        if target.streamed:
            method = functools.partial(
                channel.stream_stream(messages.STREAM_INFER),
                timeout=target.timeout_s + DEADLINE_GRACE_S,
                metadata=metadata,
            )
            call = functools.partial(_grpc_stream, method, target, streams)
        else:
            method = functools.partial(
                channel.unary_unary(messages.INFER),
                timeout=target.timeout_s + DEADLINE_GRACE_S,  # after the server's deadline
                metadata=metadata,
            )
            call = functools.partial(_grpc_unary, method, target)
        try:
            yield [
                functools.partial(
                    call,
                    messages.grpc_request(texts, target.options, target.timeout_s, target.streamed),
                    len(texts),
                )
                for texts in batches
            ]
        finally:
            await streams.wait()


async def _grpc_unary(
    method: Callable[..., Any], target: Target, message: bytes, texts: int
) -> Answered:
    with _grpc_failures(functools.partial(grpc_wire.call_error, target.address)):
        return _answered(messages.read_grpc_answer(await method(message)), texts)


async def _grpc_stream(
    method: Callable[..., Any], target: Target, streams: OpenStreams, message: bytes, texts: int
) -> Answered:
    first_s, parts = None, 0
    reader = streams.read(method(iter([message])), target.timeout_s)
    with _grpc_failures(functools.partial(grpc_wire.stream_error, target.address)):
        while (part := await reader.next()) is not None:
            answer = messages.read_grpc_part(part)
            if any(answer.texts):
                first_s = first_s or time.perf_counter()
            parts += 1
            if answer.last:
                return _answered(answer, texts, first_s, parts)
    raise ServerError(ENDED_EARLY)


@contextlib.contextmanager
def _grpc_failures(meaning: Callable[[Any], TranslationError]) -> Iterator[None]:
    import grpc

    try:
        yield
    except grpc.RpcError as error:
        raise meaning(error) from error
    except ValueError as error:
        raise ServerError(str(error)) from error


@contextlib.asynccontextmanager
async def _http_senders(
    target: Target, batches: Sequence[Sequence[str]]
) -> AsyncIterator[list[Send]]:
    import aiohttp

    address, access, api = target.address, target.access, target.http_api
    scheme = "https" if address.tls else "http"
    url = f"{scheme}://{address.authority}{address.path}"
    connector = aiohttp.TCPConnector(limit=0, ssl=access.tls_context() if address.tls else True)
    async with aiohttp.ClientSession(
        connector=connector,
        headers={**api.headers, **http_wire.JSON_HEADERS},
        # By default aiohttp requests compressed answers, which cost the server time.
        skip_auto_headers=("Accept-Encoding",),
        timeout=aiohttp.ClientTimeout(total=target.timeout_s),
    ) as session:
        path = api.stream_path if target.streamed else api.path
        post = functools.partial(session.post, f"{url}{path}")
        send = _http_stream if target.streamed else _http_unary
        call = functools.partial(send, post, address, api)
        yield [
            functools.partial(
                call,
                api.write(texts, target.options, target.timeout_s, target.streamed),
                len(texts),
            )
            for texts in batches
        ]


async def _http_unary(
    post: Callable[..., Any], address: Address, api: HttpApi, body: bytes, texts: int
) -> Answered:
    with _http_failures(address):
        async with post(data=body) as response:
            came = await response.read()
            if response.status != http.HTTPStatus.OK:
                api.check(response.status, response.headers.get(http_wire.RETRY_AFTER), came)
        return _answered(api.read(came), texts)


async def _http_stream(
    post: Callable[..., Any], address: Address, api: HttpApi, body: bytes, texts: int
) -> Answered:
    first_s, parts, last = None, 0, None
    assert api.line_reader is not None
    read = api.line_reader()
    with _http_failures(address):
        async with post(data=body) as response:
            if response.status != http.HTTPStatus.OK:
                retry_after = response.headers.get(http_wire.RETRY_AFTER)
                api.check(response.status, retry_after, await response.read())
            async for line in split_lines(response.content.iter_any()):
                if (part := read(line)) is None:
                    continue
                answer = messages.answer_of(part)
                if any(answer.texts):
                    first_s = first_s or time.perf_counter()
                parts += 1
                if answer.last:
                    last = answer  # continue: a connection is reused only after the end
    if last is None:
        raise ServerError(ENDED_EARLY)
    return _answered(last, texts, first_s, parts)


@contextlib.contextmanager
def _http_failures(address: Address) -> Iterator[None]:
    import aiohttp

    try:
        yield
    except TimeoutError as error:
        raise DeadlineExceeded("no answer in time") from error
    except (aiohttp.ClientError, OSError) as error:
        if getattr(error, "errno", None) in (errno.EMFILE, errno.ENFILE):
            raise NotSent("too many connections are open") from error
        http_wire.check_protocol(address, error)
        raise ServerUnavailable(http_wire.failure_reason(error)) from error
    except ValueError as error:
        raise ServerError(str(error)) from error


def _answered(answer: Answer, texts: int, first_s: float | None = None, parts: int = 1) -> Answered:
    if len(answer.texts) != texts:
        raise ServerError(f"{len(answer.texts)} translations for {texts} texts")
    return Answered(texts, answer.tokens, first_s, parts)
