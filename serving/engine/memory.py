"""Giving memory back to the system."""

from __future__ import annotations

import ctypes


def give_back() -> None:
    """Return freed memory that the C library has kept; nothing where it is not glibc.

    It keeps some for each thread, for allocations to come: after a burst, a hundred megabytes.

    Source: https://man7.org/linux/man-pages/man3/malloc_trim.3.html
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
