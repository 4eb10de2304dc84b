"""The gateway's state: one SQLite file for keys, usage and glossaries.

The file is opened and brought up to date by `open_database`. While the gateway runs, one thread
writes and one thread reads, so that the event loop never waits for a disk. Functions that take a
connection hold the SQL; the command line calls them directly, the gateway through `Store`.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from dragoman.kernel.errors import UsageError
from dragoman_gateway.core.errors import Unavailable

_T = TypeVar("_T")

FILE_NAME = "gateway.db"
"""In the gateway's folder."""
_MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE keys (
            id TEXT PRIMARY KEY,
            secret_hash BLOB NOT NULL UNIQUE,
            is_foreign INTEGER NOT NULL,
            label TEXT NOT NULL,
            created_s INTEGER NOT NULL,
            expires_s INTEGER,
            revoked_s INTEGER,
            last_used_day TEXT,
            protocols TEXT,
            caches INTEGER NOT NULL,
            requests_per_minute INTEGER,
            characters_per_minute INTEGER,
            characters_per_month INTEGER,
            characters_per_request INTEGER,
            concurrent_requests INTEGER
        )""",
        """CREATE TABLE usage (
            name TEXT NOT NULL,
            month TEXT NOT NULL,
            characters INTEGER NOT NULL,
            requests INTEGER NOT NULL,
            PRIMARY KEY (name, month)
        )""",
        # `entries` is a JSON object, `version` changes with it.
        """CREATE TABLE glossaries (
            id TEXT PRIMARY KEY,
            owner TEXT NOT NULL,
            name TEXT NOT NULL,
            created TEXT NOT NULL
        )""",
        "CREATE INDEX glossaries_by_owner ON glossaries (owner)",
        """CREATE TABLE dictionaries (
            glossary_id TEXT NOT NULL REFERENCES glossaries (id) ON DELETE CASCADE,
            source_language TEXT NOT NULL,
            target_language TEXT NOT NULL,
            entries TEXT NOT NULL,
            entry_count INTEGER NOT NULL,
            version TEXT NOT NULL,
            PRIMARY KEY (glossary_id, source_language, target_language)
        )""",
        "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    ),
    (
        "ALTER TABLE dictionaries ADD COLUMN size_bytes INTEGER NOT NULL DEFAULT 0",
        "UPDATE dictionaries SET size_bytes = length(CAST(entries AS BLOB))",
        # By which sizes are summed up without reading entries.
        "CREATE INDEX dictionary_sizes ON dictionaries (glossary_id, size_bytes)",
    ),
)
"""Statements that lead from each version to the next. A version that was released never changes:
append another one. SQLite 3.34 must understand them: no STRICT, no RETURNING."""
VERSION = len(_MIGRATIONS)
"""Of the file's tables, in its `user_version`."""
_BUSY_MS = 5000
"""How long a write waits for that of another process."""
_RETRY_S = 0.01


def open_database(folder: Path | None, must_exist: bool = False) -> sqlite3.Connection:
    """Open the state of a gateway, and bring its tables up to date.

    Args:
        folder: it is made if it does not exist, for this user alone. None: in memory.
        must_exist: refuse a folder without the file, rather than make it.

    Returns:
        A connection in autocommit mode, for one thread at a time.

    Raises:
        UsageError: the file is damaged, was written by a newer version, or cannot be written.
    """
    path = None if folder is None else folder / FILE_NAME
    if path is not None:
        _prepare(path, must_exist)
    deadline_s = time.monotonic() + _BUSY_MS / 1000
    while True:
        try:
            with writing_errors(path):
                return _opened(path)
        except UsageError as error:
            if not _is_busy(error.__cause__) or time.monotonic() > deadline_s:
                raise
            time.sleep(_RETRY_S)


@contextmanager
def transaction(
    connection: sqlite3.Connection, begin: str = "BEGIN IMMEDIATE"
) -> Iterator[sqlite3.Connection]:
    """All that is written inside, or nothing if it raises."""
    connection.execute(begin)
    try:
        yield connection
        connection.execute("COMMIT")  # which fails on a full disk
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def writing_errors(path: Path | None) -> Iterator[None]:
    """Errors of SQLite as one line for who starts the gateway or a command.

    Raises:
        UsageError: SQLite raised one inside.
    """
    try:
        yield
    except sqlite3.OperationalError as error:
        raise UsageError(f"{path}: cannot be used: {error}") from error
    except sqlite3.DatabaseError as error:
        raise UsageError(
            f"{path}: is damaged or no SQLite file ({error}): restore a backup, or move it away"
        ) from error


