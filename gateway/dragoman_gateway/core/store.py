"""The gateway's persistent state: one SQLite file for keys, usage, glossaries and memories.

`open_database` opens and migrates the file. While the gateway runs, one thread writes and two
threads read, so that the event loop never waits for a disk, and keys do not wait for glossaries.
The SQL is in functions that take a connection; the command line calls them directly, the gateway
through `Store`.
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
from dragoman_gateway.core.errors import DiskFull, Unavailable
from dragoman_gateway.core.settings import GIVE_A_FOLDER

_T = TypeVar("_T")

FILE_NAME = "gateway.db"
"""Name of the file in the gateway's folder."""
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
        # Allows summing up sizes without reading entries.
        "CREATE INDEX dictionary_sizes ON dictionaries (glossary_id, size_bytes)",
    ),
    (
        # The segments of each are in a file of its own, since an import takes long.
        """CREATE TABLE memories (
            id TEXT PRIMARY KEY,
            owner TEXT NOT NULL,
            name TEXT NOT NULL,
            created TEXT NOT NULL,
            updated TEXT NOT NULL,
            source_language TEXT NOT NULL,
            target_language TEXT NOT NULL,
            segment_count INTEGER NOT NULL,
            size_bytes INTEGER NOT NULL
        )""",
        "CREATE INDEX memories_by_owner ON memories (owner)",
    ),
)
"""Statements from each schema version to the next. Never change a released version: append one.
SQLite 3.34 must support them: no STRICT, no RETURNING."""
VERSION = len(_MIGRATIONS)
"""Version of the schema, stored in the file's `user_version`."""
_BUSY_MS = 5000
"""How long a write waits for the write of another process."""
_RETRY_S = 0.01


def open_database(folder: Path | None, must_exist: bool = False) -> sqlite3.Connection:
    """Open the state of a gateway, and migrate its schema.

    Args:
        folder: folder of the file, created for this user only if it does not exist. None: in
            memory.
        must_exist: refuse a folder without the file instead of creating it.

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
    """Commit all writes inside, or roll back if an exception is raised."""
    connection.execute(begin)
    try:
        yield connection
        connection.execute("COMMIT")  # fails on a full disk
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def writing_errors(path: Path | None) -> Iterator[None]:
    """Convert errors of SQLite to one-line messages for operators.

    Raises:
        UsageError: SQLite raised an error inside.
    """
    try:
        yield
    except sqlite3.OperationalError as error:
        reason = "the disk is full" if _is_full(error) else error
        raise UsageError(f"{path}: cannot be used: {reason}") from error
    except sqlite3.DatabaseError as error:
        raise UsageError(
            f"{path}: is damaged or not a SQLite file ({error}): restore a backup, or move it away"
        ) from error


def back_up(connection: sqlite3.Connection, path: Path) -> None:
    """Make a consistent copy of a database that may be in use.

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
            copy.execute("PRAGMA journal_mode = DELETE")  # a single file, without a log file
        finally:
            copy.close()


class Store:
    """The state of a running gateway.

    Reads see earlier writes of the same caller, since it awaits the writes.
    """

    def __init__(self, folder: Path | None) -> None:
        """Open the store; see `open_database`."""
        self._writes = open_database(folder)
        self._writer = ThreadPoolExecutor(1, "store-writer")
        # An in-memory database has only one connection.
        self._readers = 2 * [(self._writes, self._writer)]
        if folder is not None:
            self._readers = []
            for name in ("store-reader", "store-long-reader"):
                connection = _connect(folder / FILE_NAME)
                connection.execute("PRAGMA query_only = 1")
                self._readers.append((connection, ThreadPoolExecutor(1, name)))

    async def write(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Run a function in a transaction, after all earlier writes.

        The function is completed even if the waiting task is cancelled.

        Raises:
            Unavailable: the file is not available.
            DiskFull: the disk is full.
        """

        def run() -> _T:
            with _using(), transaction(self._writes):
                return work(self._writes)

        return await asyncio.get_running_loop().run_in_executor(self._writer, run)

    async def read(self, work: Callable[[sqlite3.Connection], _T], *, is_long: bool = False) -> _T:
        """Run a function that only reads, on a consistent snapshot.

        Args:
            work: the function.
            is_long: whether it may read much; other functions do not wait for it.

        Raises:
            Unavailable: the file is not available.
        """
        connection, thread = self._readers[is_long]

        def run() -> _T:
            with _using(), transaction(connection, "BEGIN"):
                return work(connection)

        return await asyncio.get_running_loop().run_in_executor(thread, run)

    def close(self) -> None:
        """Finish pending work, and close the file."""
        for _, thread in (*self._readers, (self._writes, self._writer)):
            thread.shutdown()
        for connection, _ in (*self._readers, (self._writes, self._writer)):
            connection.close()


def _prepare(path: Path, must_exist: bool) -> None:
    """Create the folder and the file for this user only: SQLite would create it for all users.

    SQLite gives its additional files the mode of this file.
    """
    folder = path.parent
    if must_exist and not path.is_file():
        raise UsageError(f"{path}: does not exist: name the gateway's folder")
    try:
        if not folder.is_dir():
            folder.mkdir(mode=0o700, parents=True)
        if folder.stat().st_mode & stat.S_IWOTH:
            raise UsageError(f"{folder}: every user can write there: {GIVE_A_FOLDER}")
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
        try:
            if os.fstat(descriptor).st_mode & 0o077:
                os.fchmod(descriptor, 0o600)
        finally:
            os.close(descriptor)
    except OSError as error:
        message = f"{path}: cannot be written: {error.strerror}: {GIVE_A_FOLDER}"
        raise UsageError(message) from error


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

    SQLite itself does not wait if one process turns on the write-ahead log, or is the last to close
    the file, while others open it.
    """
    return getattr(error, "sqlite_errorname", "").startswith("SQLITE_BUSY")


def _is_full(error: sqlite3.Error) -> bool:
    """Whether the disk is full; the second error is that of a first connection."""
    # Errors of Python's module itself have no name.
    return getattr(error, "sqlite_errorname", "") in ("SQLITE_FULL", "SQLITE_IOERR_SHMSIZE")


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
    (report,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if report != "ok":
        raise sqlite3.DatabaseError(report)
    if _version(connection) == VERSION:
        return
    with transaction(connection):
        version = _version(connection)  # another process may have been first
        if version > VERSION:
            raise UsageError(
                f"{path}: was written by a newer version of Dragoman (schema version {version}, "
                f"this one supports {VERSION}): upgrade Dragoman, or restore a backup"
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
    """Convert errors of SQLite in a request, except violated constraints."""
    try:
        yield
    except sqlite3.IntegrityError:
        raise
    except sqlite3.DatabaseError as error:
        if _is_full(error):
            raise DiskFull from error
        raise Unavailable(f"the gateway's store is not available: {error}") from error
