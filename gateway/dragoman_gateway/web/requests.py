"""HTTP requests, with limits on the size and the time of their bodies."""

from __future__ import annotations

import asyncio
import re
from binascii import a2b_qp
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, BinaryIO, TypeVar, cast

import msgspec
from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope

from dragoman_gateway.access.access import Access
from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.errors import InvalidInput, WrongMediaType
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.jobs.job_upload import JobUpload
from dragoman_gateway.web.body_encodings import (
    UTF_8,
    decompressed,
    encoding_of,
    form_encoding,
    in_utf_8,
)
from dragoman_gateway.web.body_limits import BoundedBody

_Shape = TypeVar("_Shape")
_Result = TypeVar("_Result")
_MOST_FIELDS = 10_000
"""Maximum number of fields in a form."""
_MOST_FILES = 10
_MOST_PART_BYTES = 8 << 20
"""Maximum size of a field that is not a file."""
FORM_BYTES = 2 << 20
"""Maximum size of a URL-encoded form; a longer text is sent as JSON, which is read faster."""
_SHORT_BYTES = 16 << 10
"""A form up to this size is decoded in the event loop."""
_MOST_STRAY = 10_000
_STRAY_PERCENT = re.compile(rb"%(?![0-9A-Fa-f]{2})")
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
JSON = "application/json"


class GatewayRequest(Request):
    """A request with its body.

    Attributes:
        media_type: content type without its parameters, in lower case.
        content: the body; empty if the endpoint reads it itself.
        caller: the sender; None: not identified yet.
        identified_by: the key and the protocol by which it was identified.
        bounded_body: counts the body as it arrives; None: the request has no body.
        begin_upload: begins to receive a file of a form.
    """

    content: bytes = b""
    caller: Caller | None = None
    identified_by: tuple[str | None, str] | None = None
    bounded_body: BoundedBody | None = None
    begin_upload: Callable[[], JobUpload]
    _uploads: Sequence[JobUpload] = ()

    def __init__(self, scope: Scope, *more: Any) -> None:
        """See Starlette, in whose headers a look-up compares the names one by one."""
        super().__init__(scope, *more)
        self._by_name: dict[bytes, bytes] = dict(reversed(scope["headers"]))
        kind = self.header(b"content-type")
        self.media_type = kind.partition(";")[0].strip().lower()

    def header(self, name: bytes) -> str:
        """Returns the first header with a name in lower case; empty: none."""
        return str(self._by_name.get(name, b""), "latin-1")

    @property
    def address(self) -> str:
        """Network address of the client, behind trusted proxies."""
        return client_address(self.scope)

    @property
    def request_id(self) -> str:
        """The id of the request, as in the header `X-Request-ID` of its answer."""
        request_id: str = self.scope["request_id"]
        return request_id

    @property
    def has_body(self) -> bool:
        """Whether the request has a body."""
        headers = self._by_name
        return headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers

    @property
    def bearer(self) -> str | None:
        """The token of the header `Authorization: Bearer`, or None."""
        scheme, _, token = self.header(b"authorization").partition(" ")
        return token.strip() or None if scheme.lower() == "bearer" else None

    @property
    def charset(self) -> str | None:
        """The charset of the content type."""
        written = self.header(b"content-type")
        if ";" not in written:
            return None
        _, parameters = parse_options_header(written)
        charset = parameters.get(b"charset")
        return None if charset is None else charset.decode("latin-1").strip()

    @property
    def content_encoding(self) -> str:
        """The header `Content-Encoding`, in lower case; empty: none."""
        if b"content-encoding" not in self._by_name:
            return ""
        return ",".join(self.headers.getlist("content-encoding")).strip().lower()

    async def identify(self, access: Access, secret: str | None, protocol: str) -> Caller:
        """Identify the sender, and whether the cache may be used.

        If the key was checked before the body, it is not checked again after it.

        Args:
            access: access control with the keys.
            secret: the key in the request; None or empty: no key.
            protocol: name of the protocol.

        Raises:
            KeyMissing: a key is required.
            KeyRefused: the key is not valid for this.
            TooManyRequests: the bodies of the caller's requests are too large together.
            Unavailable: all bodies together are too large.
        """
        if self.caller is None or self.identified_by != (secret, protocol):
            caller = await access.caller(secret, protocol, self.address)
            if self.bounded_body is not None:
                self.bounded_body.charge(caller)
            self.caller, self.identified_by = caller, (secret, protocol)
        cache_control = self.header(b"cache-control")
        return self.caller.obeying(cache_control) if cache_control else self.caller

    async def receive_content(self) -> None:
        """Receive the body, decompress it, and convert it to UTF-8 if it is not a form.

        Raises:
            GatewayError: it is too large or late, or its encoding or charset is not supported.
        """
        parts, is_whole = [], False
        while not is_whole:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            parts.append(message.get("body", b""))
            is_whole = not message.get("more_body", False)
        content = self._body = b"".join(parts)
        if not content:
            return
        if (encoding := self.content_encoding) and self.bounded_body is not None:
            # In a thread: a small body may become large.
            content = await asyncio.to_thread(
                decompressed, content, encoding, self.bounded_body.hold_decompressed
            )
        if self.media_type not in (FORM, MULTIPART):
            content = in_utf_8(content, self.charset)
        self.content = content

    def read_json(self, shape: type[_Shape]) -> _Shape:
        """Parse the body as a msgspec type.

        Raises:
            InvalidInput: it is not JSON, or does not have the type; the message names the field.
        """
        try:
            return msgspec.json.decode(self.content, type=shape)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidInput(f"the body is not valid: {error}") from error

    async def read_fields(self) -> dict[str, Any]:
        """Read the fields of the query and of the body, which is a JSON object or a form.

        Returns:
            Values by name. A value from JSON has any type. A value from a form is a text or a file,
            or a list of these if the name is repeated. The body takes precedence over the query.

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
                f"content type {self.media_type[:60]!r} is not supported: send {JSON} or {FORM}"
            )
        encoding = form_encoding(self.charset)
        if len(self.content) <= _SHORT_BYTES:
            return fields | _collected(_form_pairs(self.content, encoding))
        return fields | _collected(await asyncio.to_thread(_form_pairs, self.content, encoding))

    async def _multipart_fields(self) -> dict[str, Any]:
        if self.charset is not None:
            encoding_of(self.charset, frozenset((UTF_8,)))
        try:
            async with aclosing(self.stream()) as stream:
                parser = _UploadParser(
                    self.headers,
                    stream,
                    max_files=_MOST_FILES,
                    max_fields=_MOST_FIELDS,
                    max_part_size=_MOST_PART_BYTES,
                )
                parser.begin_upload, self._uploads = self.begin_upload, parser.uploads
                if self.bounded_body is not None:
                    parser.move_to_file = self.bounded_body.move_to_file
                form = await parser.parse()
        except (MultiPartException, UnicodeDecodeError) as error:
            raise InvalidInput(f"the form cannot be read: {error}") from error
        return _collected(form.multi_items())

    async def close(self) -> None:
        """Remove uploaded files that no job keeps, and release the bytes of the body."""
        for upload in self._uploads:
            await asyncio.to_thread(upload.close)
        if self.bounded_body is not None:
            self.bounded_body.let_go()


class _UploadParser(MultiPartParser):
    """Parses a form with files, which are written to disk as they arrive.

    Attributes:
        uploads: the files so far.
        begin_upload: begins to receive a file.
        move_to_file: called with the size of each part of a file.
    """

    begin_upload: Callable[[], JobUpload]
    move_to_file: Callable[[int], None] | None = None

    def __init__(self, *values: Any, **more: Any) -> None:
        super().__init__(*values, **more)
        self.uploads: list[JobUpload] = []

    def on_headers_finished(self) -> None:
        """See Starlette, whose file would be copied into the folder of a job."""
        super().on_headers_finished()
        if self._current_part.file is not None:
            self.uploads.append(self.begin_upload())
            self._current_part.file.file = cast(BinaryIO, self.uploads[-1])

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        """See Starlette."""
        super().on_part_data(data, start, end)
        if self._current_part.file is not None and self.move_to_file is not None:
            self.move_to_file(end - start)


def client_address(scope: Scope) -> str:
    """Returns the network address of a client, behind trusted proxies; empty if unknown."""
    client = scope.get("client")
    return client[0] if client else ""


def public_url(request: GatewayRequest, settings: GatewaySettings) -> str:
    """Returns the gateway's URL without a trailing slash, from the settings or the request."""
    return (settings.public_url or str(request.base_url)).rstrip("/")


