"""How long to wait before what ended is started again."""

from __future__ import annotations

_STEADY_S = 2.0
"""A server that ran for so long before it ended is started again at once."""
_SHORT_RUNS = 10
"""Servers in a row that end sooner and are started again at once, too. Later ones wait for the
first delay: whoever can crash Triton should not get a longer outage by doing it again."""
_FIRST_S, _MOST_S = 0.2, 25.6


class Backoff:
    """How long to wait before a start, so that a crash loop does not spin."""

    def __init__(self) -> None:
        """Begin without a start."""
        self._next_s = _FIRST_S
        self._short_runs = 0

    def delay_s(self, ran_s: float) -> float:
        """Seconds until the next start: none after a run, 0.2 s after many short ones.

        After a start that failed, it is 0.2 s, doubling up to 25.6 s.

        Args:
            ran_s: how long the server ran before it ended; 0 if it did not start.
        """
        if ran_s > 0:
            self._next_s = _FIRST_S
            self._short_runs = 0 if ran_s >= _STEADY_S else self._short_runs + 1
            return 0.0 if self._short_runs <= _SHORT_RUNS else _FIRST_S
        delay_s = self._next_s
        self._next_s = min(2 * delay_s, _MOST_S)
        return delay_s
