"""Reads a stream of server-sent events: its lines, and the parts of the answer in them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterable, Callable

from dragoman_client.core.errors import ServerError
from dragoman_client.core.request import ENDED_EARLY, Part, is_last

MOST_LINE_BYTES = 384 << 20
"""More than any event of a server: 64 MiB of text, at up to six bytes of JSON per byte."""


async def split_lines(chunks: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    """Split a stream into lines.

    Args:
        chunks: the stream, in arbitrary chunks.

    Yields:
        Lines without line ends; finally the text after the last line end, if there is any.

    Raises:
        ServerError: a line is longer than `MOST_LINE_BYTES`.
    """
    line = bytearray()
    async for chunk in chunks:
        first, *more = chunk.split(b"\n")
        line += first
        for begun in more:
            yield bytes(line)
            line = bytearray(begun)
        if len(line) > MOST_LINE_BYTES:
            limit = f"{MOST_LINE_BYTES:,} bytes"
            raise ServerError(f"not an answer of Triton: a line of the stream is above {limit}")
    if line:
        yield bytes(line)


async def read_parts(
    chunks: AsyncGenerator[bytes, None], read: Callable[[bytes], Part | None]
) -> AsyncGenerator[Part, None]:
    """Yield the parts of an answer up to its last one.

    Args:
        chunks: the stream, in arbitrary chunks; closed at the end.
        read: returns the part in a line, or None.

    Raises:
        ServerError: the stream ends before the last part, or a line is too long.
    """
    async with contextlib.aclosing(chunks), contextlib.aclosing(split_lines(chunks)) as lines:
        async for line in lines:
            part = read(line)
            if part is None:
                continue
            yield part
            if is_last(part):
                return
    raise ServerError(ENDED_EARLY)
