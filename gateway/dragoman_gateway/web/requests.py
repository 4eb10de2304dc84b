"""A request as handlers see it: its body is whole, bounded and in time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from python_multipart.multipart import parse_options_header
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive

from dragoman_gateway.core.errors import (
    GatewayError,
    InvalidInput,
    SlowUpload,
    TooLarge,
    Unavailable,
    WrongMediaType,
)

_Shape = TypeVar("_Shape")
_Result = TypeVar("_Result")
_AGAIN_S = 1.0
_LEAST_BYTES_PER_S = 64 << 10
"""Speed at which a body may arrive for as long as it takes."""
_MOST_FIELDS = 10_000
"""Of a form."""
_MOST_FILES = 10
_MOST_PART_BYTES = 8 << 20
"""Of a field that is no file."""
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
JSON = "application/json"


class GatewayRequest(Request):
    """A request with its whole body.

    Attributes:
        content: the body; empty where the endpoint reads it by itself.
    """

    content: bytes = b""

    @property
    def media_type(self) -> str:
        """Content type without its parameters, in lower case."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def address(self) -> str:
        """Network address of the client, behind trusted proxies."""
        return self.client.host if self.client else ""

    @property
    def request_id(self) -> str:
        """As the header X-Request-ID of its answer has it."""
        found: str = self.scope["request_id"]
        return found

    @property
    def has_body(self) -> bool:
        """Whether a body comes, of any length."""
        return self.headers.get("content-length", "0") != "0" or "transfer-encoding" in self.headers

    @property
    def bearer(self) -> str | None:
        """The token of the header `Authorization: Bearer`; None: there is none."""
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        return token.strip() or None if scheme.lower() == "bearer" else None

    def read_json(self, shape: type[_Shape]) -> _Shape:
        """The body as a shape of msgspec.

        Raises:
            InvalidInput: it is not JSON, or not of the shape; the message names the field.
        """
        try:
            return msgspec.json.decode(self.content, type=shape)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidInput(f"the body is not what it should be: {error}") from error

    async def read_fields(self) -> dict[str, Any]:
        """The fields of the query and of the body, which is a JSON object or a form.

        Returns:
            Values by name: of JSON any, of a form a text or a file, or a list of these where a name
            occurs more than once. The body's value comes before the query's.

        Raises:
            InvalidInput: the body is malformed.
            WrongMediaType: the body is neither JSON nor a form.
        """
        fields = _collected(self.query_params.multi_items())
        if self.media_type == MULTIPART:
            return fields | await self._multipart_fields()
        if not self.content:
            return fields
        if self.media_type == JSON or (not self.media_type and self.content[:1] == b"{"):
            return fields | self.read_json(dict[str, Any])
        if self.media_type not in ("", FORM):
            raise WrongMediaType(
                f"content type {self.media_type[:60]!r} is not read here: send {JSON} or {FORM}"
            )
        return fields | _collected(_form_pairs(self.content))

    async def _multipart_fields(self) -> dict[str, Any]:
        _, parameters = parse_options_header(self.headers.get("content-type", ""))
        charset = parameters.get(b"charset", b"utf-8").decode("latin-1")
        if charset.lower() not in ("utf-8", "utf8"):
            raise InvalidInput(f"charset {charset[:40]!r}: send the form in UTF-8")
        try:
            form = await self.form(
                max_files=_MOST_FILES, max_fields=_MOST_FIELDS, max_part_size=_MOST_PART_BYTES
            )
        except (MultiPartException, UnicodeDecodeError) as error:
            raise InvalidInput(f"the form cannot be read: {error}") from error
        except HTTPException as error:  # what Starlette makes of it
            raise InvalidInput(f"the form cannot be read: {error.detail}") from error
        return _collected(form.multi_items())


