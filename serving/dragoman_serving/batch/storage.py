"""Folders of files on this machine, on a shared file system, or in an object store.

A file that is written appears whole or not at all. That makes a file the mark of the work in it.
"""

from __future__ import annotations

import functools
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from dragoman.kernel.errors import UsageError

_SCHEME = "://"


@dataclass(frozen=True)
class FileState:
    """What is different once a file was replaced."""

    size_bytes: int
    modified_ns: int


class Storage(Protocol):
    """A folder; names are paths in it.

    Attributes:
        is_local: files can be appended to and renamed here.
    """

    is_local: bool

    def names(self, folder: str = "") -> list[str]:
        """Files in a folder and those below it, in order; none if there is no such folder."""
        ...

    def state(self, name: str) -> FileState | None:
        """Of a file; None: it is not there."""

    def open(self, name: str) -> BinaryIO:
        """Open a file, to be read at any position.

        Raises:
            OSError: it cannot be read.
        """
        ...

    def write(self, name: str, content: bytes) -> None:
        """Write a whole file, in folders that need not be there.

        Raises:
            OSError: it cannot be written.
        """

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""


class LocalStorage:
    """A folder of a file system."""

    is_local = True

    def __init__(self, folder: Path) -> None:
        """Keep the folder, which need not be there."""
        self._folder = folder

    def path(self, name: str) -> Path:
        """Where a file is."""
        return self._folder / name

    def names(self, folder: str = "") -> list[str]:
        """See `Storage`."""
        found = self.path(folder).rglob("*")
        return sorted(str(one.relative_to(self._folder)) for one in found if one.is_file())

    def state(self, name: str) -> FileState | None:
        """See `Storage`."""
        try:
            found = self.path(name).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        is_file = stat.S_ISREG(found.st_mode)
        return FileState(found.st_size, found.st_mtime_ns) if is_file else None

    def open(self, name: str) -> BinaryIO:
        """See `Storage`."""
        return self.path(name).open("rb")

    def write(self, name: str, content: bytes) -> None:
        """See `Storage`."""
        with self.writing(name) as file:
            file.write(content)

    @contextmanager
    def writing(self, name: str) -> Iterator[BinaryIO]:
        """A file that gets its name when it is whole; after an error there is none."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        # Two processes may write the same file; the last one counts.
        descriptor, partial = tempfile.mkstemp(prefix=f"_{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, 0o666 & ~_umask())
                yield file
                file.flush()
                os.fsync(descriptor)
            os.replace(partial, path)
        except BaseException:
            os.unlink(partial)
            raise

    def remove(self, name: str) -> None:
        """See `Storage`."""
        self.path(name).unlink(missing_ok=True)


@functools.cache
def _umask() -> int:
    """Of this process, which can only be read by setting it."""
    found = os.umask(0o077)
    os.umask(found)
    return found


class ObjectStorage:
    """A prefix of an object store, through `pyarrow.fs`; an object is put in one piece."""

    is_local = False

    def __init__(self, uri: str) -> None:
        """Connect.

        Raises:
            UsageError: the URI names no such storage.
        """
        from pyarrow import ArrowInvalid, fs

        try:
            self._files, self._folder = fs.FileSystem.from_uri(uri)
        except (ArrowInvalid, OSError) as error:
            raise UsageError(f"{uri}: {error}") from error

    def names(self, folder: str = "") -> list[str]:
        """See `Storage`."""
        from pyarrow import fs

        below = fs.FileSelector(self._path(folder), recursive=True, allow_not_found=True)
        found = self._files.get_file_info(below)
        begin = len(self._path(""))
        return sorted(one.path[begin:] for one in found if one.is_file)

    def state(self, name: str) -> FileState | None:
        """See `Storage`."""
        (found,) = self._files.get_file_info([self._path(name)])
        return FileState(found.size, found.mtime_ns or 0) if found.is_file else None

    def open(self, name: str) -> BinaryIO:
        """See `Storage`."""
        opened: Any = self._files.open_input_file(self._path(name))
        return opened  # type: ignore[no-any-return]

    def write(self, name: str, content: bytes) -> None:
        """See `Storage`."""
        # All is there before the object is begun: pyarrow would also finish one that an error cut.
        with self._files.open_output_stream(self._path(name), compression=None) as stream:
            stream.write(content)

    def remove(self, name: str) -> None:
        """See `Storage`."""
        if self.state(name) is not None:
            self._files.delete_file(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._folder.rstrip('/')}/{name}"


def absolute(where: str) -> str:
    """A folder or a URI, which means the same to a process elsewhere."""
    path = where.removeprefix("file://")
    return where if _SCHEME in path else str(Path(path).absolute())


@functools.cache
def open_storage(where: str) -> Storage:
    """The storage of a folder, or of a URI such as s3://bucket/folder.

    Args:
        where: as `absolute` gives it.

    Raises:
        UsageError: a URI that names no storage.
    """
    return ObjectStorage(where) if _SCHEME in where else LocalStorage(Path(where))


@dataclass(frozen=True)
class Source:
    """A file of input: its folder or URI, and its name there."""

    folder: str
    name: str

    @property
    def storage(self) -> Storage:
        """Of its folder."""
        return open_storage(self.folder)


def find_sources(words: list[str]) -> list[Source]:
    """The files that a command line names: files, folders and URIs of both.

    Hidden files and those that begin with an underscore are left out of folders.

    Raises:
        UsageError: a word names nothing, or two files have one name.
    """
    found: dict[str, Source] = {}
    for word in words:
        for source in _sources_of(absolute(word)):
            if source.name in found:
                raise UsageError(
                    f"--input {word}: two files are called {source.name}; name the folder above "
                    "both"
                )
            found[source.name] = source
    return list(found.values())


def _sources_of(word: str) -> list[Source]:
    parent, name = _split(word)
    if open_storage(parent).state(name) is not None:
        return [Source(parent, name)]
    folder = open_storage(word)
    found = [Source(word, name) for name in folder.names() if not _is_hidden(name)]
    if not found:
        raise UsageError(f"--input {word}: no file is there")
    return found


def _split(word: str) -> tuple[str, str]:
    """The folder of what may be a file, and its name."""
    path, mark, query = word.partition("?") if _SCHEME in word else (word, "", "")
    folder, _, name = path.rstrip("/").rpartition("/")
    return f"{folder or '/'}{mark}{query}", name


def _is_hidden(name: str) -> bool:
    return any(part.startswith((".", "_")) for part in name.split("/"))
