"""Padded numbers of sentences in a step, so that the same numbers recur.

A GPU can replay recorded work in one call, but only with the same shapes. Under load, nearly every
step has another number of sentences. So steps are padded to the next of a few numbers, and the
results of the padding are discarded.
"""

from __future__ import annotations

_SMALL = (1, 2, 4)


def padded_count(sentences: int, most: int | None) -> int:
    """Returns the next of 1, 2, 4, 6, 8, 12, 16, 24, 32, ...; above 2, at most a third is padding.

    Args:
        sentences: number of sentences, at least 1.
        most: maximum number; None: no limit.
    """
    count = next((small for small in _SMALL if small >= sentences), 0)
    if not count:
        power = 1 << (sentences - 1).bit_length()
        count = 3 * power // 4 if 3 * power // 4 >= sentences else power
    return count if most is None else max(sentences, min(count, most))
