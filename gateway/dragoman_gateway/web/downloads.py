"""File downloads."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

from starlette.responses import Response, StreamingResponse

from dragoman_gateway.core.errors import NotFound

_CHUNK_BYTES = 64 << 10


async def file_response(
    path: Path, name: str, before_end: Callable[[], Awaitable[None]] | None = None
) -> Response:
    """Returns a file as an attachment, so that browsers do not display uploads in this origin.

    Args:
        path: path of the file, which may be removed after this has returned.
        name: file name for the client.
        before_end: called before the last bytes are sent, so that a client that has them all sees
            its effect.

    Raises:
        NotFound: the file has just been removed.
    """
    try:
        file = await asyncio.to_thread(path.open, "rb")
    except FileNotFoundError:
        raise NotFound("the document was removed just now") from None
    headers = {
        "Content-Disposition": f"attachment; filename*=utf-8''{quote(name, safe='')}",
        "Content-Length": str(os.fstat(file.fileno()).st_size),
    }
    return StreamingResponse(_chunks(file, before_end), 200, headers, "application/octet-stream")


async def _chunks(
    file: BinaryIO, before_end: Callable[[], Awaitable[None]] | None
) -> AsyncGenerator[bytes, None]:
    with file:
        chunk = await asyncio.to_thread(file.read, _CHUNK_BYTES)
        while following := await asyncio.to_thread(file.read, _CHUNK_BYTES):
            yield chunk
            chunk = following
        if before_end is not None:
            await before_end()
        yield chunk
