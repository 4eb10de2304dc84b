"""The trace context and the id that the client sends with every request.

Source: https://www.w3.org/TR/trace-context/
"""

from __future__ import annotations

import sys
from contextvars import ContextVar

REQUEST_ID: ContextVar[str] = ContextVar("dragoman_request_id", default="")
"""Id of the current task's requests to Triton, for its logs and spans; empty: none."""


def trace_headers() -> dict[str, str]:
    """Returns `traceparent`, and `tracestate` if set, of OpenTelemetry's current span.

    Empty if there is no span, or if it is not sampled, since Triton would trace the request
    anyway. This function does not import OpenTelemetry: a program with spans has imported it.
    """
    if "opentelemetry.trace" not in sys.modules:
        return {}
    from opentelemetry.trace import get_current_span
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    headers: dict[str, str] = {}
    if get_current_span().get_span_context().trace_flags.sampled:
        TraceContextTextMapPropagator().inject(headers)
    return headers
