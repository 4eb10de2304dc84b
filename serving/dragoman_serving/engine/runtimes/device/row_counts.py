"""Numbers of sentences that a step may have, where one that recurs is worth more than a small one.

What a GPU was once told to do can be told again in one call, but only in the same shapes. In a
queue of requests nearly every step has another number of sentences; so it gets as many as the next
of a few numbers, and what they compute beyond those that are there is thrown away.
"""

from __future__ import annotations

_SMALL = (1, 2, 4)


def padded_count(sentences: int, most: int | None) -> int:
    """The next of 1, 2, 4, 6, 8, 12, 16, 24, 32, ...; beyond 2 at most a third is for nothing.

    Args:
        sentences: how many there are, at least 1.
        most: how many there may be; None for any number.
    """
    count = next((small for small in _SMALL if small >= sentences), 0)
    if not count:
        power = 1 << (sentences - 1).bit_length()
        count = 3 * power // 4 if 3 * power // 4 >= sentences else power
    return count if most is None else max(sentences, min(count, most))
