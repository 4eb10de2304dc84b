"""Lines of a stream of server-sent events, from the chunks in which it comes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable

from dragoman_client.errors import ServerError

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
