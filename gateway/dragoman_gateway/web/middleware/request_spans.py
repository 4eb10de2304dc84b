"""OpenTelemetry spans of traced requests; the spans of the server behind are their children."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Receive, Scope, Send

from dragoman.kernel.tracing import TRACEPARENT, TRACESTATE, Tracing, sampled_context
from dragoman_gateway.access.record import current_record
from dragoman_gateway.web.forwarding import Networks
from dragoman_gateway.web.operations import PATHS as OPERATIONS

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

_CARRIERS = {name.encode(): name for name in (TRACEPARENT, TRACESTATE)}
_FAULT = 500


class RequestSpans:
    """Makes the spans of requests.

    A trace context is only accepted from trusted networks; otherwise any client could have all its
    requests traced.
    """

    def __init__(self, tracing: Tracing, networks: Sequence[str]) -> None:
        """Prepare.

        Args:
            tracing: makes spans.
            networks: networks whose trace context is accepted.

        Raises:
            UsageError: a network is not valid.
        """
        self._tracing = tracing
        self._trusts = functools.lru_cache(4096)(Networks("trace_networks", networks).have)

    def span(
        self, name: str, protocol: str, carrier: Mapping[str, str], address: str
    ) -> AbstractContextManager[Span | None]:
        """Returns the span around the handling of a request; None: it is not traced.

        Args:
            name: name of the span.
            protocol: name of the protocol.
            carrier: headers, which may have a trace context.
            address: address of the client.
        """
        if TRACEPARENT in carrier and self._trusts(address):
            context = sampled_context(carrier)
        else:
            context = self._tracing.sample()
        return nullcontext() if context is None else self._begin(name, protocol, context)

    @contextmanager
    def _begin(self, name: str, protocol: str, context: Context) -> Iterator[Span]:
        from opentelemetry.trace import SpanKind, StatusCode

        with self._tracing.tracer.start_as_current_span(
            name,
            context,
            SpanKind.SERVER,
            attributes={"dragoman.protocol": protocol},
            record_exception=False,  # its message may quote a text
            set_status_on_exception=False,
        ) as span:
            record = current_record()
            if record is not None:
                record.trace_id = f"{span.get_span_context().trace_id:032x}"
            try:
                yield span
            finally:
                if record is not None:
                    span.set_attribute("http.response.status_code", record.status)
                    span.set_attribute("dragoman.characters", record.characters)
                    if record.status >= _FAULT:
                        span.set_status(StatusCode.ERROR)


class Traced:
    """ASGI middleware that traces requests, but no WebSocket, which may be open for hours."""

    def __init__(self, application: ASGIApp, spans: RequestSpans) -> None:
        """Wrap an application.

        Args:
            application: the application that answers.
            spans: makes the spans of its requests.
        """
        self._application, self._spans = application, spans

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["path"] in OPERATIONS or scope["type"] == "websocket":
            return await self._application(scope, receive, send)
        carrier = {
            _CARRIERS[name]: value.decode("latin-1")
            for name, value in scope["headers"]
            if name in _CARRIERS
        }
        address = (scope.get("client") or ("",))[0]
        with self._spans.span(scope["method"], "none", carrier, address) as span:
            try:
                await self._application(scope, receive, send)
            finally:
                if span is not None:
                    _describe(span, scope)


def _describe(span: Span, scope: Scope) -> None:
    """Add the attributes of a request to its span, at the end."""
    span.set_attributes(
        {
            "http.request.method": scope["method"],
            "dragoman.request_id": scope["request_id"],
            "dragoman.protocol": scope.get("protocol", "none"),
        }
    )
    if (route := scope.get("endpoint_name")) is not None:
        span.update_name(f"{scope['method']} {route}")
        span.set_attribute("http.route", route)
