"""What commands check of folders and numbers before they do any work."""

from __future__ import annotations

import os
from pathlib import Path

from dragoman.kernel.errors import UsageError


def check_folder(option: str, folder: Path) -> None:
    """See that a folder can stand where a command will make it.

    Raises:
        UsageError: a file stands there, or above it.
    """
    standing = next(path for path in (folder, *folder.parents) if os.path.exists(path))
    if not standing.is_dir():
        raise UsageError(f"{option} {folder}: {standing} is a file; name a folder")


def check_count(option: str, number: int | None) -> None:
    """See that a number of things is one.

    Raises:
        UsageError: it is below 1.
    """
    if number is not None and number < 1:
        raise UsageError(f"{option} {number}: give 1 or more")
