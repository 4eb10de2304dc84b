"""A file that keeps a block of memory, so that it is made once and mapped from then on.

Knows nothing of what the block holds. A file is only used if it belongs to this user, nobody else
may write it, and its digest is right; any other file is left alone or replaced. The digest finds
damage. It is no protection against this user, who could also change the program.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import mmap
import os
import stat
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from dragoman.kernel.processors import usable_cores
from dragoman.kernel.replacement import KEPT_PREFIX
from dragoman.kernel.user_cache import user_cache_folder

log = logging.getLogger(__name__)

Block = npt.NDArray[np.uint8]
Write = Callable[[Any], object]
"""Appends what a buffer holds."""

_MAGIC = b"dragoman block 1"
_HEADER_BYTES = 4096
"""A page, so that the block begins at one."""
_PART_BYTES = 8 << 20
"""What one thread hashes at a time."""
_READ_BYTES = 1 << 18
_ABANDONED_S = 3600
"""Age of an unfinished file that nobody is writing any more."""
_PARTIAL = ".partial"
_SETTLED_NS = 1_000_000_000
"""Age of a file from which on a change is certain to change its times too: clocks of file systems
are coarse."""
_whole: dict[bytes, tuple[int, ...]] = {}
"""States of files in which they were found whole, by what they hold: a model that is dropped and
loaded again is not hashed again, which would take all processors from those that are at work."""


@dataclass(frozen=True)
class Recipe:
    """What a block is made of, and how.

    Attributes:
        name: of its file, which says both.
        identity: 32 bytes that say both in full.
        length: of the block, in bytes.
        make: writes the block, piece by piece.
    """

    name: str
    identity: bytes
    length: int
    make: Callable[[Write], None]


class _UnusableFileError(OSError):
    """The file cannot be trusted; the message says why."""


def user_folder(bundle: Path) -> Path | None:
    """Where this user may keep blocks of a bundle that cannot be written; None without a home."""
    # A folder for each bundle, so that its stale blocks are found.
    digest = hashlib.sha256(os.fsencode(bundle.resolve())).hexdigest()
    folder = user_cache_folder()
    return folder and folder / digest[:16]


def load_block(recipe: Recipe, folders: Sequence[Path]) -> Block:
    """Map a block that is kept in one of some folders, or make it and keep it in the first one.

    Args:
        recipe: of the block.
        folders: where it may lie; each holds blocks of one bundle alone.

    Returns:
        The block [recipe.length], not to be written. If no folder can be written, it is in memory.

    Raises:
        OSError: what it is made of cannot be read.
    """
    for folder in folders:
        if (block := _kept(folder / recipe.name, recipe)) is not None:
            return block
    for folder in folders:
        try:
            _keep(folder, recipe)
        except OSError as error:
            log.debug("%s: cannot be written: %s", folder, error.strerror or error)
            continue
        if (block := _kept(folder / recipe.name, recipe)) is not None:
            log.info("the model's 8-bit weights are kept in %s", folder / recipe.name)
            return block
    if folders:
        log.info("the model's 8-bit weights are not kept: no folder for them can be written")
    return _make(recipe)


def _make(recipe: Recipe) -> Block:
    """Make a block in memory, from a page's beginning on: vectors are read faster that way."""
    block, offset = np.frombuffer(mmap.mmap(-1, recipe.length), np.uint8), 0

    def write(data: Any) -> None:
        nonlocal offset
        piece = np.frombuffer(data, np.uint8)
        block[offset : offset + len(piece)] = piece
        offset += len(piece)

    recipe.make(write)
    return block


def _kept(path: Path, recipe: Recipe) -> Block | None:
    """The block in a file, if it is there and can be trusted."""
    try:
        # No link is followed, and a pipe is not waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        # Of users who share a bundle, one keeps the block in its folder, closed to the others.
        level = logging.INFO if isinstance(error, PermissionError) else logging.WARNING
        log.log(level, "%s is not used: %s", path, error.strerror)
        return None
    try:
        _check(descriptor, recipe)
        mapped = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    except OSError as error:
        log.warning("%s is not used: %s", path, error.strerror or error)
        return None
    finally:
        os.close(descriptor)
    return np.frombuffer(mapped, np.uint8, offset=_HEADER_BYTES)


def _check(descriptor: int, recipe: Recipe) -> None:
    """See that a file is ours, and holds what it should.

    Raises:
        _UnusableFileError: it is not.
        OSError: it cannot be read.
    """
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise _UnusableFileError("it is not a file")
    if found.st_uid != os.geteuid():
        raise _UnusableFileError(f"it belongs to user {found.st_uid}")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _UnusableFileError("others may write it")
    if found.st_size != _HEADER_BYTES + recipe.length:
        raise _UnusableFileError(
            f"it has {found.st_size} bytes instead of {_HEADER_BYTES + recipe.length}"
        )
    header = os.pread(descriptor, _HEADER_BYTES, 0)
    if not header.startswith(_MAGIC + recipe.identity):
        raise _UnusableFileError("it holds something else")
    state = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    if _whole.get(recipe.identity) == state:
        return
    if header != _header(recipe, _digest(descriptor, recipe.length)):
        raise _UnusableFileError("it is damaged")
    if time.time_ns() - max(found.st_mtime_ns, found.st_ctime_ns) > _SETTLED_NS:
        _whole[recipe.identity] = state


def _header(recipe: Recipe, digest: bytes) -> bytes:
    return (_MAGIC + recipe.identity + digest).ljust(_HEADER_BYTES, b"\0")


def _digest(descriptor: int, length: int) -> bytes:
    """SHA-256 of the SHA-256 of a block's parts, which all processors compute together.

    It is read rather than looked at through a mapping, which would make all of it resident.
    """

    def of_part(begin: int) -> bytes:
        hashed = hashlib.sha256()
        end = min(begin + _PART_BYTES, length)
        while begin < end:
            read = os.pread(descriptor, min(_READ_BYTES, end - begin), _HEADER_BYTES + begin)
            if not read:
                raise _UnusableFileError("it became shorter")
            hashed.update(read)
            begin += len(read)
        return hashed.digest()

    parts = range(0, length, _PART_BYTES)
    with ThreadPoolExecutor(max_workers=usable_cores()) as pool:
        digests = b"".join(pool.map(of_part, parts))
    return hashlib.sha256(digests).digest()


def _keep(folder: Path, recipe: Recipe) -> None:
    """Make a block in a file, which has its name only when it is whole, and remove former ones.

    Raises:
        OSError: it cannot be written.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Another process may be writing the same one: each has a file of its own, of mode 0600.
    descriptor, partial = tempfile.mkstemp(_PARTIAL, f"{recipe.name}.", folder)
    try:
        with open(descriptor, "w+b") as file:
            _write(file, recipe)
        os.replace(partial, folder / recipe.name)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise
    _remove_former(folder, recipe.name)


def _write(file: IO[bytes], recipe: Recipe) -> None:
    file.write(_header(recipe, b""))
    recipe.make(file.write)
    file.flush()
    digest = _digest(file.fileno(), recipe.length)
    file.seek(0)
    file.write(_header(recipe, digest))
    file.flush()
    os.fsync(file.fileno())


def _remove_former(folder: Path, name: str) -> None:
    """Remove blocks of other weights or versions, and what was never finished."""
    for path in folder.glob(f"{KEPT_PREFIX}*"):
        with contextlib.suppress(OSError):
            unfinished = path.name.endswith(_PARTIAL)
            if unfinished and time.time() - path.stat().st_mtime < _ABANDONED_S:
                continue
            if path.name != name:
                path.unlink()
