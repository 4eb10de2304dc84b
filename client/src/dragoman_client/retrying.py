"""Trying again, where that can help.

A translation changes nothing on the server, so that a request may be sent twice; but only what did
not reach a server that could answer is worth it: `ServerUnavailable`, and nothing else.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from dragoman_client.errors import ServerUnavailable

_Answer = TypeVar("_Answer")

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0


def with_retries(
    send: Callable[[float], _Answer],
    timeout_s: float,
    retries: int,
    sleep: Callable[[float], None] = time.sleep,
) -> _Answer:
    """Call until it is answered, with pauses that double, each of a random part of that length.

    So that clients which a server turned away together do not come back together.

    Args:
        send: makes a request that takes so many seconds at most.
        timeout_s: for all the tries together.
        retries: tries after the first.
        sleep: waits for so many seconds.

    Raises:
        ServerUnavailable: of the last try.

    Source: https://aws.amazon.com/builders-library/timeouts-retries-and-backoff-with-jitter/
    """
    deadline_s = time.monotonic() + timeout_s
    for number in range(retries + 1):
        try:
            return send(max(deadline_s - time.monotonic(), 1e-3))
        except ServerUnavailable:
            longest_s = min(_FIRST_PAUSE_S * 2**number, _LONGEST_PAUSE_S)
            pause_s = random.uniform(0, longest_s)  # noqa: S311  (no secret)
            if number == retries or time.monotonic() + pause_s >= deadline_s:
                raise
        sleep(pause_s)
    raise AssertionError("the last try returns or raises")
