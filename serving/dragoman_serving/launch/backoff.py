"""The delay before a restart."""

from __future__ import annotations

_STEADY_S = 2.0
"""A server that ran at least this long is restarted immediately."""
_SHORT_RUNS = 10
"""This many shorter runs in a row are also followed by an immediate restart. After more, only the
first delay is used: an attacker who can crash Triton should not cause longer outages by repeating
it."""
_FIRST_S, _MOST_S = 0.2, 25.6


class Backoff:
    """The delay before each start, so that a crash loop does not spin."""

    def __init__(self) -> None:
        """Start with the smallest delay."""
        self._next_s = _FIRST_S
        self._short_runs = 0

    def delay_s(self, ran_s: float) -> float:
        """Returns the delay: 0 after a run, 0.2 s after many short runs.

        After a failed start, the delay is 0.2 s, doubling up to 25.6 s.

        Args:
            ran_s: how long the server ran; 0 if the start failed.
        """
        if ran_s > 0:
            self._next_s = _FIRST_S
            self._short_runs = 0 if ran_s >= _STEADY_S else self._short_runs + 1
            return 0.0 if self._short_runs <= _SHORT_RUNS else _FIRST_S
        delay_s = self._next_s
        self._next_s = min(2 * delay_s, _MOST_S)
        return delay_s