def back_up(connection: sqlite3.Connection, path: Path) -> None:
    """Copy a database that may be in use, as it is at one moment.

    Raises:
        UsageError: the file exists, or cannot be written.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError as error:
        raise UsageError(f"{path}: exists already: give a new file") from error
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
    with writing_errors(path):
        copy = sqlite3.connect(path)
        try:
            connection.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # one file, without one beside it
        finally:
            copy.close()


class Store:
    """The state of a running gateway.

    Reads see what was written before them by the same caller, since a write is awaited.
    """

    def __init__(self, folder: Path | None) -> None:
        """Open it; see `open_database`."""
        self._writes = open_database(folder)
        self._writer = ThreadPoolExecutor(1, "store-writer")
        # What is in memory belongs to one connection.
        self._reads, self._reader = self._writes, self._writer
        if folder is not None:
            self._reads = _connect(folder / FILE_NAME)
            self._reads.execute("PRAGMA query_only = 1")
            self._reader = ThreadPoolExecutor(1, "store-reader")

    async def write(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Run a function in a transaction, after all writes that were asked for before.

        It runs to its end even if the task that waits for it is cancelled.

        Raises:
            Unavailable: the file cannot be used now, such as on a full disk.
        """

        def run() -> _T:
            with _using(), transaction(self._writes):
                return work(self._writes)

        return await asyncio.get_running_loop().run_in_executor(self._writer, run)

    async def read(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Run a function that only reads, all of it from one moment.

        Raises:
            Unavailable: the file cannot be used now.
        """

        def run() -> _T:
            with _using(), transaction(self._reads, "BEGIN"):
                return work(self._reads)

        return await asyncio.get_running_loop().run_in_executor(self._reader, run)

    def close(self) -> None:
        """Finish what was asked for, and close the file."""
        self._reader.shutdown()
        self._writer.shutdown()
        self._reads.close()
        self._writes.close()


def _prepare(path: Path, must_exist: bool) -> None:
    """Make the folder and the file, for this user alone: SQLite would make it for all.

    Its files beside it get the mode of the file from SQLite.
    """
    folder = path.parent
    if must_exist and not path.is_file():
        raise UsageError(f"{path}: does not exist: name the gateway's folder")
    try:
        if not folder.is_dir():
            folder.mkdir(mode=0o700, parents=True)
        if folder.stat().st_mode & stat.S_IWOTH:
            raise UsageError(
                f"{folder}: every user may write there: give a folder that only this user may write"
            )
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
        try:
            if os.fstat(descriptor).st_mode & 0o077:
                os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be written: {error.strerror}: give a folder that this user may write"
        ) from error


def _opened(path: Path | None) -> sqlite3.Connection:
    connection = _connect(path)
    try:
        _migrate(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _is_busy(error: BaseException | None) -> bool:
    """Whether another process had the file locked.

    SQLite does not wait for it by itself where one process turns on the write-ahead log, or closes
    the file as the last one, while others open it.
    """
    return getattr(error, "sqlite_errorname", "").startswith("SQLITE_BUSY")


def _connect(path: Path | None) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path or ":memory:",
        timeout=_BUSY_MS / 1000,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.execute("PRAGMA foreign_keys = 1")
    if path is not None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def _migrate(connection: sqlite3.Connection, path: Path | None) -> None:
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise sqlite3.DatabaseError(found)
    if _version(connection) == VERSION:
        return
    with transaction(connection):
        version = _version(connection)  # another process may have been first
        if version > VERSION:
            raise UsageError(
                f"{path}: was written by a newer version of Dragoman (tables of version {version}, "
                f"this one knows {VERSION}): upgrade Dragoman, or restore a backup"
            )
        for statements in _MIGRATIONS[version:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


@contextmanager
def _using() -> Iterator[None]:
    """Errors of SQLite for who sent a request; what a constraint refuses is the caller's."""
    try:
        yield
    except sqlite3.IntegrityError:
        raise
    except sqlite3.DatabaseError as error:
        raise Unavailable(f"the gateway's store cannot be used: {error}") from error
