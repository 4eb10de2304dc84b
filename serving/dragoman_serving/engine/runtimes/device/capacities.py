"""Lengths for which a device keeps room."""

from __future__ import annotations

SMALLEST = 32


def capacities(most: int) -> tuple[int, ...]:
    """Doubling lengths up to the most that is needed; few, since each has its own kernels."""
    lengths, length = [], SMALLEST
    while length < most:
        lengths.append(length)
        length *= 2
    return (*lengths, most)
