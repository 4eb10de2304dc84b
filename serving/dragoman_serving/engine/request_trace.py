"""The spans of one request in the engine's process: names, times and numbers, never texts."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from dragoman.kernel.errors import as_dragoman_error

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

PREFIX = "dragoman."
"""Of the names of our attributes."""


class RequestTrace:
    """A request's span, and the spans of its parts below it."""

    def __init__(self, tracer: Tracer, context: Context) -> None:
        """Begin the request's span now.

        Args:
            tracer: makes the spans.
            context: of the span above.
        """
        from opentelemetry import trace

        # Times of parts are of the monotonic clock, those of spans of the wall clock.
        self._offset_ns = time.time_ns() - time.monotonic_ns()
        self._tracer = tracer
        self._span = tracer.start_span("engine", context)
        self._below = trace.set_span_in_context(self._span)

    @property
    def trace_id(self) -> str:
        """As `traceparent` has it."""
        return f"{self._span.get_span_context().trace_id:032x}"

    def add(
        self,
        name: str,
        begin_s: float,
        end_s: float,
        attributes: Mapping[str, str | int],
        error: BaseException | None = None,
    ) -> None:
        """Add a part that has ended.

        Args:
            name: of its span.
            begin_s: on the clock of `time.monotonic`, like the next.
            end_s: when it ended.
            attributes: names without `PREFIX`, and values.
            error: how it failed.
        """
        span = self._tracer.start_span(
            name, self._below, attributes=_named(attributes), start_time=self._wall_ns(begin_s)
        )
        _end(span, error, self._wall_ns(end_s))

    def end(self, bundle: str = "", error: BaseException | None = None) -> None:
        """End the request's span now.

        Args:
            bundle: identity of the bundle that answered.
            error: how it failed.
        """
        if bundle:
            self._span.set_attribute(f"{PREFIX}bundle", bundle)
        _end(self._span, error)

    def _wall_ns(self, monotonic_s: float) -> int:
        return int(monotonic_s * 1e9) + self._offset_ns


def when_settled(futures: Sequence[Future[Any]], then: Callable[[], None]) -> None:
    """Call a function when all futures are done, whatever became of them."""
    done = itertools.count(1)  # atomic in CPython

    def count(_: Future[Any]) -> None:
        if next(done) == len(futures):
            then()

    for future in futures:
        future.add_done_callback(count)


def _named(attributes: Mapping[str, str | int]) -> dict[str, str | int]:
    return {PREFIX + name: value for name, value in attributes.items()}


def _end(span: Span, error: BaseException | None, end_ns: int | None = None) -> None:
    """End a span; of an error it gets the status, not the message, which may quote a text."""
    from opentelemetry.trace import StatusCode

    if error is not None:
        span.set_attribute("error.type", as_dragoman_error(error).status)
        span.set_status(StatusCode.ERROR)
    span.end(end_ns)
