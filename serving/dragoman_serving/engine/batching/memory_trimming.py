"""Returns memory to the system.

Source: https://man7.org/linux/man-pages/man3/mallopt.3.html
"""

from __future__ import annotations

import ctypes
import gc

_MMAP_THRESHOLD, _ARENA_MAX = -3, -8
"""Names of parameters in glibc's malloc.h."""
_LARGE_BYTES = 4 << 20
"""A cache of a model is larger; what a step allocates is smaller, or stays allocated."""
_MOST_ARENAS = 4


def return_large_blocks() -> None:
    """Let glibc return each large block when it is freed, and share the space of small ones.

    By default, after a large block was freed, glibc takes such blocks from the heaps of its
    threads, of which it has eight for each core. The caches of models that come and go leave gaps
    there. Does nothing with another C library.
    """
    if (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_ARENA_MAX, _MOST_ARENAS)


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