def upload_of(file: UploadFile) -> JobUpload:
    """Returns a file of a form, for a job."""
    return cast(JobUpload, file.file)


async def while_connected(receive: Receive, work: Awaitable[_Result]) -> _Result:
    """Await work for a client whose body has arrived; cancel it when the client disconnects.

    Raises:
        ClientDisconnect: the client has disconnected.
    """
    task = asyncio.current_task()
    assert task is not None
    left = asyncio.create_task(_cancel_when_left(receive, task))
    try:
        result = await work
    except asyncio.CancelledError:
        if not left.done():
            raise  # the gateway shuts down
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


def _form_pairs(body: bytes, encoding: str) -> list[tuple[str, str]]:
    """Decode a URL-encoded form."""
    if body.count(b"&") >= _MOST_FIELDS:
        raise InvalidInput(f"the form has more than {_MOST_FIELDS:,} fields")
    if b"%" in body:
        body, stray = _STRAY_PERCENT.subn(b"%25", body, count=_MOST_STRAY)
        if stray == _MOST_STRAY:
            raise InvalidInput(
                f"the form has {stray:,} percent signs without two hexadecimal digits: "
                "write each as %25"
            )
    pairs = (pair.partition(b"=") for pair in body.split(b"&") if pair)
    try:
        return [(_decoded(name, encoding), _decoded(value, encoding)) for name, _, value in pairs]
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the form cannot be read: {error}") from error


def _decoded(written: bytes, encoding: str) -> str:
    """Decode a name or value whose percent signs all have two hexadecimal digits.

    In quoted-printable encoding `=` stands for `%`, and binascii decodes that in C: a loop in
    Python would hold up other requests.
    """
    quoted = written.replace(b"+", b" ").replace(b"=", b"%3D").replace(b"%", b"=")
    return a2b_qp(quoted).decode(encoding)


def _collected(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns values by name; a list if a name is repeated."""
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name not in values:
            values[name] = value
        elif isinstance(values[name], list):
            values[name].append(value)
        else:
            values[name] = [values[name], value]
    return values
