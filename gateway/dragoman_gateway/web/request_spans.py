"""A span for each request that is traced; what the server behind does is below it."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Receive, Scope, Send

from dragoman.kernel.tracing import TRACEPARENT, TRACESTATE, Tracing, sampled_context
from dragoman_gateway.core.record import current_record
from dragoman_gateway.web.forwarding import Networks
from dragoman_gateway.web.operations import PATHS as OPERATIONS

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

_CARRIERS = {name.encode(): name for name in (TRACEPARENT, TRACESTATE)}
_FAULT = 500


class RequestSpans:
    """Makes the spans.

    A trace context is continued if it comes from a network that may bring one: strangers could else
    have all their requests traced.
    """

    def __init__(self, tracing: Tracing, networks: Sequence[str]) -> None:
        """Begin.

        Args:
            tracing: makes spans.
            networks: that may bring a trace context.

        Raises:
            UsageError: one is no network.
        """
        self._tracing = tracing
        self._trusts = functools.lru_cache(4096)(Networks("trace_networks", networks).have)

    def span(
        self, name: str, protocol: str, carrier: Mapping[str, str], address: str
    ) -> AbstractContextManager[Span | None]:
        """The span around what answers a request; None: it is not traced.

        Args:
            name: of it.
            protocol: name of the protocol.
            carrier: headers, of which those of a trace context are read.
            address: of the client.
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
    """An ASGI application around another one."""

    def __init__(self, application: ASGIApp, spans: RequestSpans) -> None:
        """Begin.

        Args:
            application: that answers.
            spans: makes the spans of its requests.
        """
        self._application, self._spans = application, spans

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["path"] in OPERATIONS:
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
    """Give a span what is known of its request at the end."""
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
