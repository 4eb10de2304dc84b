"""JSON answers that may take longer than clients wait for the first byte."""

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
"""Time until the answer begins, and time between two spaces."""


async def late_answer(answer: Coroutine[Any, Any, Response]) -> Response:
    """Returns an answer that begins with spaces, which JSON allows, if it takes long.

    DeepL's clients time out after 10 s without a byte and retry up to six times. An error after the
    first space closes the connection, since the status has already been sent.

    Args:
        answer: makes a JSON answer; cancelled when the client disconnects.

    Raises:
        GatewayError: the answer failed before the first byte.
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
        # The server logs this exception, so it must not quote texts.
        raise ConnectionAbortedError(f"an answer failed late: {error.code}") from None
    except Exception as error:
        log_fault(_LOG, "an answer failed late", error)
        raise ConnectionAbortedError("an answer failed late: internal") from None
    finally:
        task.cancel()
