"""What a command may write over: nothing without `--force`, and with it only its own kind."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection
from pathlib import Path

from dragoman.kernel.errors import UsageError

KEPT_PREFIX = ".codes-"
"""Names of files that serving keeps in a bundle's folder begin with it."""
_CACHE = "__pycache__"
"""Python writes it beside what it loads."""

OwnFiles = Callable[[Path], Collection[str]]
"""The files that a command wrote into a folder, by their paths in it.

It raises `UsageError` for a folder that the command did not write.
"""


def exists(path: Path, resumable: bool = False) -> UsageError:
    """The refusal to write over a file or folder, which a command may be able to continue."""
    otherwise = ", or --resume to continue it" if resumable else ""
    return UsageError(f"{path} exists: give --force to replace it{otherwise}")


def check_file(path: Path, force: bool) -> None:
    """See that a file may be written: pipes and devices may always be.

    Raises:
        UsageError: it exists, or is a folder.
    """
    if path.is_dir():
        raise UsageError(f"{path} is a folder: name a file")
    if path.is_file() and not force:
        raise exists(path)


def check_folder(folder: Path, force: bool, own_files: OwnFiles) -> None:
    """See that a folder may be made; an empty one may always be replaced.

    Args:
        folder: to make.
        force: whether one that is there may be replaced.
        own_files: of one that is there.

    Raises:
        UsageError: it exists, or holds what the command did not write.
    """
    if not os.path.lexists(folder):
        return
    if folder.is_symlink() or not folder.is_dir():
        raise UsageError(f"{folder} is not a folder: name another")
    found = sorted(
        path.relative_to(folder)
        for path in folder.rglob("*")
        if path.is_symlink() or not path.is_dir()
    )
    if not found:
        return
    if not force:
        raise exists(folder)
    try:
        own = set(map(Path, own_files(folder)))
    except UsageError as error:
        raise UsageError(
            f"{folder} was not written by this command, name another folder: {error}"
        ) from error
    for path in found:
        kept = _CACHE in path.parts or path.name.startswith(KEPT_PREFIX)
        if path not in own and not kept:
            raise UsageError(
                f"{folder} holds {path}, which this command did not write: remove it, or name "
                "another folder"
            )


def replace_folder(partial: Path, folder: Path) -> None:
    """Give a whole folder its name; one that `check_folder` let pass is removed after that."""
    former = folder.with_name(f".{folder.name}.former")
    shutil.rmtree(former, ignore_errors=True)
    if folder.exists():
        os.replace(folder, former)
    os.replace(partial, folder)
    shutil.rmtree(former, ignore_errors=True)


def file_state(path: Path) -> tuple[int, ...]:
    """What is different once a file was written or replaced.

    Raises:
        OSError: it is not there.
    """
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
