"""Isolates the texts of a batch that are refused, so that the others are translated."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from dragoman_options.refusal import Refusal, Refused

_Answer = TypeVar("_Answer")
Blame = Callable[[Exception, int], None]
"""Called with an error that names no text, and the number of its texts. Raises the error, unless
one of the texts may be the cause."""


def _raise(error: Exception, _count: int) -> None:
    raise error


async def isolate(
    count: int, send: Callable[[range], Awaitable[Sequence[_Answer]]], blame: Blame = _raise
) -> list[_Answer | Exception]:
    """Send texts in one request; if one is refused, send those before and after it again.

    Args:
        count: number of texts.
        send: sends the texts with these indices in one request, and returns their answers.
        blame: see `Blame`; texts that may be the cause are halved until the cause is alone.

    Returns:
        The answer to each text, or its error, which is that of a request with this text alone.

    Raises:
        Exception: an error that no text caused.
    """
    results: dict[int, _Answer | Exception] = {}
    waiting = [range(count)]
    while waiting:
        part = waiting.pop()
        if not part:
            continue
        try:
            results |= zip(part, await send(part), strict=True)
        except Exception as error:
            at = error.text_index if isinstance(error, Refused) else None
            if at is not None and at < len(part):
                results[part[at]] = type(error)(*Refusal.of(error).moved(0))
                waiting += [part[at + 1 :], part[:at]]
                continue
            blame(error, len(part))
            if len(part) == 1:
                results[part[0]] = error
            else:
                middle = len(part) // 2
                waiting += [part[middle:], part[:middle]]
    return [results[index] for index in range(count)]
