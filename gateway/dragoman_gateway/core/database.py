"""One connection to SQLite, in a thread of its own."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

_Found = TypeVar("_Found")


class SqliteDatabase:
    """Does work in transactions, one at a time."""

    def __init__(self, file: Path | None, schema: str) -> None:
        """Open the file, or a database in memory, and make its tables."""
        self._thread = ThreadPoolExecutor(1, "dragoman-database")
        self._connection = self._thread.submit(self._open, file, schema).result()

    async def run(self, work: Callable[[sqlite3.Connection], _Found]) -> _Found:
        """Do something in a transaction of its own, in the thread of the connection."""
        return await asyncio.wrap_future(self._thread.submit(self._within, work))

    def close(self) -> None:
        """Finish what is under way, and close."""
        self._thread.submit(self._connection.close).result()
        self._thread.shutdown()

    def _within(self, work: Callable[[sqlite3.Connection], _Found]) -> _Found:
        with self._connection:
            return work(self._connection)

    @staticmethod
    def _open(file: Path | None, schema: str) -> sqlite3.Connection:
        connection = sqlite3.connect(file or ":memory:")
        connection.executescript("PRAGMA journal_mode = WAL; PRAGMA foreign_keys = ON;" + schema)
        return connection
