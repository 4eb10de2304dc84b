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


class Tries:
    """The tries of one request: how long each may take, and the pauses between them.

    Pauses double, and each is a random one between half and all of that length: so that clients
    which a server turned away together do not come back together. What the server asks to wait
    comes on top.

    Source: https://aws.amazon.com/builders-library/timeouts-retries-and-backoff-with-jitter/
    """

    def __init__(self, timeout_s: float, retries: int) -> None:
        """Begin.

        Args:
            timeout_s: for all the tries together, pauses included.
            retries: tries after the first.
        """
        self._deadline_s = time.monotonic() + timeout_s
        self._retries = retries
        self._failed = 0

    @property
    def left_s(self) -> float:
        """Time that is left for a try."""
        return max(self._deadline_s - time.monotonic(), 1e-3)

    def pause_s(self, error: ServerUnavailable) -> float:
        """How long to wait after a try that failed.

        Raises:
            ServerUnavailable: that error, if there is to be no other try.
        """
        longest_s = min(_FIRST_PAUSE_S * 2**self._failed, _LONGEST_PAUSE_S)
        pause_s = random.uniform(longest_s / 2, longest_s)  # noqa: S311  (no secret)
        pause_s += error.retry_after_s or 0.0
        if self._failed == self._retries or time.monotonic() + pause_s >= self._deadline_s:
            raise error
        self._failed += 1
        return pause_s


async def with_retries(
    send: Callable[[float], Awaitable[_Answer]],
    tries: Tries,
    sleep: Callable[[float], Awaitable[object]],
) -> _Answer:
    """Call until it is answered.

    Args:
        send: makes a request that takes so many seconds at most.
        tries: how often.
        sleep: waits for so many seconds.

    Raises:
        ServerUnavailable: of the last try.
    """
    while True:
        try:
            return await send(tries.left_s)
        except ServerUnavailable as error:
            pause_s = tries.pause_s(error)
        await sleep(pause_s)
