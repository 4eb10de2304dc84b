"""Giving memory back to the system."""

from __future__ import annotations

import ctypes
import gc


def give_back() -> None:
    """Return what nobody uses: garbage, and freed memory; all threads wait meanwhile."""
    gc.collect()
    trim()


def trim() -> None:
    """Return freed memory that glibc, if it is that, has kept.

    It keeps some for each thread, for allocations to come: after a burst, a hundred megabytes.

    Source: https://man7.org/linux/man-pages/man3/malloc_trim.3.html
    """
    if (malloc_trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        malloc_trim(0)
