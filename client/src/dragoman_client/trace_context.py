"""The context of a trace, which goes to the server with every request.

Source: https://www.w3.org/TR/trace-context/
"""

from __future__ import annotations

import sys


def trace_headers() -> dict[str, str]:
    """`traceparent`, and `tracestate` if there is one, of OpenTelemetry's current span.

    Empty if there is no such span or if it is not sampled: Triton would trace the request all the
    same. A program that has spans has imported OpenTelemetry; for others it is not imported here.
    """
    if "opentelemetry.trace" not in sys.modules:
        return {}
    from opentelemetry.trace import get_current_span
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    headers: dict[str, str] = {}
    if get_current_span().get_span_context().trace_flags.sampled:
        TraceContextTextMapPropagator().inject(headers)
    return headers
