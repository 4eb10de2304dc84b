"""Why the engine does not translate a sentence.

DragomanError
├── Overloaded         more work than can be done in time: try again later  (UNAVAILABLE)
├── Closed             the engine takes no more sentences                   (UNAVAILABLE)
├── ModelUnavailable   the model cannot be loaded now                       (UNAVAILABLE)
├── DeadlineExceeded   the deadline passed, or will before it is done       (CANCELLED)
└── EngineFailure      the engine broke, through no fault of the request    (INTERNAL)
"""

from __future__ import annotations

import math

from dragoman.kernel.errors import DragomanError


class Overloaded(DragomanError):
    """More work waits than the engine may hold, or can do before a request's deadline."""

    status = "UNAVAILABLE"

    def __init__(self, why: str, retry_after_s: float | None = None) -> None:
        """Say why, and when to try again.

        Args:
            why: the reason, in one line.
            retry_after_s: time after which another try may succeed; None: not known, one second.
        """
        super().__init__(f"{why}: try again in {max(1, math.ceil(retry_after_s or 0))} s")


class Closed(DragomanError):
    """The engine takes no more sentences."""

    status = "UNAVAILABLE"


class ModelUnavailable(DragomanError):
    """The model cannot be loaded; others may be well."""

    status = "UNAVAILABLE"


class DeadlineExceeded(DragomanError):
    """The deadline passed before the translation was done, or would pass before it can be."""

    status = "CANCELLED"


class EngineFailure(DragomanError):
    """The engine broke, through no fault of the request."""
