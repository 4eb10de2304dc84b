"""Requests over open connections, each as a function that sends it and waits for its answer.

Knows connections and what their errors mean; must not know when or how often something is sent.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import http
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman_client.access import Access, FilePath
from dragoman_client.errors import (
    DeadlineExceeded,
    ServerError,
    ServerUnavailable,
    TranslationError,
    from_status,
)
from dragoman_client.request import MODEL, STREAM_MODEL
from dragoman_client.streams import ENDED_EARLY
from dragoman_client.wire import CHANNEL_ARGUMENTS, HEADER_LENGTH, refusal_message

from dragoman_load_test import messages
from dragoman_load_test.messages import Answer
from dragoman_load_test.target import Target

_MOST_SHARING = 64
_CONNECTIONS = 16
"""Most connections over gRPC, and requests that share one of them."""


@dataclass(frozen=True)
class Answered:
    """What came back for a request.

    Attributes:
        sentences: texts translated.
        tokens: of their translations.
        first_s: when the first part of the answer came, by `time.perf_counter`; None: it was not
            asked for in parts.
        parts: in which it came.
    """

    sentences: int
    tokens: int
    first_s: float | None = None
    parts: int = 1


Send = Callable[[], Awaitable[Answered]]
"""Sends a request and waits for the end of its answer; raises `TranslationError`."""


class NotSent(TranslationError):
    """The generator could not send it; no fault of the server's."""


@contextlib.asynccontextmanager
async def open_senders(
    target: Target, batches: Sequence[Sequence[str]], at_once: int | None = 1
) -> AsyncIterator[list[Send]]:
    """Connect to a server.

    Args:
        target: the server and the form of requests.
        batches: the texts of each request; one each, if the target streams.
        at_once: requests under way at once; None: nobody knows.

    Yields:
        A function for each request. Over gRPC some dozens share a connection; over HTTP each that
        is under way has its own, and connections are used again.

    Raises:
        ValueError: a file of the target's access does not hold what it should.
    """
    _raise_limit_of_files()
    if target.address.is_grpc:
        wanted = _CONNECTIONS if at_once is None else math.ceil(at_once / _MOST_SHARING)
        connections = min(wanted, _CONNECTIONS, len(batches))
        async with _grpc_senders(target, batches, connections) as senders:
            yield senders
    else:
        async with _http_senders(target, batches) as senders:
            yield senders


def _raise_limit_of_files() -> None:
    """Connections are files, of which a process may usually open a thousand until it asks."""
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
    """Requests over so many connections in turn."""
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
    import grpc

    # Else channels to one server would share a connection.
    settings = [*CHANNEL_ARGUMENTS, ("grpc.use_local_subchannel_pool", 1)]
    authority = target.address.authority
    if target.address.tls:
        credentials = _grpc_credentials(target.access)
        channel = grpc.aio.secure_channel(authority, credentials, settings)
    else:
        channel = grpc.aio.insecure_channel(authority, settings)
    arguments = {
        "timeout": target.timeout_s,
        "metadata": tuple(target.access.all_headers.items()),
    }
    async with channel:
        if target.streamed:
            method = channel.stream_stream(messages.STREAM_INFER)
            call = functools.partial(_grpc_stream, method, arguments)
        else:
            method = channel.unary_unary(messages.INFER)
            call = functools.partial(_grpc_unary, method, arguments)
        yield [
            functools.partial(
                call,
                messages.grpc_request(texts, target.options, target.timeout_s, target.streamed),
                len(texts),
            )
            for texts in batches
        ]


async def _grpc_unary(
    method: Any, arguments: dict[str, Any], message: bytes, texts: int
) -> Answered:
    with _grpc_failures():
        return _answered(messages.read_grpc_answer(await method(message, **arguments)), texts)


async def _grpc_stream(
    method: Any, arguments: dict[str, Any], message: bytes, texts: int
) -> Answered:
    first_s, parts = None, 0
    with _grpc_failures():
        call = method(iter([message]), **arguments)
        try:
            async for part in call:
                first_s = first_s or time.perf_counter()
                parts += 1
                answer = messages.read_grpc_part(part)
                if answer.last:
                    return _answered(answer, texts, first_s, parts)
        finally:
            call.cancel()
    raise ServerError(ENDED_EARLY)


