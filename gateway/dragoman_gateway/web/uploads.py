"""Uploaded files."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from starlette.datastructures import UploadFile

_CHUNK_BYTES = 64 << 10


async def content_of(file: UploadFile) -> AsyncGenerator[bytes, None]:
    """Yields the content of an uploaded file in chunks."""
    while chunk := await file.read(_CHUNK_BYTES):
        yield chunk
