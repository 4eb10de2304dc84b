"""A span for each HTTP request that is traced; what the server behind does is below it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from starlette.types import ASGIApp, Receive, Scope, Send

from dragoman.kernel.tracing import TRACEPARENT, TRACESTATE, Tracing, sampled_context
from dragoman_gateway.core.record import RequestRecord, current_record
from dragoman_gateway.web.forwarding import Networks
from dragoman_gateway.web.operations import PATHS as OPERATIONS

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

_CARRIERS = {name.encode(): name for name in (TRACEPARENT, TRACESTATE)}
_FAULT = 500


class Traced:
    """An ASGI application around another one.

    A trace context is continued if it comes from a network that may bring one: strangers could else
    have all their requests traced.
    """

    def __init__(self, application: ASGIApp, tracing: Tracing, networks: Sequence[str]) -> None:
        """Begin.

        Args:
            application: that answers.
            tracing: makes the spans.
            networks: that may bring a trace context.

        Raises:
            UsageError: one is no network.
        """
        self._application, self._tracing = application, tracing
        self._trusts = functools.lru_cache(4096)(Networks("trace_networks", networks).have)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        context = self._context(scope)
        if context is None:
            return await self._application(scope, receive, send)
        await self._trace(context, scope, receive, send)

    def _context(self, scope: Scope) -> Context | None:
        """What a request's span is below, maybe nothing; None: it is not traced."""
        if scope["path"] in OPERATIONS:
            return None
        carrier = {
            _CARRIERS[name]: value.decode("latin-1")
            for name, value in scope["headers"]
            if name in _CARRIERS
        }
        client = scope.get("client")
        if TRACEPARENT in carrier and client is not None and self._trusts(client[0]):
            return sampled_context(carrier)
        return self._tracing.sample()

    async def _trace(self, context: Context, scope: Scope, receive: Receive, send: Send) -> None:
        from opentelemetry.trace import SpanKind

        with self._tracing.tracer.start_as_current_span(
            scope["method"],
            context,
            SpanKind.SERVER,
            record_exception=False,  # its message may quote a text
            set_status_on_exception=False,
        ) as span:
            if (record := current_record()) is not None:
                record.trace_id = f"{span.get_span_context().trace_id:032x}"
            try:
                await self._application(scope, receive, send)
            finally:
                _describe(span, scope, record)


def _describe(span: Span, scope: Scope, record: RequestRecord | None) -> None:
    """Give a span what is known of its request at the end."""
    from opentelemetry.trace import StatusCode

    attributes: dict[str, Any] = {
        "http.request.method": scope["method"],
        "dragoman.request_id": scope["request_id"],
        "dragoman.protocol": scope.get("protocol", "none"),
    }
    if record is not None:
        attributes["http.response.status_code"] = record.status
        attributes["dragoman.characters"] = record.characters
        if record.status >= _FAULT:
            span.set_status(StatusCode.ERROR)
    if (route := scope.get("endpoint_name")) is not None:
        span.update_name(f"{scope['method']} {route}")
        attributes["http.route"] = route
    span.set_attributes(attributes)
