"""Trying again, where that can help.

A translation changes nothing on the server, so a request may be sent twice. Only a request that
did not reach a server able to answer is sent again: `ServerUnavailable`, and nothing else.
"""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from dragoman_client.errors import ServerUnavailable

_Answer = TypeVar("_Answer")

DEFAULT_RETRIES = 5
"""Their pauses take 1.6 to 3.1 s together, enough for a server that restarts."""
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0


async def with_retries(
    send: Callable[[float], Awaitable[_Answer]],
    timeout_s: float,
    retries: int,
    sleep: Callable[[float], Awaitable[object]],
) -> _Answer:
    """Call until it is answered.

    Pauses double, and each is a random one between half and all of that length: so that clients
    which a server turned away together do not come back together. What the server asks to wait
    comes on top.

    Args:
        send: makes a request that takes so many seconds at most.
        timeout_s: for all the tries together, pauses included.
        retries: tries after the first.
        sleep: waits for so many seconds.

    Raises:
        ServerUnavailable: of the last try.

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
            # A try with hardly any time left would end in a deadline that explains nothing.
            if failed == retries or time.monotonic() + pause_s + own_s >= deadline_s:
                raise
        failed += 1
        await sleep(pause_s)
