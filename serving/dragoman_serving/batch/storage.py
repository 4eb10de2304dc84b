"""Folders of files: local, on a shared file system, or in an object store.

Files are written atomically, so an existing file shows that its work is finished.
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
    """The state of a file, which changes when it is replaced."""

    size_bytes: int
    modified_ns: int


class Storage(Protocol):
    """A folder; names are relative paths.

    Attributes:
        is_local: whether files can be appended to and renamed.
    """

    is_local: bool

    def names(self, folder: str = "") -> list[str]:
        """Returns all files below a folder, in order; none if there is no such folder."""
        ...

    def state(self, name: str) -> FileState | None:
        """Returns the state of a file; None: it does not exist."""

    def open(self, name: str) -> BinaryIO:
        """Open a file for random access.

        Raises:
            OSError: the file cannot be read.
        """
        ...

    def write(self, name: str, content: bytes) -> None:
        """Write a whole file, and create its folders.

        Raises:
            OSError: the file cannot be written.
        """

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""


class LocalStorage:
    """A folder of a file system."""

    is_local = True

    def __init__(self, folder: Path) -> None:
        """Store the folder, which need not exist."""
        self._folder = folder

    def path(self, name: str) -> Path:
        """Returns the path of a file."""
        return self._folder / name

    def names(self, folder: str = "") -> list[str]:
        """See `Storage`."""
        paths = self.path(folder).rglob("*")
        return sorted(str(path.relative_to(self._folder)) for path in paths if path.is_file())

    def state(self, name: str) -> FileState | None:
        """See `Storage`."""
        try:
            status = self.path(name).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        is_file = stat.S_ISREG(status.st_mode)
        return FileState(status.st_size, status.st_mtime_ns) if is_file else None

    def open(self, name: str) -> BinaryIO:
        """See `Storage`."""
        return self.path(name).open("rb")

    def write(self, name: str, content: bytes) -> None:
        """See `Storage`."""
        with self.writing(name) as file:
            file.write(content)

    @contextmanager
    def writing(self, name: str) -> Iterator[BinaryIO]:
        """Yields a file that gets its name when it is complete; after an error there is none."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        # Two processes may write the same file; the last one wins.
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
    """The umask of this process, which can only be read by setting it."""
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


class ObjectStorage:
    """A prefix of an object store, through `pyarrow.fs`; objects are written as a whole."""

    is_local = False

    def __init__(self, uri: str) -> None:
        """Connect.

        Raises:
            UsageError: the URI is not valid.
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
        infos = self._files.get_file_info(below)
        begin = len(self._path(""))
        return sorted(info.path[begin:] for info in infos if info.is_file)

    def state(self, name: str) -> FileState | None:
        """See `Storage`."""
        (info,) = self._files.get_file_info([self._path(name)])
        return FileState(info.size, info.mtime_ns or 0) if info.is_file else None

    def open(self, name: str) -> BinaryIO:
        """See `Storage`."""
        opened: Any = self._files.open_input_file(self._path(name))
        return opened  # type: ignore[no-any-return]

    def write(self, name: str, content: bytes) -> None:
        """See `Storage`."""
        # The content is complete before, because pyarrow also finishes an object after an error.
        with self._files.open_output_stream(self._path(name), compression=None) as stream:
            stream.write(content)

    def remove(self, name: str) -> None:
        """See `Storage`."""
        if self.state(name) is not None:
            self._files.delete_file(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._folder.rstrip('/')}/{name}"


def absolute(where: str) -> str:
    """Returns an absolute path, or a URI, which is valid in other processes too."""
    path = where.removeprefix("file://")
    return where if _SCHEME in path else str(Path(path).absolute())


@functools.cache
def open_storage(where: str) -> Storage:
    """Returns the storage of a folder, or of a URI such as s3://bucket/folder.

    Args:
        where: result of `absolute`.

    Raises:
        UsageError: the URI is not valid.
    """
    return ObjectStorage(where) if _SCHEME in where else LocalStorage(Path(where))


@dataclass(frozen=True)
class InputFile:
    """An input file: its folder or URI, and its name there."""

    folder: str
    name: str

    @property
    def storage(self) -> Storage:
        """Storage of its folder."""
        return open_storage(self.folder)


def find_sources(words: list[str]) -> list[InputFile]:
    """Returns the files that a command line names: files, folders and URIs of both.

    Hidden files and those that begin with an underscore are left out of folders.

    Raises:
        UsageError: a word names no file, or two files have the same name.
    """
    by_name: dict[str, InputFile] = {}
    for word in words:
        for source in _sources_of(absolute(word)):
            if source.name in by_name:
                raise UsageError(
                    f"--input {word}: two files are called {source.name}; name the folder above "
                    "both"
                )
            by_name[source.name] = source
    return list(by_name.values())


def _sources_of(word: str) -> list[InputFile]:
    parent, name = _split(word)
    if open_storage(parent).state(name) is not None:
        return [InputFile(parent, name)]
    folder = open_storage(word)
    sources = [InputFile(word, name) for name in folder.names() if not _is_hidden(name)]
    if not sources:
        raise UsageError(f"--input {word}: no file is there")
    return sources


def _split(word: str) -> tuple[str, str]:
    """The folder and the name of a possible file."""
    path, mark, query = word.partition("?") if _SCHEME in word else (word, "", "")
    folder, _, name = path.rstrip("/").rpartition("/")
    return f"{folder or '/'}{mark}{query}", name


def _is_hidden(name: str) -> bool:
    return any(part.startswith((".", "_")) for part in name.split("/"))
