"""The incomplete output of a translation, `NAME.partial`: its path, and its lock."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import BinaryIO


def partial_path(source: Path, target: Path) -> Path:
    """Returns the path of an incomplete output.

    Args:
        source: the file to translate.
        target: name of the output when it is complete.

    Raises:
        OSError: the target is a folder.
        ValueError: the source is the target, or one of the files beside it.
    """
    path = target.with_name(target.name + ".partial")
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    for taken in (target, path, path.with_name(path.name + ".json")):
        if taken.exists() and taken.samefile(source):
            raise ValueError(f"{source}: is both the input and the output")
    return path


def check_absent(target: Path) -> None:
    """Check that a file does not exist.

    Raises:
        FileExistsError: it does.
    """
    if target.exists():
        message = "exists, give force=True to replace it"
        raise FileExistsError(errno.EEXIST, message, str(target))


def lock(file: BinaryIO, path: Path) -> None:
    """Lock an incomplete output against other runs until it is closed.

    Args:
        file: the open file; nothing in it may change before.
        path: its path.

    Raises:
        ValueError: another run is writing it, or has just finished it.
    """
    try:
        import fcntl
    except ImportError:
        return  # Windows does not have it
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_same = os.path.samestat(os.fstat(file.fileno()), path.stat())
    except (BlockingIOError, FileNotFoundError):
        is_same = False
    if not is_same:
        raise ValueError(f"{path}: another run is writing it")
