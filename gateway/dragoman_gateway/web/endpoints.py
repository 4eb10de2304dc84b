"""Endpoints of protocols, and the ASGI application that calls them."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Protocol

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import Receive, Scope, Send

from dragoman_gateway.access.access import Access
from dragoman_gateway.access.record import current_record
from dragoman_gateway.access.shares import Bodies
from dragoman_gateway.core.caller import NO_LIMITS, Caller
from dragoman_gateway.core.errors import (
    DiskFull,
    GatewayError,
    Internal,
    InvalidInput,
    KeyMissing,
    KeyRefused,
    NotFound,
    TooLarge,
    Unavailable,
    WrongMethod,
    is_disk_full,
    log_fault,
)
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.jobs.job_upload import JobUpload
from dragoman_gateway.web.body_encodings import check_not_encoded
from dragoman_gateway.web.body_limits import BoundedBody
from dragoman_gateway.web.requests import (
    FORM,
    FORM_BYTES,
    JSON,
    GatewayRequest,
    client_address,
    while_connected,
)

Handler = Callable[[GatewayRequest], Awaitable[Response]]
_LOG = logging.getLogger(__name__)
_KEYLESS_BYTES = 64 << 10
"""Maximum size of a body without a preceding key, if a key is required."""

_COUNTED = (400, 404, 408, 413, 415)
"""Statuses of refused requests that count for the limits of their caller."""


@dataclass(frozen=True)
class Endpoint:
    """A path with a method.

    Attributes:
        method: HTTP method.
        path: path with parameters in braces, as in Starlette; they are in `request.path_params`.
        handle: answers a request.
        reads_body: whether the handler reads the body itself as it arrives, for files.
        takes_forms: whether a body may be a form; otherwise it is JSON, whatever its content type.
    """

    method: str
    path: str
    handle: Handler
    reads_body: bool = False
    takes_forms: bool = True


class ProtocolPackage(Protocol):
    """The interface of a protocol."""

    @property
    def name(self) -> str:
        """Name for metrics and logs."""
        ...

    @property
    def endpoints(self) -> Sequence[Endpoint]:
        """The endpoints of the protocol."""
        ...

    def is_for(self, path: str) -> bool:
        """Whether a path belongs to the protocol, so that errors have its format."""
        ...

    @property
    def takes_keys_in_bodies(self) -> bool:
        """Whether its clients may send the key in the body."""
        ...

    def key_of(self, request: GatewayRequest) -> str | None:
        """Returns the key in the headers or the query of a request, or None."""
        ...

    def refuse(self, request: GatewayRequest, error: GatewayError) -> Response:
        """Returns an error in the protocol's format."""
        ...


