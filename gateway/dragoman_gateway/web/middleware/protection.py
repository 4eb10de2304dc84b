"""Middleware for all HTTP requests and answers.

Requests: headers of proxies, path prefix, request id, checks of host and origin. Answers: security
headers, CORS headers and rate-limit headers.

An error is stored in the scope as `refusal`, so that the dispatcher answers it in the format of the
path's protocol.
"""

from __future__ import annotations

import os
import re

from dragoman_client.core.trace_context import REQUEST_ID
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.kernel.errors import UsageError
from dragoman_gateway.access.access import Access
from dragoman_gateway.access.record import current_record
from dragoman_gateway.core.errors import GatewayError
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.web.forwarding import FORWARDED, Forwarding
from dragoman_gateway.web.middleware.origins import Origins
from dragoman_gateway.web.middleware.rates import rate_headers
from dragoman_gateway.web.operations import PATHS as OPERATIONS

_READ = FORWARDED | {
    *(b"host", b"origin", b"sec-fetch-site", b"sec-fetch-mode", b"x-request-id"),
    b"access-control-request-method",
}
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{8,128}")
_PREFIX = re.compile(r"(?:/[A-Za-z0-9._~-]+)*")
_ALWAYS = [(b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer")]
_UNLESS_GIVEN = [
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; base-uri 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
"""Answers contain private texts: no cache may store them, and no other page may embed them."""
_PREFLIGHT = [
    (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
    (b"access-control-allow-headers", b"Authorization, *"),  # "*" does not include it
    (b"access-control-allow-private-network", b"true"),
    (b"access-control-max-age", b"600"),
]


class Protection:
    """ASGI middleware; see the module."""

    def __init__(self, application: ASGIApp, access: Access, settings: GatewaySettings) -> None:
        """Wrap an application.

        Raises:
            UsageError: a setting is not valid.
        """
        self._application, self._access = application, access
        self._forwarding = Forwarding(settings.trusted_proxies)
        self._origins = Origins(settings)
        self._may_need_no_key = settings.anonymous or settings.is_local
        self._prefix = settings.path_prefix.rstrip("/")
        if not _PREFIX.fullmatch(self._prefix):
            raise UsageError(f"path_prefix: {settings.path_prefix!r}: give one such as /translate")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        headers: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            if name in _READ:
                headers[name] = headers[name] + b"," + value if name in headers else value
        request_id = self._begin(scope, headers)
        scope["request_id"] = request_id.decode()
        REQUEST_ID.set(scope["request_id"])  # of requests to Triton
        origin = headers.get(b"origin")
        if (
            origin is not None
            and scope["method"] == "OPTIONS"
            and b"access-control-request-method" in headers
            and self._origins.allows(origin)
        ):
            return await self._answer_preflight(scope, origin, request_id, send)
        if (refusal := await self._refusal(scope, headers)) is not None:
            scope["refusal"] = refusal
        record = current_record()

        async def answer(message: Message) -> None:
            if message["type"].endswith("http.response.start"):
                answer_headers = message["headers"] = [*message.get("headers", ()), *_ALWAYS]
                names = {pair[0] for pair in answer_headers}
                answer_headers.append((b"x-request-id", request_id))
                answer_headers += [pair for pair in _UNLESS_GIVEN if pair[0] not in names]
                answer_headers += self._origins.answer_headers(origin)
                if record is not None and record.limit_status is not None:
                    answer_headers += rate_headers(record.limit_status, record.month_left_s)
            await send(message)

        await self._application(scope, receive, answer)

    def without_prefix(self, path: str) -> str:
        """Returns a path as in endpoints, for a request without a proxy's headers."""
        return _without(self._prefix, path)

    def _begin(self, scope: Scope, headers: dict[bytes, bytes]) -> bytes:
        """Apply proxy headers and the prefix to the scope; returns the request's id."""
        request_id = b""
        client = scope.get("client")
        scope["root_path"] = self._prefix
        if client is not None and self._forwarding.trusts(client[0]):
            self._forwarding.apply(scope, headers)
            request_id = headers.get(b"x-request-id", b"")
        scope["path"] = _without(scope["root_path"], scope["path"])
        if not _REQUEST_ID.fullmatch(request_id):
            request_id = os.urandom(12).hex().encode()
        return request_id

    async def _refusal(self, scope: Scope, headers: dict[bytes, bytes]) -> GatewayError | None:
        if scope["path"] in OPERATIONS:  # even if the store fails
            return self._origins.refusal(scope["method"], headers, self._may_need_no_key, False)
        try:
            is_open = await self._access.is_open()
            needs_no_key = is_open or await self._access.needs_no_key()
        except GatewayError as error:
            return error
        has_query = bool(scope["query_string"]) and scope["path"] != "/"
        return self._origins.refusal(
            scope["method"], headers, needs_no_key, is_open, has_query=has_query
        )

    async def _answer_preflight(
        self, scope: Scope, origin: bytes, request_id: bytes, send: Send
    ) -> None:
        scope["protocol"] = "preflight"
        headers = [
            *self._origins.answer_headers(origin),
            *_PREFLIGHT,
            *_ALWAYS,
            (b"x-request-id", request_id),
        ]
        await send({"type": "http.response.start", "status": 204, "headers": headers})
        await send({"type": "http.response.body"})


def _without(prefix: str, path: str) -> str:
    """Removes a prefix of whole segments from a path, if it has it."""
    if prefix and path.startswith(prefix) and path[len(prefix) :][:1] in ("", "/"):
        return path[len(prefix) :] or "/"
    return path
