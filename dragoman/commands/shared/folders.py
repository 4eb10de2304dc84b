"""Checks of folders and numbers, before a command starts its work."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from dragoman.kernel.errors import UsageError


def configure_force(parser: argparse.ArgumentParser | argparse._MutuallyExclusiveGroup) -> None:
    """Declare the flag of all commands that write files; see `dragoman.kernel.replacement`."""
    parser.add_argument("--force", action="store_true", help="replace existing output")


def check_folder(option: str, folder: Path) -> None:
    """Check that a folder exists, or that a command can make it.

    Raises:
        UsageError: the path, or a parent, is a file.
    """
    standing = next(path for path in (folder, *folder.parents) if os.path.exists(path))
    if not standing.is_dir():
        raise UsageError(f"{option} {folder}: {standing} is a file; name a folder")


def check_count(option: str, number: int | None) -> None:
    """Check that a count is positive.

    Raises:
        UsageError: the number is below 1.
    """
    if number is not None and number < 1:
        raise UsageError(f"{option} {number}: give 1 or more")
