"""Usage of callers, counted in memory and written to the store each second."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from dragoman_gateway.core.errors import Unavailable
from dragoman_gateway.core.store import Store

_LOG = logging.getLogger(__name__)
_FLUSH_S = 1.0
_KEPT = 10_000
"""Maximum number of counts in memory, except unwritten ones."""


@dataclass(frozen=True)
class Usage:
    """The usage of a caller in a month.

    Attributes:
        characters: characters of source text, in Unicode code points.
        requests: number of admitted requests.
        characters_limit: limit of characters per month; None: no limit.
        begin: beginning of the month, UTC.
        end: beginning of the next month.
    """

    characters: int
    requests: int
    characters_limit: int | None
    begin: datetime
    end: datetime


@dataclass(frozen=True)
class Month:
    """A calendar month, UTC.

    Attributes:
        name: name such as 2026-11.
        begin: beginning of the month.
        end: beginning of the next month.
        end_s: the same, as Unix time.
    """

    name: str
    begin: datetime
    end: datetime
    end_s: float

    @classmethod
    def of(cls, now_s: float) -> Month:
        """Returns the month of a Unix time."""
        now = datetime.fromtimestamp(now_s, UTC)
        begin = datetime(now.year, now.month, 1, tzinfo=UTC)
        end = datetime(now.year + now.month // 12, now.month % 12 + 1, 1, tzinfo=UTC)
        return cls(f"{begin:%Y-%m}", begin, end, end.timestamp())


@dataclass(slots=True)
class _Count:
    """The usage of one name in one month, as pairs of characters and requests.

    `written` is the state of the store when it was last read or written; None: not read yet.
    `being_written` is counted separately until the write has succeeded or failed.
    """

    written: tuple[int, int] | None = None
    being_written: tuple[int, int] = (0, 0)
    waiting: tuple[int, int] = (0, 0)

    def total(self) -> tuple[int, int]:
        return _sum(_sum(self.written or (0, 0), self.being_written), self.waiting)


class UsageCounter:
    """Counts characters and requests by name and month.

    A process that is killed loses the counts of the last second. A regular exit loses nothing, and
    nothing is counted twice: counts that could not be written wait for the next write.
    """

    def __init__(self, store: Store) -> None:
        """Prepare; `open` starts writing."""
        self._store = store
        self._counts: OrderedDict[tuple[str, str], _Count] = OrderedDict()
        self._used_keys: dict[str, str] = {}
        """The day of the last use by key, if not written yet."""
        self._noted_keys: dict[str, str] = {}
        """The same for all keys used on the current day."""
        self._flushing = asyncio.Lock()
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_failing = False

    def open(self) -> None:
        """Start writing each second."""
        self._task = asyncio.create_task(self._flush_regularly())

    async def close(self) -> None:
        """Write the rest."""
        self._stopping.set()
        if self._task is not None:
            await self._task
        await self._flush_if_possible()

    def add(self, name: str, month: str, characters: int, requests: int) -> None:
        """Add to the counts of a month; negative numbers refund."""
        count = self._count(name, month)
        count.waiting = _sum(count.waiting, (characters, requests))

    def note_use(self, key_id: str, day: str) -> None:
        """Record that a key was used."""
        if self._noted_keys.get(key_id) != day:
            self._noted_keys[key_id] = self._used_keys[key_id] = day

    async def read(self, name: str, month: str) -> None:
        """Read the counts of the store, unless they are known, so that `total` includes them.

        Raises:
            Unavailable: the store is not available.
        """
        if self._count(name, month).written is None:
            # Not during a write: it would be unknown whether the read includes it.
            async with self._flushing:
                written = await self._store.read(lambda db: _read(db, name, month))
                self._count(name, month).written = written

    def total(self, name: str, month: str) -> tuple[int, int]:
        """Returns characters and requests so far; includes the store only after `read`."""
        return self._count(name, month).total()

    async def flush(self) -> None:
        """Write the waiting counts.

        Raises:
            Unavailable: the store is not available; the counts wait for the next write.
        """
        async with self._flushing:
            written = {}
            for key, count in self._counts.items():
                if count.waiting != (0, 0):
                    written[key] = count.being_written = count.waiting
                    count.waiting = (0, 0)
            used, self._used_keys = self._used_keys, {}
            if not written and not used:
                return
            try:
                totals = await self._store.write(lambda db: _write(db, written, used))
            except BaseException:
                for key, pair in written.items():
                    count = self._counts[key]
                    count.being_written, count.waiting = (0, 0), _sum(count.waiting, pair)
                self._used_keys = used | self._used_keys
                raise
            for key, total in totals.items():
                count = self._counts[key]
                count.written, count.being_written = total, (0, 0)
            self._drop_old()

    def _count(self, name: str, month: str) -> _Count:
        key = (name, month)
        if (count := self._counts.get(key)) is None:
            count = self._counts[key] = _Count()
        self._counts.move_to_end(key)
        return count

    def _drop_old(self) -> None:
        """Remove written counts that were not used for long; they can be read again."""
        for _ in range(len(self._counts) - _KEPT):
            key, count = next(iter(self._counts.items()))
            if count.waiting == (0, 0):
                del self._counts[key]
            else:
                self._counts.move_to_end(key)
        today = max(self._noted_keys.values(), default="")
        self._noted_keys = {key_id: day for key_id, day in self._noted_keys.items() if day == today}

    async def _flush_regularly(self) -> None:
        while not self._stopping.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FLUSH_S):
                    await self._stopping.wait()
            await self._flush_if_possible()

    async def _flush_if_possible(self) -> None:
        try:
            await self.flush()
        except Unavailable as error:
            if not self._is_failing:
                _LOG.warning("usage is only counted in memory for now: %s", error)
            self._is_failing = True
        else:
            self._is_failing = False


def month_usage(connection: sqlite3.Connection, month: str) -> dict[str, tuple[int, int]]:
    """Returns the written characters and requests of a month by name."""
    query = "SELECT name, characters, requests FROM usage WHERE month = ?"
    rows = connection.execute(query, (month,))
    return {name: (characters, requests) for name, characters, requests in rows}


def _sum(counts: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return counts[0] + other[0], counts[1] + other[1]


def _read(connection: sqlite3.Connection, name: str, month: str) -> tuple[int, int]:
    query = "SELECT characters, requests FROM usage WHERE name = ? AND month = ?"
    row = connection.execute(query, (name, month)).fetchone()
    return row or (0, 0)


def _write(
    connection: sqlite3.Connection,
    counts: Mapping[tuple[str, str], tuple[int, int]],
    used: Mapping[str, str],
) -> dict[tuple[str, str], tuple[int, int]]:
    """Add counts to those of the store.

    Returns:
        The new counts of the store; other processes may have added to them too.
    """
    connection.executemany(
        """INSERT INTO usage (name, month, characters, requests) VALUES (?, ?, ?, ?)
        ON CONFLICT (name, month) DO UPDATE SET
            characters = characters + excluded.characters,
            requests = requests + excluded.requests""",
        [(*key, *pair) for key, pair in counts.items()],
    )
    connection.executemany(
        "UPDATE keys SET last_used_day = ? WHERE id = ?",
        [(day, key_id) for key_id, day in used.items()],
    )
    return {key: _read(connection, *key) for key in counts}
