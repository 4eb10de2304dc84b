"""Lines of a stream of server-sent events, and the parts of an answer in them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterable, Callable

from dragoman_client.errors import ServerError
from dragoman_client.request import ENDED_EARLY, Part, is_last

MOST_LINE_BYTES = 384 << 20
"""More than any event of a server takes: 64 MiB of text, with six bytes of JSON for each of it."""


async def split_lines(chunks: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    """The lines of a stream, as they come.

    Args:
        chunks: the stream, cut anywhere.

    Yields:
        Lines without their ends; last what stands behind the last end, if there is something.

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
    """The parts of an answer, as they come, to its last one.

    Args:
        chunks: the stream, cut anywhere; it is closed at the end.
        read: the part in a line; None if it has none.

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