class BodiesInFlight:
    """Counts the bytes of all bodies that are held at once."""

    def __init__(self, most_bytes: int) -> None:
        """Begin with none."""
        self._most_bytes, self._bytes = most_bytes, 0

    def hold(self, size: int) -> None:
        """Count bytes that have arrived.

        Raises:
            Unavailable: there are too many; these are not counted.
        """
        if self._bytes + size > self._most_bytes:
            raise Unavailable(
                "the gateway holds as many bodies of requests as it may: try again soon", _AGAIN_S
            )
        self._bytes += size

    def let_go(self, size: int) -> None:
        """Count bytes no longer."""
        self._bytes -= size


class BoundedBody:
    """ASGI's `receive`, which refuses a body that is too large, too slow, or one too many.

    Attributes:
        held: bytes that have arrived, and that count until `let_go`.
    """

    def __init__(
        self,
        receive: Receive,
        most_bytes: int,
        timeout_s: float,
        bodies: BodiesInFlight,
    ) -> None:
        """Begin; the time runs from here to the end of the body, and grows with what arrives.

        Args:
            receive: of ASGI.
            most_bytes: of the body.
            timeout_s: for it to arrive; a large one has more.
            bodies: that are held at once.
        """
        self._receive, self._most_bytes, self._timeout_s = receive, most_bytes, timeout_s
        self._bodies, self.held = bodies, 0
        self._too_large: GatewayError | None = None
        self._deadline_s = asyncio.get_running_loop().time() + timeout_s
        self._size, self._is_whole = 0, False

    def bound(self, most_bytes: int, too_large: GatewayError | None = None) -> None:
        """Set another bound.

        Args:
            most_bytes: of the body.
            too_large: is raised for a larger body; None: `TooLarge`.
        """
        self._most_bytes, self._too_large = most_bytes, too_large

    async def __call__(self) -> Message:
        """The next message.

        Raises:
            TooLarge: the body is larger; or the error that was given for this.
            SlowUpload: it did not arrive in time.
            Unavailable: too many bodies are held already.
        """
        if self._is_whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._deadline_s):
                message = await self._receive()
        except TimeoutError:
            raise SlowUpload(
                f"the body did not arrive within {self._timeout_s:g} s, and after that at "
                f"{_LEAST_BYTES_PER_S >> 10} KiB a second"
            ) from None
        size = len(message.get("body", b""))
        self._size += size
        self._deadline_s += size / _LEAST_BYTES_PER_S
        if self._size > self._most_bytes:
            raise self._too_large or TooLarge(
                f"the body has more than {self._most_bytes:,} bytes: send less"
            )
        self._bodies.hold(size)
        self.held += size
        self._is_whole = not message.get("more_body", False)
        return message

    def let_go(self) -> None:
        """Say that what has arrived is no longer held."""
        self._bodies.let_go(self.held)
        self.held = 0


async def while_connected(receive: Receive, work: Awaitable[_Result]) -> _Result:
    """Do something for a client whose body has arrived; cancel it when the client leaves.

    Raises:
        ClientDisconnect: it has left.
    """
    task = asyncio.current_task()
    assert task is not None
    left = asyncio.create_task(_cancel_when_left(receive, task))
    try:
        result = await work
    except asyncio.CancelledError:
        if not left.done():
            raise  # the gateway stops
    finally:
        left.cancel()
    if left.done() and not left.cancelled():
        task.uncancel()
        raise ClientDisconnect
    return result


async def _cancel_when_left(receive: Receive, task: asyncio.Task[Any]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    task.cancel()


def _form_pairs(body: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            body.decode("utf-8"),
            keep_blank_values=True,
            max_num_fields=_MOST_FIELDS,
            errors="strict",
        )
    except ValueError as error:  # of UTF-8 too
        raise InvalidInput(f"the form cannot be read: {error}") from error


def _collected(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Values by name; a list where a name occurs more than once."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name not in found:
            found[name] = value
        elif isinstance(found[name], list):
            found[name].append(value)
        else:
            found[name] = [found[name], value]
    return found
