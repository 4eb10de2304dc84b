"""Cache capacities on a device."""

from __future__ import annotations

SMALLEST = 32


def capacities(most: int) -> tuple[int, ...]:
    """Returns doubling capacities up to `most`; only a few, because each has its own kernels."""
    lengths, length = [], SMALLEST
    while length < most:
        lengths.append(length)
        length *= 2
    return (*lengths, most)
