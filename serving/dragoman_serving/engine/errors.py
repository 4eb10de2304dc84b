"""Errors of the engine, with the status of a request that fails with each.

DragomanError
├── Overloaded         more work than can be done in time: try again later  (UNAVAILABLE)
├── Closed             the engine accepts no more sentences                 (UNAVAILABLE)
├── ModelUnavailable   the model cannot be loaded now                       (UNAVAILABLE)
├── DeadlineExceeded   the deadline has passed, or would pass               (CANCELLED)
└── EngineFailure      the engine failed; the request is not at fault       (INTERNAL)
"""

from __future__ import annotations

import math

from dragoman.kernel.errors import DragomanError


class Overloaded(DragomanError):
    """More work is waiting than the engine may hold, or can do before a request's deadline."""

    status = "UNAVAILABLE"

    def __init__(self, why: str, retry_after_s: float | None = None) -> None:
        """Write the message, with the time to retry.

        Args:
            why: the reason, in one line.
            retry_after_s: time after which a retry may succeed; None: unknown, one second.
        """
        super().__init__(f"{why}: try again in {max(1, math.ceil(retry_after_s or 0))} s")


class Closed(DragomanError):
    """The engine accepts no more sentences."""

    status = "UNAVAILABLE"


class ModelUnavailable(DragomanError):
    """The model cannot be loaded; others may be available."""

    status = "UNAVAILABLE"


class DeadlineExceeded(DragomanError):
    """The deadline passed before the translation was done, or would pass."""

    status = "CANCELLED"


class EngineFailure(DragomanError):
    """The engine failed; the request is not at fault."""
