"""Returns memory to the system."""

from __future__ import annotations

import ctypes
import gc


def give_back() -> None:
    """Collect garbage, and return freed memory; all threads wait meanwhile."""
    gc.collect()
    trim()


def trim() -> None:
    """Return freed memory that glibc has kept; does nothing with another C library.

    glibc keeps freed memory of each thread for later allocations: after a burst, a hundred
    megabytes.

    Source: https://man7.org/linux/man-pages/man3/malloc_trim.3.html
    """
    if (malloc_trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        malloc_trim(0)
