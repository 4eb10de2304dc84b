"""When a request's answer is wanted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Urgency:
    """When a request's answer is wanted.

    Of two that wait, the one of higher `priority` goes first. After `deadline_s`, on the clock of
    `time.monotonic`, it is not wanted any more.
    """

    priority: int = 0
    deadline_s: float | None = None


DEFAULT_URGENCY = Urgency()
