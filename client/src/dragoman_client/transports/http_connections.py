"""Connections to a server over HTTP, for threads and for asyncio."""

from __future__ import annotations

import abc
import asyncio
import collections
import contextlib
import http.client
import ssl
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any, NamedTuple

from dragoman_client.core.address import Address
from dragoman_client.core.errors import AccessDenied, DeadlineExceeded, ServerUnavailable
from dragoman_client.core.settings import ClientSettings
from dragoman_client.core.trace_context import trace_headers
from dragoman_client.transports import http_wire

_CHUNK_BYTES = 1 << 16
_LOST = (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
"""Exceptions when the other side closes the connection, with TLS and without."""


class HttpAnswer(NamedTuple):
    """An answer: its status, its header `Retry-After`, and its body."""

    status: int
    retry_after: str | None
    body: bytes


Check = Callable[[int, str | None, bytes], None]
"""Raises the exception for an answer whose status is not 200."""


class HttpConnections(abc.ABC):
    """Sends requests over HTTP, without interpreting them.

    Attributes:
        authority: host and port of the server.
        timeout_s: the client's timeout, for requests without their own.
    """

    def __init__(self, address: Address, settings: ClientSettings) -> None:
        """Prepare an empty pool of connections.

        Args:
            address: address of the server.
            settings: the client's settings.

        Raises:
            ValueError: a file of `access` has the wrong content.
        """
        self.authority, self.timeout_s = address.authority, settings.timeout_s
        self._address, self._path = address, address.path
        self._headers = {**settings.access.all_headers, **http_wire.JSON_HEADERS}
        self._tls = settings.access.tls_context() if address.tls else None

    @abc.abstractmethod
    async def ask(
        self, method: str, path: str, timeout_s: float, body: bytes | None = None
    ) -> HttpAnswer:
        """Send a request and return the answer; `path` is relative to the path of the URL."""

    async def ask_first(self, path: str, timeout_s: float) -> HttpAnswer:
        """Send a GET whose answer other requests wait for."""
        return await self.ask("GET", path, timeout_s)

    @abc.abstractmethod
    def chunks(
        self, path: str, timeout_s: float, body: bytes, check: Check
    ) -> AsyncGenerator[bytes, None]:
        """Send a POST and yield the answer as it arrives.

        Raises:
            TranslationError: the status is not 200; see `check`.
        """

    @abc.abstractmethod
    async def close(self) -> None:
        """Close the connections."""

    def _too_late(self, timeout_s: float) -> DeadlineExceeded:
        return DeadlineExceeded(f"{self.authority}: no answer within {timeout_s:g} s")


class BlockingConnections(HttpConnections):
    """A pool of connections, each used by one thread at a time; see `blocking`."""

    def __init__(self, address: Address, settings: ClientSettings) -> None:
        """See `HttpConnections`."""
        super().__init__(address, settings)
        self._idle: collections.deque[http.client.HTTPConnection] = collections.deque()
        self._closed = False

    async def close(self) -> None:
        """Close the idle connections; the others close when their answers have arrived."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    async def ask(
        self, method: str, path: str, timeout_s: float, body: bytes | None = None
    ) -> HttpAnswer:
        """See `HttpConnections`."""
        while True:
            connection, reused = self._connection(timeout_s)
            try:
                connection.request(method, f"{self._path}{path}", body, self._all_headers())
                response = connection.getresponse()
                answer = response.read()
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                if reused and isinstance(error, _LOST):
                    # The server had closed an idle connection. Retrying is safe: a translation
                    # changes nothing. The loop ends, since a new connection is not a reused one.
                    continue
                with self._failures(timeout_s):
                    raise
            except BaseException:
                # The answer to this request may still arrive: the connection must not be reused.
                connection.close()
                raise
            self._idle.append(connection)
            if self._closed:
                await self.close()
            return HttpAnswer(response.status, response.headers[http_wire.RETRY_AFTER], answer)

    async def chunks(
        self, path: str, timeout_s: float, body: bytes, check: Check
    ) -> AsyncGenerator[bytes, None]:
        """See `HttpConnections`."""
        connection = self._connect(timeout_s)
        try:
            with self._failures(timeout_s):
                connection.request("POST", f"{self._path}{path}", body, self._all_headers())
                response = connection.getresponse()
                if response.status != http.HTTPStatus.OK:
                    retry_after = response.headers[http_wire.RETRY_AFTER]
                    check(response.status, retry_after, response.read())
                while chunk := response.read1(_CHUNK_BYTES):
                    yield chunk
        finally:
            connection.close()

    @contextlib.contextmanager
    def _failures(self, timeout_s: float) -> Iterator[None]:
        """Convert the exceptions of a broken connection, or of a server that is not HTTP."""
        try:
            yield
        except TimeoutError as error:
            raise self._too_late(timeout_s) from error
        except OSError as error:
            if isinstance(error, ssl.SSLError) and not isinstance(error, _LOST):
                raise AccessDenied(f"{self.authority}: TLS: {_reason(error)}") from error
            raise ServerUnavailable(f"{self.authority}: {error.strerror or error}") from error
        except http.client.IncompleteRead as error:
            message = f"{self.authority}: the connection closed before the end of the answer"
            raise ServerUnavailable(message) from error
        except http.client.HTTPException as error:
            http_wire.check_protocol(self._address, error)
            raise ServerUnavailable(f"{self.authority} does not speak HTTP: {error!r}") from error

    def _all_headers(self) -> dict[str, str]:
        return {**self._headers, **trace_headers()}

    def _connection(self, timeout_s: float) -> tuple[http.client.HTTPConnection, bool]:
        """Returns a connection for this thread only, and whether it was used before."""
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
            return http.client.HTTPConnection(self.authority, timeout=timeout_s)
        return http.client.HTTPSConnection(self.authority, timeout=timeout_s, context=self._tls)


class AsyncioConnections(HttpConnections):
    """aiohttp's connection pool, opened in the event loop that uses it."""

    def __init__(self, address: Address, settings: ClientSettings) -> None:
        """See `HttpConnections`."""
        super().__init__(address, settings)
        self._scheme = "https" if address.tls else "http"
        self._session: Any = None
        self._first: asyncio.Task[HttpAnswer] | None = None

    async def ask_first(self, path: str, timeout_s: float) -> HttpAnswer:
        """See `HttpConnections`; requests that start at the same time share the answer."""
        if self._first is None or self._first.done():
            self._first = asyncio.create_task(self.ask("GET", path, self.timeout_s))
            self._first.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.shield(self._first)
        except TimeoutError as error:
            raise self._too_late(timeout_s) from error

    async def close(self) -> None:
        """See `HttpConnections`."""
        if self._first is not None:
            self._first.cancel()
        if self._session is not None:
            await self._session.close()

    async def ask(
        self, method: str, path: str, timeout_s: float, body: bytes | None = None
    ) -> HttpAnswer:
        """See `HttpConnections`."""
        async with self._response(method, path, timeout_s, body) as response:
            answer = await response.read()
        return HttpAnswer(response.status, response.headers.get(http_wire.RETRY_AFTER), answer)

    async def chunks(
        self, path: str, timeout_s: float, body: bytes, check: Check
    ) -> AsyncGenerator[bytes, None]:
        """See `HttpConnections`."""
        async with self._response("POST", path, timeout_s, body) as response:
            if response.status != http.HTTPStatus.OK:
                retry_after = response.headers.get(http_wire.RETRY_AFTER)
                check(response.status, retry_after, await response.read())
            async for chunk in response.content.iter_any():
                yield chunk

    @contextlib.asynccontextmanager
    async def _response(
        self, method: str, path: str, timeout_s: float, body: bytes | None
    ) -> AsyncGenerator[Any, None]:
        """Open an answer; converts exceptions, as `BlockingConnections._failures`."""
        import aiohttp

        if self._session is None:
            self._session = self._open_session()
        url = f"{self._scheme}://{self.authority}{self._path}{path}"
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        try:
            async with self._session.request(
                method, url, data=body, timeout=timeout, headers=trace_headers()
            ) as response:
                yield response
        except TimeoutError as error:
            raise self._too_late(timeout_s) from error
        except aiohttp.ClientSSLError as error:
            raise AccessDenied(f"{self.authority}: TLS: {error}") from error
        except (aiohttp.ClientError, OSError) as error:
            http_wire.check_protocol(self._address, error)
            reason = http_wire.failure_reason(error)
            raise ServerUnavailable(f"{self.authority}: {reason}") from error

    def _open_session(self) -> Any:
        import aiohttp

        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._tls or True),
            headers=self._headers,
            # By default aiohttp requests compressed answers, which cost the server time.
            skip_auto_headers=("Accept-Encoding",),
        )


def _reason(error: ssl.SSLError) -> str:
    """Returns a readable reason for a TLS error."""
    return str(getattr(error, "verify_message", None) or error.reason or error)
