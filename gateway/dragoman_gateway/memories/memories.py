"""Stored translation memories: each has a name, an owner, a direction, and a file of its own."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import tempfile
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from dragoman_client import Translation
from dragoman_documents.core.suggestions import Suggestions
from dragoman_documents.memory.memory_store import Match, Memory
from dragoman_documents.memory.memory_use import check_use, stored_translations, suggestions
from dragoman_documents.memory.pair_files import write_tmx
from dragoman_documents.memory.pairs import Pair
from dragoman_options.markup import Markup
from dragoman_options.table import AUTO

from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.errors import (
    DiskFull,
    InvalidInput,
    NotFound,
    TooLarge,
    TooManyRequests,
    Unavailable,
)
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.core.store import Store

ReadPairs = Callable[[], Awaitable[Sequence[Pair]]]
"""Reads the next pairs of a file; the last ones are empty."""
_STORED = "stored translation memories"
_MOST_NAME = 1024
_MOST_LANGUAGE = 40
_MOST_TEXT_CHARACTERS = 50_000
_RETRY_S = 1.0
_NOT_NOW = "the translation memory cannot be used now: try again"
_TMX_BYTES = 1 << 16
_SEARCHED_AT_ONCE = 100_000
"""Segments that a search for a part of a text reads."""
_Result = TypeVar("_Result")
_COLUMNS = "id, name, created, updated, source_language, target_language, segment_count, size_bytes"


@dataclass(frozen=True)
class StoredMemory:
    """A translation memory.

    Attributes:
        id: a UUID, in lower case with hyphens.
        name: name given by its owner; not necessarily unique.
        created: time of creation, UTC.
        updated: time of the last import, UTC.
        source_language: language of the texts.
        target_language: language of the translations.
        segment_count: number of segments.
        size_bytes: size of its file.
    """

    id: str
    name: str
    created: datetime
    updated: datetime
    source_language: str
    target_language: str
    segment_count: int = 0
    size_bytes: int = 0


class Memories:
    """The translation memories of all callers; each caller sees only its own.

    All methods raise `NotFound` for a memory that the caller does not have, and `KeyMissing` for
    callers without a required key.
    """

    def __init__(self, settings: GatewaySettings, store: Store) -> None:
        """Start; the first memory creates the folder.

        Args:
            settings: settings with the folder, and the limits of memories.
            store: store of the gateway.
        """
        self._settings, self._store = settings, store
        self._temporary: str | None = None
        self._adding = asyncio.Lock()
        """One import at a time: it takes a core, and the sum of sizes is that of finished ones."""

    async def close(self) -> None:
        """Wait for the end of an import, and remove the files of a gateway without a folder."""
        async with self._adding:
            pass
        if self._temporary is not None:
            await asyncio.to_thread(shutil.rmtree, self._temporary, ignore_errors=True)

    async def create(self, caller: Caller, name: str, languages: tuple[str, str]) -> StoredMemory:
        """Store a new, empty memory.

        Raises:
            InvalidInput: the name or a language is empty or too long.
            TooManyRequests: the caller has the maximum number of memories.
        """
        caller.check_owns(_STORED)
        name = _checked_name(name)
        if not all(0 < len(language) <= _MOST_LANGUAGE for language in languages):
            raise InvalidInput("a memory needs a source and a target language")
        now = datetime.now(UTC).replace(microsecond=0)
        stored = StoredMemory(str(uuid.uuid4()), name, now, now, *languages)
        most = self._settings.memories_per_owner

        def work(connection: sqlite3.Connection) -> None:
            count = "SELECT count(*) FROM memories WHERE owner = ?"
            if connection.execute(count, (caller.owner,)).fetchone()[0] >= most:
                raise TooManyRequests(f"there are {most} translation memories already: delete one")
            values = (stored.id, caller.owner, name, now.isoformat(), now.isoformat(), *languages)
            connection.execute(
                "INSERT INTO memories (id, owner, name, created, updated, source_language, "
                "target_language, segment_count, size_bytes) VALUES (?, ?, ?, ?, ?, ?, ?, 0, 0)",
                values,
            )

        path = self._path(stored.id)

        async def make() -> None:
            await _in_thread(lambda: Memory.create(path, languages, is_shared=True).close())
            await self._store.write(work)

        making = asyncio.create_task(make())
        try:
            await asyncio.shield(making)
        except BaseException:
            await asyncio.wait([making])  # its threads do not end when this task is cancelled
            if making.exception() is None:
                await self._remove_row(stored)
            await asyncio.to_thread(_remove, path)
            raise
        return stored

    async def all(self, caller: Caller) -> list[StoredMemory]:
        """Returns the caller's memories, oldest first."""
        caller.check_owns(_STORED)
        query = f"SELECT {_COLUMNS} FROM memories WHERE owner = ? ORDER BY created, rowid"  # noqa: S608 - constants
        rows = await self._store.read(
            lambda connection: connection.execute(query, (caller.owner,)).fetchall()
        )
        return [_stored(row) for row in rows]

    async def get(self, caller: Caller, memory_id: str) -> StoredMemory:
        """Returns a memory of the caller."""
        caller.check_owns(_STORED)
        query = f"SELECT {_COLUMNS} FROM memories WHERE id = ? AND owner = ?"  # noqa: S608 - constants
        folded = memory_id.strip().lower().encode("utf-8", "replace").decode()
        row = await self._store.read(
            lambda connection: connection.execute(query, (folded, caller.owner)).fetchone()
        )
        if row is None:
            raise NotFound(f"there is no translation memory {memory_id[:60]!r}")
        return _stored(row)

    async def delete(self, caller: Caller, memory_id: str) -> None:
        """Remove a memory."""
        stored = await self.get(caller, memory_id)
        await self._remove_row(stored)
        await asyncio.to_thread(_remove, self._path(stored.id))

    async def add(self, caller: Caller, memory_id: str, read: ReadPairs) -> StoredMemory:
        """Add the pairs of a file; all of them, or none if an error is raised.

        If the task is cancelled, this goes on until `read` raises an error or all pairs are added.

        Raises:
            InvalidInput: the file does not have its format, or no translation in this direction.
            TooLarge: the memory would be too large, or the caller's memories together.
            TooManyRequests: the memories of all callers are too large.
        """
        stored = await self.get(caller, memory_id)
        # Its thread may commit after this task is cancelled: then the size must be stored too.
        return await asyncio.shield(asyncio.create_task(self._add(caller, stored, read)))

    async def tmx(self, caller: Caller, memory_id: str) -> AsyncGenerator[bytes, None]:
        """Returns a generator of a memory in TMX 1.4; the memory is open."""
        stored = await self.get(caller, memory_id)
        return _tmx(await _in_thread(lambda: _opened(self._path(stored.id))), stored)

    async def search(
        self, caller: Caller, memory_id: str, text: str, least: int, most: int
    ) -> list[Match]:
        """Returns the most similar pairs of a memory; see `Memory.similar`."""
        stored = await self.get(caller, memory_id)
        if len(text) > _MOST_TEXT_CHARACTERS:
            raise TooLarge(f"text has more than {_MOST_TEXT_CHARACTERS:,} characters")
        return await self._use(stored, lambda memory: memory.similar(text, least=least, most=most))

    async def page(
        self, caller: Caller, memory_id: str, after: int, most: int, part: str, has_case: bool
    ) -> tuple[list[tuple[int, Pair]], int | None]:
        """Returns pairs with their numbers, in the order in which they were added.

        Args:
            caller: the owner.
            memory_id: id of the memory.
            after: number of the last pair that is not needed.
            most: maximum number of pairs.
            part: what a text or its translation contains; empty: anything.
            has_case: whether its case matters.

        Returns:
            The pairs, and the number after which the search continues; None: there are no more.
        """
        stored = await self.get(caller, memory_id)
        folded = part if has_case else part.lower()

        def work(memory: Memory) -> tuple[list[tuple[int, Pair]], int | None]:
            page: list[tuple[int, Pair]] = []
            for read, (number, pair) in enumerate(memory.pairs(after), start=1):
                both = f"{pair.source}\0{pair.target}"
                if folded in (both if has_case else both.lower()):
                    page.append((number, pair))
                if len(page) == most or read == _SEARCHED_AT_ONCE:
                    return page, number
            return page, None

        return await self._use(stored, work)

    async def stored(
        self,
        caller: Caller,
        memory_id: str,
        texts: Sequence[str],
        markups: Sequence[Markup],
        options: Mapping[str, Any],
    ) -> list[Translation | None]:
        """Returns the translations that a memory has.

        Args:
            caller: the owner.
            memory_id: id of the memory.
            texts: texts of a request, in the order of their document.
            markups: markup of each text; empty: none.
            options: checked options of the request.

        Raises:
            InvalidInput: the request cannot use the memory.
        """
        stored = await self.get(caller, memory_id)
        languages = stored.source_language, stored.target_language
        try:
            check_use(options, languages, "memory_id")
        except ValueError as error:
            raise InvalidInput(str(error)) from error
        translations = await self._use(
            stored, lambda memory: stored_translations(memory, texts, markups)
        )
        if str(options.get("source_language")).lower() != AUTO:
            return translations
        source = stored.source_language
        return [
            translation and replace(translation, detected_language=source, detected_probability=1.0)
            for translation in translations
        ]

    async def suggestions(
        self, caller: Caller, memory_id: str, texts: Sequence[str], markups: Sequence[Markup]
    ) -> Sequence[Suggestions]:
        """Returns the translations of similar texts that a memory has, for each text."""
        stored = await self.get(caller, memory_id)
        return await self._use(
            stored, lambda memory: suggestions(memory, texts, markups, stored.name)
        )

    async def _add(self, caller: Caller, stored: StoredMemory, read: ReadPairs) -> StoredMemory:
        loop = asyncio.get_running_loop()

        def pairs() -> Iterator[Pair]:
            while some := asyncio.run_coroutine_threadsafe(_awaited(read), loop).result():
                yield from some

        async with self._adding:
            most_bytes = await self._free_bytes(caller, stored)

            def work(memory: Memory) -> tuple[int, int]:
                most = self._settings.memory_segments
                try:
                    added = memory.add(pairs(), most=most, most_bytes=most_bytes)
                except ValueError as error:
                    raise TooLarge(str(error)) from error
                if not added:
                    direction = f"{stored.source_language} to {stored.target_language}"
                    raise InvalidInput(f"the file has no translations from {direction}")
                return len(memory), memory.size_bytes

            number, size_bytes = await self._use(stored, work)
            now = datetime.now(UTC).replace(microsecond=0)
            values = (number, size_bytes, now.isoformat(), stored.id)
            update = (
                "UPDATE memories SET segment_count = ?, size_bytes = ?, updated = ? WHERE id = ?"
            )
            await self._store.write(lambda connection: connection.execute(update, values))
        return replace(stored, segment_count=number, size_bytes=size_bytes, updated=now)

    async def _remove_row(self, stored: StoredMemory) -> None:
        await self._store.write(
            lambda connection: connection.execute("DELETE FROM memories WHERE id = ?", (stored.id,))
        )

    async def _free_bytes(self, caller: Caller, stored: StoredMemory) -> int:
        """Returns the maximum size of a memory, from those of all others."""

        def read(connection: sqlite3.Connection) -> tuple[int, int]:
            total = "SELECT coalesce(sum(size_bytes), 0) FROM memories WHERE id != ?"
            (together,) = connection.execute(total, (stored.id,)).fetchone()
            own = f"{total} AND owner = ?"
            (of_owner,) = connection.execute(own, (stored.id, caller.owner)).fetchone()
            return together, of_owner

        together, of_owner = await self._store.read(read)
        settings = self._settings
        if together + stored.size_bytes >= settings.memory_bytes_together:
            raise TooManyRequests("the gateway has reached its limit of translation memories")
        most_bytes = settings.memory_bytes_per_owner - of_owner
        return max(0, min(settings.memory_bytes_together - together, most_bytes))

    async def _use(self, stored: StoredMemory, work: Callable[[Memory], _Result]) -> _Result:
        """Run a function with an open memory, in a thread."""

        def run() -> _Result:
            with _opened(self._path(stored.id)) as memory:
                return work(memory)

        return await _in_thread(run)

    def _path(self, memory_id: str) -> Path:
        folder = self._settings.folder
        if folder is None:
            self._temporary = self._temporary or tempfile.mkdtemp(prefix="dragoman-memories-")
            folder = Path(self._temporary)
        (folder / "memories").mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder / "memories" / f"{memory_id}.sqlite"


