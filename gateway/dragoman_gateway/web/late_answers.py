"""Answers in JSON that may take longer than clients wait for a first byte."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

from starlette.responses import Response, StreamingResponse

from dragoman_gateway.core.errors import GatewayError, log_fault
from dragoman_gateway.web.requests import JSON

_LOG = logging.getLogger(__name__)
_AT_ONCE = {"X-Accel-Buffering": "no"}
"""For NGINX, which would otherwise buffer the spaces until there are 4 KiB."""
FIRST_S, EACH_S = 5.0, 4.0
"""After which the answer begins, and between two spaces of it."""


async def late_answer(answer: Coroutine[Any, Any, Response]) -> Response:
    """An answer that begins with spaces if it takes long, which JSON allows.

    DeepL's clients time out after 10 s without a byte and send the request again, up to six times.
    An error after the first space closes the connection, since the status is sent.

    Args:
        answer: in JSON; it is cancelled when the client leaves.

    Raises:
        GatewayError: the answer failed before it began.
    """
    task = asyncio.create_task(answer)
    try:
        await asyncio.wait([task], timeout=FIRST_S)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if task.done():
        return await task
    return StreamingResponse(_spaced(task), headers=_AT_ONCE, media_type=JSON)


async def _spaced(task: asyncio.Task[Response]) -> AsyncGenerator[bytes, None]:
    try:
        while not task.done():
            yield b" "
            await asyncio.wait([task], timeout=EACH_S)
        yield bytes(task.result().body)
    except GatewayError as error:
        # The server logs this one, so it must not quote a text.
        raise ConnectionAbortedError(f"an answer failed late: {error.code}") from None
    except Exception as error:
        log_fault(_LOG, "an answer failed late", error)
        raise ConnectionAbortedError("an answer failed late: internal") from None
    finally:
        task.cancel()