class Dispatcher:
    """An ASGI application that finds the endpoint, reads the body and answers errors.

    When a client disconnects, the handler of its request is cancelled.
    """

    def __init__(
        self,
        protocols: Sequence[ProtocolPackage],
        access: Access,
        settings: GatewaySettings,
        bodies: Bodies,
        begin_upload: Callable[[], JobUpload],
    ) -> None:
        """Build the table of endpoints.

        Args:
            protocols: the protocols, asked in this order whether a path is theirs; the last one
                accepts every path.
            access: checks keys before a body is read.
            settings: settings with the limits of bodies.
            bodies: counts the bodies of all requests.
            begin_upload: begins to receive a file of a form.
        """
        self._protocols, self._access, self._settings = protocols, access, settings
        self._bodies, self._begin_upload = bodies, begin_upload
        self._exact: dict[str, dict[str, tuple[ProtocolPackage, Endpoint]]] = {}
        self._patterns: list[tuple[re.Pattern[str], ProtocolPackage, Endpoint]] = []
        for protocol in protocols:
            for endpoint in protocol.endpoints:
                if "{" in endpoint.path:
                    pattern, _, _ = compile_path(endpoint.path)
                    self._patterns.append((pattern, protocol, endpoint))
                else:
                    methods = self._exact.setdefault(endpoint.path, {})
                    methods[endpoint.method] = (protocol, endpoint)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        settings = self._settings
        body = BoundedBody(
            receive,
            settings.body_bytes,
            settings.upload_timeout_s,
            self._bodies,
            client_address(scope),
        )
        request = GatewayRequest(scope, body, send)
        request.bounded_body, request.begin_upload = body, self._begin_upload
        try:
            response = await self._response(request, body)
            if response is not None:
                await response(scope, receive, send)
        finally:
            await request.close()

    def refuse(self, method: str, path: str, error: GatewayError | None) -> Response:
        """Returns the answer to an unreadable request, in the format of the path's protocol.

        Args:
            method: method of the request, if known.
            path: path of the request, or "/" if unknown.
            error: the error; None: the HTTP method is unknown.
        """
        scope: Scope = {
            **{"type": "http", "method": method, "path": path},
            **{"headers": [], "query_string": b"", "request_id": os.urandom(12).hex()},
        }
        if error is None:
            try:
                self._find(path, scope)
            except GatewayError as unknown:
                error = unknown
        error = error or InvalidInput(f"{method} is not an HTTP method")
        return self._protocol_of(path).refuse(GatewayRequest(scope), error)

    def _protocol_of(self, path: str) -> ProtocolPackage:
        return next(protocol for protocol in self._protocols if protocol.is_for(path))

    async def _response(self, request: GatewayRequest, body: BoundedBody) -> Response | None:
        """Answer a request; None: its client has disconnected."""
        scope = request.scope
        protocol: ProtocolPackage | None = None
        try:
            if (refusal := scope.get("refusal")) is not None:
                raise refusal
            protocol, endpoint = self._find(scope["path"], scope)
            scope["protocol"], scope["endpoint_name"] = protocol.name, endpoint.path
            if request.has_body:
                await self._expect_body(request, body, protocol, endpoint)
            if endpoint.reads_body:
                check_not_encoded(request.content_encoding)
                return await endpoint.handle(request)
            await request.receive_content()
            return await while_connected(request.receive, endpoint.handle(request))
        except ClientDisconnect:
            return None
        except GatewayError as error:
            owner = protocol or self._owner(scope)
            return owner.refuse(request, await self._counted(request, owner, error))
        except Exception as error:
            name = f"{scope['method']} {scope.get('endpoint_name', '?')}"
            return (protocol or self._owner(scope)).refuse(request, _fault(name, error))

    def _owner(self, scope: Scope) -> ProtocolPackage:
        """The protocol of a request without an endpoint."""
        protocol = self._protocol_of(scope["path"])
        scope["protocol"] = protocol.name
        return protocol

    async def _expect_body(
        self,
        request: GatewayRequest,
        body: BoundedBody,
        protocol: ProtocolPackage,
        endpoint: Endpoint,
    ) -> None:
        """Set the maximum size of a body before it is read."""
        if endpoint.reads_body:
            body.bound(self._settings.file_bytes)
        elif (
            endpoint.takes_forms
            and request.media_type in ("", FORM)
            and self._settings.body_bytes > FORM_BYTES
        ):
            body.bound(
                FORM_BYTES,
                TooLarge(f"the form has more than {FORM_BYTES:,} bytes: send {JSON}, or less text"),
            )
        try:
            await request.identify(self._access, protocol.key_of(request), protocol.name)
        except KeyMissing as error:
            if not protocol.takes_keys_in_bodies:
                body.bound(_KEYLESS_BYTES, error)

    async def _counted(
        self, request: GatewayRequest, protocol: ProtocolPackage, error: GatewayError
    ) -> GatewayError:
        """Count a request for its caller's limits, if it was refused before its admission."""
        if error.status not in _COUNTED or "endpoint_name" not in request.scope:
            return error
        try:
            caller = request.caller or await self._access.caller(
                protocol.key_of(request), protocol.name, request.address
            )
        except (KeyMissing, KeyRefused, Unavailable):
            return error
        return await counted(self._access, caller, error)

    def _find(self, path: str, scope: Scope) -> tuple[ProtocolPackage, Endpoint]:
        """Find the endpoint of a path and a method."""
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        methods = self._exact.get(path, {})
        if not methods:
            for pattern, owner, endpoint in self._patterns:
                if matched := pattern.match(path):
                    methods = {**methods, endpoint.method: (owner, endpoint)}
                    scope["path_params"] = matched.groupdict()
        if method in methods:
            return methods[method]
        if methods:
            allowed = tuple(sorted(methods))
            raise WrongMethod(f"{path} takes {', '.join(allowed)}, not {scope['method']}", allowed)
        ending = path.rstrip("/") or "/"
        close = [known for known in self._exact if known.endswith(ending)]
        close = close or get_close_matches(path[:200], self._exact, n=1)
        hint = f": did you mean {' or '.join(close)}?" if close else ""
        raise NotFound(f"there is no {path[:200]}{hint}")


async def counted(access: Access, caller: Caller, error: GatewayError) -> GatewayError:
    """Count a request for its caller's limits, if it was refused before its admission.

    Returns:
        The error for the client: another one if the request is above a limit.
    """
    record = current_record()
    is_admitted = record is not None and record.is_admitted
    if error.status not in _COUNTED or is_admitted or caller.limits == NO_LIMITS:
        return error
    try:
        async with access.admitted(caller, 0):
            return error
    except Unavailable:
        return error
    except GatewayError as above:
        return above


def _fault(name: str, error: Exception) -> GatewayError:
    """Log an unexpected error of an endpoint; returns the error for the client."""
    log_fault(_LOG, name, error)
    return DiskFull() if is_disk_full(error) else Internal("the request failed: see the log")
