"""Rules for overwriting: only with `--force`, and only what the same command wrote."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dragoman.kernel.errors import UsageError

KEPT_PREFIX = ".codes-"
"""Prefix of the files that serving keeps in a bundle's folder."""
_CACHE = "__pycache__"
"""Python writes it next to the modules that it loads."""

OwnFiles = Callable[[Path], Collection[str]]
"""Returns the files that a command wrote into a folder, as paths relative to it.

Raises `UsageError` for a folder that the command did not write.
"""


def exists(path: Path, resumable: bool = False) -> UsageError:
    """Returns the error for an existing file or folder, which a command may be able to resume."""
    otherwise = ", or --resume to continue it" if resumable else ""
    return UsageError(f"{path} exists: give --force to replace it{otherwise}")


def check_file(path: Path, force: bool) -> None:
    """Check that a file may be written; pipes and devices always may.

    Raises:
        UsageError: the file exists, or is a folder.
    """
    if path.is_dir():
        raise UsageError(f"{path} is a folder: name a file")
    if path.is_file() and not force:
        raise exists(path)


def check_folder(folder: Path, force: bool, own_files: OwnFiles) -> None:
    """Check that a folder may be made; an empty one may always be replaced.

    Args:
        folder: the folder to make.
        force: whether an existing folder may be replaced.
        own_files: lists the command's own files in an existing folder.

    Raises:
        UsageError: the folder exists, or holds a file that the command did not write.
    """
    if not os.path.lexists(folder):
        return
    if folder.is_symlink() or not folder.is_dir():
        raise UsageError(f"{folder} is not a folder: name another")
    files = sorted(
        path.relative_to(folder)
        for path in folder.rglob("*")
        if path.is_symlink() or not path.is_dir()
    )
    if not files:
        return
    if not force:
        raise exists(folder)
    try:
        own = set(map(Path, own_files(folder)))
    except UsageError as error:
        raise UsageError(
            f"{folder} was not written by this command, name another folder: {error}"
        ) from error
    for path in files:
        kept = _CACHE in path.parts or path.name.startswith(KEPT_PREFIX)
        if path not in own and not kept:
            raise UsageError(
                f"{folder} holds {path}, which this command did not write: remove it, or name "
                "another folder"
            )


@contextmanager
def replacing(*paths: Path) -> Iterator[list[Path]]:
    """Yields for each file another path to write; at the end of the block they are renamed.

    After an error they are removed, so that a file appears complete or not at all.
    """
    partial = [path.with_name(f".{path.name}.partial") for path in paths]
    try:
        yield partial
        for written, path in zip(partial, paths, strict=True):
            os.replace(written, path)
    finally:
        with suppress(OSError):
            for written in partial:
                written.unlink(missing_ok=True)


def replace_folder(partial: Path, folder: Path) -> None:
    """Rename a complete folder to its final name, and remove the folder that it replaces."""
    former = folder.with_name(f".{folder.name}.former")
    shutil.rmtree(former, ignore_errors=True)
    if folder.exists():
        os.replace(folder, former)
    os.replace(partial, folder)
    shutil.rmtree(former, ignore_errors=True)


def file_state(path: Path) -> tuple[int, ...]:
    """Returns a value that changes when a file is written or replaced.

    Raises:
        OSError: the file does not exist.
    """
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
