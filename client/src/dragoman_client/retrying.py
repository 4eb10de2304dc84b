"""Retries of requests.

A translation changes nothing on the server, so it is safe to send a request twice. Only
`ServerUnavailable` is retried: no server was able to answer.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from dragoman_client.core.errors import ServerUnavailable

_Answer = TypeVar("_Answer")

DEFAULT_RETRIES = 5
"""The pauses take 1.6 to 3.1 s in total, enough for a server restart."""
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0


async def with_retries(
    send: Callable[[float], Awaitable[_Answer]],
    timeout_s: float,
    retries: int,
    sleep: Callable[[float], Awaitable[object]],
) -> _Answer:
    """Send a request, and retry it until it is answered.

    The maximum pause doubles with each retry, and a pause is a random value between half of it and
    all of it: clients that a server refused at the same time do not all come back at the same
    time. The time that the server asks to wait is added to the pause.

    Args:
        send: sends the request; its argument is the timeout in seconds.
        timeout_s: timeout for all attempts together, including pauses.
        retries: number of attempts after the first.
        sleep: waits for the given number of seconds.

    Raises:
        ServerUnavailable: the error of the last attempt.

    Source: https://aws.amazon.com/builders-library/timeouts-retries-and-backoff-with-jitter/
    """
    deadline_s = time.monotonic() + timeout_s
    failed = 0
    while True:
        try:
            return await send(max(deadline_s - time.monotonic(), 1e-3))
        except ServerUnavailable as error:
            longest_s = min(_FIRST_PAUSE_S * 2**failed, _LONGEST_PAUSE_S)
            own_s = random.uniform(longest_s / 2, longest_s)  # noqa: S311  (no secret)
            pause_s = own_s + (error.retry_after_s or 0.0)
            # An attempt with hardly any time left would raise `DeadlineExceeded`, which hides the
            # cause.
            if failed == retries or time.monotonic() + pause_s + own_s >= deadline_s:
                raise
        failed += 1
        await sleep(pause_s)
