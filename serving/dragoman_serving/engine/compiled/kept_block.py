"""Keeps a block of memory in a file, so that it is made once and then mapped.

It does not depend on the content of the block. A file is only used if it belongs to this user, no
other user may write it, and its digest is right; any other file is ignored or replaced. The digest
detects damage. It does not protect against this user, who could also change the program.
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
"""Appends the content of a buffer."""

_MAGIC = b"dragoman block 1"
_HEADER_BYTES = 4096
"""One page, so that the block begins at a page boundary."""
_PART_BYTES = 8 << 20
"""Bytes that one thread hashes at a time."""
_READ_BYTES = 1 << 18
_ABANDONED_S = 3600
"""Age at which an unfinished file is considered abandoned."""
_PARTIAL = ".partial"
_SETTLED_NS = 1_000_000_000
"""Age of a file after which any change also changes its times, because the clocks of file systems
are coarse."""
_whole: dict[bytes, tuple[int, ...]] = {}
"""States of checked files, by identity of the block. So the file of a model that is unloaded and
loaded again is not hashed again, which would take all processors from running models."""


@dataclass(frozen=True)
class Recipe:
    """How to make a block, and its identity.

    Attributes:
        name: name of its file, with a short form of the identity.
        identity: 32 bytes that identify the input and the method.
        length: length of the block, in bytes.
        make: writes the block, piece by piece.
    """

    name: str
    identity: bytes
    length: int
    make: Callable[[Write], None]


class _UnusableFileError(OSError):
    """The file cannot be trusted; the message gives the reason."""


def user_folder(bundle: Path) -> Path | None:
    """Returns the user's folder for blocks of a read-only bundle; None without a home directory."""
    # One folder per bundle, so that its stale blocks can be found.
    digest = hashlib.sha256(os.fsencode(bundle.resolve())).hexdigest()
    folder = user_cache_folder()
    return folder and folder / digest[:16]


def load_block(recipe: Recipe, folders: Sequence[Path]) -> Block:
    """Map a block from one of the folders, or make it and keep it in the first writable one.

    Args:
        recipe: recipe of the block.
        folders: folders to search; each holds only blocks of one bundle.

    Returns:
        The read-only block [recipe.length]. If no folder is writable, it is in memory.

    Raises:
        OSError: the input of the recipe cannot be read.
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
            log.info("the model's 8-bit weights are kept for later starts")
            log.debug("they are in %s", folder / recipe.name)
            return block
    if folders:
        log.info("the model's 8-bit weights are not kept: no folder for them can be written")
    return _make(recipe)


def _make(recipe: Recipe) -> Block:
    """Make a block in memory, aligned to a page, which makes vector loads faster."""
    block, offset = np.frombuffer(mmap.mmap(-1, recipe.length), np.uint8), 0

    def write(data: Any) -> None:
        nonlocal offset
        piece = np.frombuffer(data, np.uint8)
        block[offset : offset + len(piece)] = piece
        offset += len(piece)

    recipe.make(write)
    return block


def _kept(path: Path, recipe: Recipe) -> Block | None:
    """The block in a file, if the file exists and can be trusted."""
    try:
        # Do not follow links, and do not wait for a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        # If users share a bundle, one of them keeps the block in its folder, private to this user.
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
    """Check that a file belongs to this user, and holds the right block."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise _UnusableFileError("it is not a file")
    if status.st_uid != os.geteuid():
        raise _UnusableFileError(f"it belongs to user {status.st_uid}")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _UnusableFileError("others may write it")
    if status.st_size != _HEADER_BYTES + recipe.length:
        raise _UnusableFileError(
            f"it has {status.st_size} bytes instead of {_HEADER_BYTES + recipe.length}"
        )
    header = os.pread(descriptor, _HEADER_BYTES, 0)
    if not header.startswith(_MAGIC + recipe.identity):
        raise _UnusableFileError("it holds something else")
    state = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    if _whole.get(recipe.identity) == state:
        return
    if header != _header(recipe, _digest(descriptor, recipe.length)):
        raise _UnusableFileError("it is damaged")
    if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > _SETTLED_NS:
        _whole[recipe.identity] = state


def _header(recipe: Recipe, digest: bytes) -> bytes:
    return (_MAGIC + recipe.identity + digest).ljust(_HEADER_BYTES, b"\0")


def _digest(descriptor: int, length: int) -> bytes:
    """SHA-256 of the SHA-256 of a block's parts, computed on all processors.

    The file is read, not mapped, because mapping would make all of it resident.
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
    """Make a block in a file, which is renamed when it is complete, and remove old blocks.

    If another process has made it meanwhile, that file stays, so that all map the same one and
    share its memory.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / recipe.name
    before = _inode(path)
    # Another process may be writing the same block: each has its own file, of mode 0600.
    descriptor, partial = tempfile.mkstemp(_PARTIAL, f"{recipe.name}.", folder)
    try:
        with open(descriptor, "w+b") as file:
            _write(file, recipe)
        if _inode(path) == before:
            os.replace(partial, path)
        else:
            os.unlink(partial)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise
    _remove_former(folder, recipe.name)


def _inode(path: Path) -> int | None:
    try:
        return path.lstat().st_ino
    except FileNotFoundError:
        return None


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
    """Remove blocks of other weights or versions, and abandoned files."""
    for path in folder.glob(f"{KEPT_PREFIX}*"):
        with contextlib.suppress(OSError):
            unfinished = path.name.endswith(_PARTIAL)
            if unfinished and time.time() - path.stat().st_mtime < _ABANDONED_S:
                continue
            if path.name != name:
                path.unlink()