@contextlib.contextmanager
def _grpc_failures() -> Iterator[None]:
    import grpc

    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise from_status(str(error.code()), error.details()) from error
    except ValueError as error:
        raise ServerError(str(error)) from error


def _grpc_credentials(access: Access) -> Any:
    import grpc

    access.tls_context()  # gRPC would say that a file is wrong at the first request
    return grpc.ssl_channel_credentials(
        root_certificates=_read(access.ca_file),
        private_key=_read(access.key_file),
        certificate_chain=_read(access.certificate_file),
    )


def _read(file: FilePath | None) -> bytes | None:
    return None if file is None else Path(file).read_bytes()


@contextlib.asynccontextmanager
async def _http_senders(
    target: Target, batches: Sequence[Sequence[str]]
) -> AsyncIterator[list[Send]]:
    import aiohttp

    address, access = target.address, target.access
    scheme = "https" if address.tls else "http"
    models = f"{scheme}://{address.authority}{address.path}/v2/models"
    connector = aiohttp.TCPConnector(limit=0, ssl=access.tls_context() if address.tls else True)
    async with aiohttp.ClientSession(
        connector=connector,
        headers=access.all_headers,
        # By default it asks for answers that are compressed, which costs the server time.
        skip_auto_headers=("Accept-Encoding",),
        timeout=aiohttp.ClientTimeout(total=target.timeout_s),
    ) as session:
        if target.streamed:
            post = functools.partial(session.post, f"{models}/{STREAM_MODEL}/generate_stream")
            call = functools.partial(_http_stream, post)
            yield [
                functools.partial(
                    call, messages.generate_request(text, target.options, target.timeout_s)
                )
                for (text,) in batches
            ]
        else:
            post = functools.partial(session.post, f"{models}/{MODEL}/infer")
            call = functools.partial(_http_unary, post)
            yield [
                functools.partial(
                    call,
                    *messages.http_request(texts, target.options, target.timeout_s),
                    len(texts),
                )
                for texts in batches
            ]


async def _http_unary(
    post: Callable[..., Any], body: bytes, head_bytes: int, texts: int
) -> Answered:
    headers = {"Content-Type": "application/octet-stream", HEADER_LENGTH: str(head_bytes)}
    with _http_failures():
        async with post(data=body, headers=headers) as response:
            came = await response.read()
            if response.status != http.HTTPStatus.OK:
                raise from_status(str(response.status), refusal_message(came))
            length = int(response.headers.get(HEADER_LENGTH, len(came)))
        return _answered(messages.read_http_answer(came, length), texts)


async def _http_stream(post: Callable[..., Any], body: bytes) -> Answered:
    first_s, parts, last = None, 0, None
    with _http_failures():
        async with post(data=body, headers={"Content-Type": "application/json"}) as response:
            if response.status != http.HTTPStatus.OK:
                message = refusal_message(await response.read())
                raise from_status(str(response.status), message)
            async for line in response.content:
                answer = messages.read_event(line)
                if answer is None:
                    continue
                first_s = first_s or time.perf_counter()
                parts += 1
                if answer.last:
                    last = answer  # read on: a connection is used again only at its end
    if last is None:
        raise ServerError(ENDED_EARLY)
    return _answered(last, 1, first_s, parts)


@contextlib.contextmanager
def _http_failures() -> Iterator[None]:
    import aiohttp

    try:
        yield
    except TimeoutError as error:
        raise DeadlineExceeded("no answer in time") from error
    except (aiohttp.ClientError, OSError) as error:
        if getattr(error, "errno", None) in (errno.EMFILE, errno.ENFILE):
            raise NotSent("too many connections are open") from error
        raise ServerUnavailable(str(error) or repr(error)) from error
    except ValueError as error:
        raise ServerError(str(error)) from error


def _answered(answer: Answer, texts: int, first_s: float | None = None, parts: int = 1) -> Answered:
    if len(answer.texts) != texts:
        raise ServerError(f"{len(answer.texts)} translations of {texts} texts")
    return Answered(texts, answer.tokens, first_s, parts)
