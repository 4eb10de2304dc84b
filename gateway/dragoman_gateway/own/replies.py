"""Answers of this API: JSON with the request's id, and errors in one shape."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from dragoman_gateway.core.errors import GatewayError, KeyMissing, WrongMethod
from dragoman_gateway.own.answers import error_answer
from dragoman_gateway.own.shapes import Refusal
from dragoman_gateway.web.requests import JSON, GatewayRequest
from dragoman_gateway.web.responses import error_headers

NO_STORE = {"cache-control": "no-store"}
"""Answers hold what people wrote: no cache on the way may keep them."""


def reply(
    body: object, status: int = 200, headers: Mapping[str, str] = NO_STORE, media_type: str = JSON
) -> Response:
    """An answer in JSON."""
    return Response(msgspec.json.encode(body), status, dict(headers), media_type)


def refusal_of(request: GatewayRequest, error: GatewayError) -> Refusal:
    """An error in the shape of this API."""
    return Refusal(error_answer(error), request.request_id)


def refuse(request: GatewayRequest, error: GatewayError) -> Response:
    """The answer to a request that failed.

    OPTIONS is no method of any endpoint, but asks for them.
    """
    headers = {**NO_STORE, **error_headers(error)}
    if isinstance(error, WrongMethod):
        headers["Allow"] = ", ".join(_allowed(error.allowed))
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=headers)
    if isinstance(error, KeyMissing):
        headers["www-authenticate"] = "Bearer"
    return reply(refusal_of(request, error), error.status, headers)


def _allowed(methods: tuple[str, ...]) -> list[str]:
    head = {"HEAD"} if "GET" in methods else set()
    return sorted({*methods, *head, "OPTIONS"})
