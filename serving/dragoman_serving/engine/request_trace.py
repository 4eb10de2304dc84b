"""The spans of one request in the engine process: names, times and numbers, never texts."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dragoman.kernel.errors import as_dragoman_error
from dragoman_serving.engine.futures import Future

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

PREFIX = "dragoman."
"""Prefix of the names of our attributes."""


class RequestTrace:
    """A request's span, with child spans for its parts."""

    def __init__(self, tracer: Tracer, context: Context) -> None:
        """Start the request's span.

        Args:
            tracer: makes the spans.
            context: context of the parent span.
        """
        from opentelemetry import trace

        # Parts are timed with the monotonic clock, spans use the wall clock.
        self._offset_ns = time.time_ns() - time.monotonic_ns()
        self._tracer = tracer
        self._span = tracer.start_span("engine", context)
        self._below = trace.set_span_in_context(self._span)

    @property
    def trace_id(self) -> str:
        """The trace id, in the format of `traceparent`."""
        return f"{self._span.get_span_context().trace_id:032x}"

    def add(
        self,
        name: str,
        begin_s: float,
        end_s: float,
        attributes: Mapping[str, str | int],
        error: BaseException | None = None,
    ) -> None:
        """Add the span of a finished part.

        Args:
            name: name of the span.
            begin_s: its start, on the clock of `time.monotonic`.
            end_s: its end, on the same clock.
            attributes: names without `PREFIX`, and values.
            error: the error of a failed part.
        """
        span = self._tracer.start_span(
            name, self._below, attributes=_named(attributes), start_time=self._wall_ns(begin_s)
        )
        _end(span, error, self._wall_ns(end_s))

    def end(self, bundle: str = "", error: BaseException | None = None) -> None:
        """End the request's span.

        Args:
            bundle: identity of the bundle that answered.
            error: the error of a failed request.
        """
        if bundle:
            self._span.set_attribute(f"{PREFIX}bundle", bundle)
        _end(self._span, error)

    def _wall_ns(self, monotonic_s: float) -> int:
        return int(monotonic_s * 1e9) + self._offset_ns


def when_settled(futures: Sequence[Future[Any]], then: Callable[[], None]) -> None:
    """Call a function when all futures are done, successfully or not."""
    done = itertools.count(1)  # atomic in CPython

    def count(_: Future[Any]) -> None:
        if next(done) == len(futures):
            then()

    for future in futures:
        future.add_done_callback(count)


def _named(attributes: Mapping[str, str | int]) -> dict[str, str | int]:
    return {PREFIX + name: value for name, value in attributes.items()}


def _end(span: Span, error: BaseException | None, end_ns: int | None = None) -> None:
    """End a span; only the status of an error is added, because its message may quote a text."""
    from opentelemetry.trace import StatusCode

    if error is not None:
        span.set_attribute("error.type", as_dragoman_error(error).status)
        span.set_status(StatusCode.ERROR)
    span.end(end_ns)
