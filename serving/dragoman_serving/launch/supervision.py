"""Serving without end: what ends by itself is started again."""

from __future__ import annotations

import time

from dragoman.kernel.errors import DragomanError, UsageError
from dragoman_serving.launch.launcher import Ended, TritonServer
from dragoman_serving.launch.ports import PortInUse
from dragoman_serving.launch.serve_options import ServeOptions
from dragoman_serving.launch.triton_process import TritonCrashed

_STEADY_S = 2.0
"""A server that ran for so long before it ended is started again at once."""
_SHORT_RUNS = 10
"""Servers in a row that end sooner and are started again at once, too. Later ones wait for the
first delay: whoever can crash Triton should not get a longer outage by doing it again."""
_CRASHED_RUN_S = 0.001
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


def keep_serving(
    options: ServeOptions,
    *,
    restart: bool = True,
    follow_bundle: bool = False,
    settings: str = "",
) -> None:
    """Serve until an exception ends it, such as `Stopped`.

    Args:
        options: what to serve, and where.
        restart: start again, on the same ports, what ends by itself.
        follow_bundle: start again when the bundle can be run in another way, too.
        settings: those that are not the default, to be printed once it serves.

    Raises:
        UsageError: what is to be served, or where, cannot be.
        StartFailed: the first start failed.
        DragomanError: the server ended by itself, without `restart`.
    """
    backoff = Backoff()
    with TritonServer(options) as server:
        if settings:
            server.say(f"settings: {settings}")
        while True:
            begin_s = time.monotonic()
            server.say(f"ready: {server.http_url} and {server.grpc_url}")
            ended = server.wait(follow_bundle)
            if ended.is_failure and not restart:
                server.stop(drain=False)
                raise DragomanError(ended.reason)
            server.say(f"{ended.reason}; starting again")
            _start_again(server, ended, backoff, time.monotonic() - begin_s)


def _start_again(server: TritonServer, ended: Ended, backoff: Backoff, ran_s: float) -> None:
    if ended.is_failure:
        server.end_triton()  # without its engine it would answer with misleading errors
    while True:
        if delay_s := backoff.delay_s(ran_s):
            server.say(f"trying again in {delay_s:g} s")
            time.sleep(delay_s)
        try:
            server.start_again(anew=not ended.is_failure)
        except (DragomanError, OSError) as error:
            if isinstance(error, UsageError) and not isinstance(error, PortInUse):
                raise  # another start would not help
            server.say(f"the start failed: {error}")
            # A Triton that crashes while it starts is a short run: the engine is still loaded.
            ran_s = _CRASHED_RUN_S if isinstance(error, TritonCrashed) else 0.0
        else:
            return
