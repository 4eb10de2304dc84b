"""Retries of requests to Triton while it restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from dragoman_client import ServerUnavailable

_Answer = TypeVar("_Answer")
_PAUSES_S = (0.1, 0.2, 0.4)
"""The pause before each retry."""


async def with_retries(send: Callable[[], Awaitable[_Answer]]) -> _Answer:
    """Send a request, and retry it if Triton cannot be reached.

    Overload is not retried: the gateway's client has its own retries, and the answer says when to
    try again.

    Args:
        send: sends the request once.
    """
    for pause_s in _PAUSES_S:
        try:
            return await send()
        except ServerUnavailable as error:
            if error.retry_after_s is not None:
                raise
        await asyncio.sleep(pause_s)
    return await send()