async def _tmx(memory: Memory, stored: StoredMemory) -> AsyncGenerator[bytes, None]:
    try:
        pairs = (pair for _, pair in memory.pairs())
        written = write_tmx(pairs, (stored.source_language, stored.target_language))
        while content := await _in_thread(lambda: _chunk(written)):
            yield content
    finally:
        await asyncio.to_thread(memory.close)


async def _awaited(read: ReadPairs) -> Sequence[Pair]:
    return await read()


async def _in_thread(work: Callable[[], _Result]) -> _Result:
    """Run a function of a memory in a thread."""
    try:
        return await asyncio.to_thread(work)
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorname", "") == "SQLITE_FULL":
            raise DiskFull from error
        raise Unavailable(_NOT_NOW, _RETRY_S) from error


def _opened(path: Path) -> Memory:
    """Open a memory."""
    try:
        return Memory.open(path)
    except FileNotFoundError:
        raise NotFound("the translation memory was deleted just now") from None
    except (OSError, ValueError) as error:
        raise Unavailable(_NOT_NOW, _RETRY_S) from error


def _chunk(written: Iterator[bytes]) -> bytes:
    chunk = bytearray()
    for content in written:
        chunk += content
        if len(chunk) >= _TMX_BYTES:
            break
    return bytes(chunk)


def _remove(path: Path) -> None:
    for ending in ("", "-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)


def _checked_name(name: str) -> str:
    name = name.strip()
    if not name or len(name) > _MOST_NAME:
        raise InvalidInput(f"name: give 1 to {_MOST_NAME} characters")
    return name.encode("utf-8", "replace").decode()


def _stored(row: Any) -> StoredMemory:
    memory_id, name, created, updated, *others = row
    times = datetime.fromisoformat(created), datetime.fromisoformat(updated)
    return StoredMemory(memory_id, name, *times, *others)
