"""Answers in JSON that may take longer than clients wait for a first byte."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

from starlette.responses import Response, StreamingResponse

from dragoman_gateway.core.errors import GatewayError
from dragoman_gateway.web.requests import JSON

FIRST_S, EACH_S = 5.0, 4.0
"""After which the answer begins, and between two spaces of it."""


async def late_answer(answer: Coroutine[Any, Any, Response]) -> Response:
    """An answer that begins with spaces if it takes long, which JSON allows.

    DeepL's clients give up after 10 s without a byte and send the request anew, up to six times. An
    error that comes after the first space breaks the connection off, since the status is sent.

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
    return await task if task.done() else StreamingResponse(_spaced(task), media_type=JSON)


async def _spaced(task: asyncio.Task[Response]) -> AsyncGenerator[bytes, None]:
    try:
        while not task.done():
            yield b" "
            await asyncio.wait([task], timeout=EACH_S)
        yield bytes(task.result().body)
    except GatewayError as error:
        # The server logs this one, so it must not quote a text.
        raise ConnectionAbortedError(f"an answer failed late: {error.code}") from None
    finally:
        task.cancel()
