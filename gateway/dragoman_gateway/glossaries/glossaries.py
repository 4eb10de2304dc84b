"""Stored glossaries: each has a name, an owner and a dictionary for each direction."""

from __future__ import annotations

import asyncio
import json
import secrets
import sqlite3
import uuid
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from dragoman_options.languages import fold_language
from dragoman_options.refusal import Refusal
from dragoman_options.table import OPTIONS

from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.errors import (
    InvalidInput,
    NotFound,
    TooLarge,
    TooManyRequests,
    Unavailable,
)
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.core.store import Store
from dragoman_gateway.glossaries.term_index import TermIndex, Terms

_MOST_NAME = 1024
_STORED = "stored glossaries"
_MOST_TRIES = 5
"""How often a merge is tried while others change the dictionary."""
_RETRY_S = 1.0
_MOST_DICTIONARIES = 100
"""Maximum number of dictionaries in a glossary."""
_Row = tuple[str, str, str, int]
"""The row of a dictionary: languages, entries as JSON, and their number."""
_INDEX_BYTES = 256 << 20
"""Maximum memory of all cached indexes."""


@dataclass(frozen=True)
class Dictionary:
    """The terms of a direction.

    Attributes:
        source_language: code of the source terms' language.
        target_language: code of the target terms' language.
        entries: target terms by source term; None: not read from the store.
        entry_count: number of entries.
    """

    source_language: str
    target_language: str
    entries: Mapping[str, str] | None
    entry_count: int


@dataclass(frozen=True)
class Glossary:
    """A glossary.

    Attributes:
        id: a UUID, in lower case with hyphens.
        name: name given by its owner; not necessarily unique.
        created: time of creation, UTC.
        dictionaries: one dictionary for each direction.
    """

    id: str
    name: str
    created: datetime
    dictionaries: tuple[Dictionary, ...]


class Glossaries:
    """The glossaries of all callers; each caller sees only its own.

    All methods raise `NotFound` for a glossary or a dictionary that the caller does not have,
    `InvalidInput` for invalid terms, and `KeyMissing` for callers without a required key.
    """

    def __init__(self, settings: GatewaySettings, store: Store) -> None:
        """Start with an empty cache of indexes.

        Args:
            settings: settings with the limits of glossaries.
            store: store of the gateway.
        """
        self._settings, self._store = settings, store
        self._indexes: OrderedDict[str, TermIndex] = OrderedDict()
        """Cached indexes by version, the least recently used first."""
        self._index_bytes = 0

    async def create(
        self, caller: Caller, name: str, dictionaries: Sequence[Dictionary]
    ) -> Glossary:
        """Store a new glossary.

        Raises:
            TooManyRequests: the caller has the maximum number of glossaries.
            TooLarge: a dictionary has too many entries, or the caller's dictionaries are too
                large.
        """
        caller.check_owns(_STORED)
        name = _checked_name(name)
        directions = [
            (dictionary.source_language, dictionary.target_language) for dictionary in dictionaries
        ]
        for number, direction in enumerate(directions):
            if direction in directions[:number]:
                raise InvalidInput(f"two dictionaries from {direction[0]} into {direction[1]}")
        if len(dictionaries) > _MOST_DICTIONARIES:
            raise TooLarge(f"a glossary has at most {_MOST_DICTIONARIES} dictionaries")
        # In a thread: 100,000 entries take 0.3 s.
        written = [
            await asyncio.to_thread(self._written, dictionary) for dictionary in dictionaries
        ]
        glossary_id, created = str(uuid.uuid4()), datetime.now(UTC).replace(microsecond=0)
        most = self._settings.glossaries_per_owner

        def work(connection: sqlite3.Connection) -> None:
            count = "SELECT count(*) FROM glossaries WHERE owner = ?"
            if connection.execute(count, (caller.owner,)).fetchone()[0] >= most:
                raise TooManyRequests(f"there are {most} glossaries already: delete one")
            connection.execute(
                "INSERT INTO glossaries (id, owner, name, created) VALUES (?, ?, ?, ?)",
                (glossary_id, caller.owner, name, created.isoformat()),
            )
            for row in written:
                _put(connection, glossary_id, row)
            self._check_bytes(connection, caller)

        await self._store.write(work)
        return await self.get(caller, glossary_id)

    async def all(self, caller: Caller) -> list[Glossary]:
        """Returns the caller's glossaries, without entries, oldest first."""
        caller.check_owns(_STORED)

        def read(connection: sqlite3.Connection) -> list[Glossary]:
            ids = "SELECT id FROM glossaries WHERE owner = ? ORDER BY created, rowid"
            rows = connection.execute(ids, (caller.owner,)).fetchall()
            return [_glossary(connection, caller, glossary_id) for (glossary_id,) in rows]

        return await self._store.read(read, is_long=True)

    async def get(self, caller: Caller, glossary_id: str, entries: bool = False) -> Glossary:
        """Returns a glossary of the caller."""
        caller.check_owns(_STORED)

        def read(connection: sqlite3.Connection) -> tuple[Glossary, list[str]]:
            glossary = _glossary(connection, caller, glossary_id)
            return glossary, _all_entries(connection, glossary.id) if entries else []

        glossary, written = await self._store.read(read, is_long=True)
        if not entries:
            return glossary
        parsed = await asyncio.to_thread(lambda: [json.loads(text) for text in written])
        pairs = zip(glossary.dictionaries, parsed, strict=True)
        return replace(
            glossary,
            dictionaries=tuple(replace(dictionary, entries=terms) for dictionary, terms in pairs),
        )

    async def rename(self, caller: Caller, glossary_id: str, name: str) -> Glossary:
        """Rename a glossary."""
        caller.check_owns(_STORED)
        name = _checked_name(name)

        def work(connection: sqlite3.Connection) -> Glossary:
            stored_id = _own(connection, caller, glossary_id)
            connection.execute("UPDATE glossaries SET name = ? WHERE id = ?", (name, stored_id))
            return _glossary(connection, caller, glossary_id)

        return await self._store.write(work)

    async def put(
        self, caller: Caller, glossary_id: str, dictionary: Dictionary, merge: bool = False
    ) -> Glossary:
        """Add or replace the dictionary of a direction, or merge entries into it.

        Raises:
            TooLarge: it has too many entries, or the caller's dictionaries are too large.
            TooManyRequests: the dictionaries of all callers are too large.
        """
        caller.check_owns(_STORED)
        row = await asyncio.to_thread(self._written, dictionary)
        for _ in range(_MOST_TRIES if merge else 1):
            # What takes long is done in none of the store's threads.
            former, written = None, row
            if merge and (former := await self._entries(caller, glossary_id, row)) is not None:
                written = await asyncio.to_thread(self._merged, former[0], row)
            version = former and former[1]
            stored = await self._put(caller, glossary_id, written, merge, version)
            if stored is not None:
                return stored
        raise Unavailable("the dictionary is being changed by other requests: try again", _RETRY_S)

    async def _put(
        self, caller: Caller, glossary_id: str, row: _Row, merge: bool, version: str | None
    ) -> Glossary | None:
        """Store a dictionary; None: it was merged with another version than the stored one."""

        def work(connection: sqlite3.Connection) -> Glossary | None:
            stored_id = _own(connection, caller, glossary_id)
            if merge:
                stored = _entries(connection, stored_id, *row[:2])
                if (stored and stored[1]) != version:
                    return None
            _put(connection, stored_id, row)
            self._check_bytes(connection, caller)
            counted = "SELECT count(*) FROM dictionaries WHERE glossary_id = ?"
            if connection.execute(counted, (stored_id,)).fetchone()[0] > _MOST_DICTIONARIES:
                raise TooLarge(f"a glossary has at most {_MOST_DICTIONARIES} dictionaries")
            return _glossary(connection, caller, stored_id)

        return await self._store.write(work)

    async def delete_dictionary(
        self, caller: Caller, glossary_id: str, source_language: str, target_language: str
    ) -> None:
        """Remove the dictionary of a direction."""
        caller.check_owns(_STORED)

        def work(connection: sqlite3.Connection) -> None:
            stored_id = _own(connection, caller, glossary_id)
            removed = connection.execute(
                "DELETE FROM dictionaries WHERE glossary_id = ? AND source_language = ? "
                "AND target_language = ?",
                (stored_id, source_language, target_language),
            )
            if not removed.rowcount:
                raise NotFound(
                    f"glossary {stored_id} has no dictionary from {source_language[:40]!r} into "
                    f"{target_language[:40]!r}"
                )

        await self._store.write(work)

    async def delete(self, caller: Caller, glossary_id: str) -> None:
        """Remove a glossary."""
        caller.check_owns(_STORED)

        def work(connection: sqlite3.Connection) -> None:
            stored_id = _own(connection, caller, glossary_id)
            connection.execute("DELETE FROM dictionaries WHERE glossary_id = ?", (stored_id,))
            connection.execute("DELETE FROM glossaries WHERE id = ?", (stored_id,))

        await self._store.write(work)

    async def fitting(
        self, caller: Caller, glossary_ids: Sequence[str], direction: tuple[str, str]
    ) -> list[str]:
        """Returns the ids of the glossaries with a dictionary for a direction."""
        rows = await self._dictionaries(caller, glossary_ids, direction)
        return [row[0] for row in rows if row is not None]

    async def terms(
        self, caller: Caller, glossary_ids: Sequence[str], direction: tuple[str, str], strict: bool
    ) -> Terms:
        """Returns the terms of glossaries for a direction.

        Args:
            caller: the sender of the request.
            glossary_ids: ids of its glossaries, in order of precedence.
            direction: the server's codes of the source and target language.
            strict: whether each glossary must have a dictionary for the direction.

        Raises:
            InvalidInput: a required dictionary is missing.
        """
        rows = await self._dictionaries(caller, glossary_ids, direction)
        indexes = []
        for glossary_id, row in zip(glossary_ids, rows, strict=True):
            if row is not None:
                indexes.append(await self._index(*row))
            elif strict:
                raise InvalidInput(
                    f"glossary {glossary_id} has no dictionary from {direction[0]} into "
                    f"{direction[1]}"
                )
        return Terms(tuple(indexes))

    async def _dictionaries(
        self, caller: Caller, glossary_ids: Sequence[str], direction: tuple[str, str]
    ) -> list[tuple[str, int, str] | None]:
        """Calls `_fitting` for each glossary."""
        if not glossary_ids:
            return []
        caller.check_owns(_STORED)
        return await self._store.read(
            lambda db: [
                _fitting(db, caller, glossary_id, direction) for glossary_id in glossary_ids
            ],
            is_long=True,
        )

    async def _index(self, glossary_id: str, entries_row: int, version: str) -> TermIndex:
        """Returns the index of a dictionary's current version, from the cache if possible."""
        if (index := self._indexes.get(version)) is not None:
            self._indexes.move_to_end(version)
            return index

        def work(connection: sqlite3.Connection) -> str | None:
            entries = "SELECT entries FROM dictionaries WHERE rowid = ? AND version = ?"
            row = connection.execute(entries, (entries_row, version)).fetchone()
            return row[0] if row else None

        written = await self._store.read(work, is_long=True)
        if written is None:
            raise NotFound(f"glossary {glossary_id} was changed or deleted just now: try again")
        index = await asyncio.to_thread(lambda: TermIndex(json.loads(written)))
        if version not in self._indexes:
            self._indexes[version] = index
            self._index_bytes += index.size_bytes
            while self._index_bytes > _INDEX_BYTES and len(self._indexes) > 1:
                _, dropped = self._indexes.popitem(last=False)
                self._index_bytes -= dropped.size_bytes
        return index

    def _check_bytes(self, connection: sqlite3.Connection, caller: Caller) -> None:
        """Check the total size of dictionaries before a change is committed."""
        (total,) = connection.execute("SELECT sum(size_bytes) FROM dictionaries").fetchone()
        if (total or 0) > self._settings.glossary_bytes_together:
            raise TooManyRequests("the gateway has reached its limit of glossaries: try later")
        (own,) = connection.execute(
            "SELECT sum(size_bytes) FROM dictionaries WHERE glossary_id IN "
            "(SELECT id FROM glossaries WHERE owner = ?)",
            (caller.owner,),
        ).fetchone()
        if (own or 0) > (most := self._settings.glossary_bytes_per_owner):
            raise TooLarge(f"your glossaries have more than {most:,} bytes together: delete one")

    async def _entries(self, caller: Caller, glossary_id: str, row: _Row) -> tuple[str, str] | None:
        """Returns entries and version of the stored dictionary with a row's languages."""
        return await self._store.read(
            lambda db: _entries(db, _own(db, caller, glossary_id), *row[:2]), is_long=True
        )

    def _merged(self, former: str, row: _Row) -> _Row:
        """Returns the row of a dictionary whose entries are added to former ones."""
        both = {**json.loads(former), **json.loads(row[2])}
        return self._written(Dictionary(*row[:2], both, len(both)))

    def _written(self, dictionary: Dictionary) -> _Row:
        """Returns the row of a dictionary: languages, entries, and their number."""
        entries = dictionary.entries
        if not entries:
            raise InvalidInput("a dictionary without entries: give at least one")
        languages = (dictionary.source_language, dictionary.target_language)
        if not all(languages):
            raise InvalidInput("a dictionary without a language: give source and target")
        if len(entries) > self._settings.glossary_entries:
            raise TooLarge(
                f"a dictionary has {len(entries):,} entries, more than "
                f"{self._settings.glossary_entries:,}"
            )
        option, items = OPTIONS["glossary"], OPTIONS["glossary"].items
        assert items is not None
        for pair in entries.items():
            try:
                option.read(dict((pair,)), {})
            except (TypeError, ValueError) as error:
                raise InvalidInput(*Refusal.of(error)) from error
        written = json.dumps(dict(entries), ensure_ascii=False)
        if len(written.encode()) > self._settings.glossary_bytes:
            raise TooLarge(f"a dictionary has more than {self._settings.glossary_bytes:,} bytes")
        return (*languages, written, len(entries))


def _checked_name(name: str) -> str:
    name = name.strip()
    if not name or len(name) > _MOST_NAME:
        raise InvalidInput(f"name: give 1 to {_MOST_NAME} characters")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InvalidInput("name: has half of a character (a lone surrogate)") from None
    return name


def _own(connection: sqlite3.Connection, caller: Caller, glossary_id: str) -> str:
    """Returns the id of a glossary of the caller."""
    row = connection.execute(
        "SELECT id FROM glossaries WHERE id = ? AND owner = ?",
        (_folded_id(glossary_id), caller.owner),
    ).fetchone()
    if row is None:
        raise NotFound(f"there is no glossary {glossary_id[:60]!r}")
    return str(row[0])


def _folded_id(glossary_id: str) -> str:
    return glossary_id.strip().lower().encode("utf-8", "replace").decode()


def _glossary(connection: sqlite3.Connection, caller: Caller, glossary_id: str) -> Glossary:
    stored_id = _own(connection, caller, glossary_id)
    name, created = connection.execute(
        "SELECT name, created FROM glossaries WHERE id = ?", (stored_id,)
    ).fetchone()
    rows = connection.execute(
        "SELECT source_language, target_language, entry_count FROM dictionaries "
        "WHERE glossary_id = ? ORDER BY rowid",
        (stored_id,),
    )
    return Glossary(
        stored_id,
        name,
        datetime.fromisoformat(created),
        tuple(Dictionary(src, tgt, None, count) for src, tgt, count in rows),
    )


def _all_entries(connection: sqlite3.Connection, glossary_id: str) -> list[str]:
    """Returns the entries of each dictionary, as JSON, in the order of the dictionaries."""
    rows = connection.execute(
        "SELECT entries FROM dictionaries WHERE glossary_id = ? ORDER BY rowid",
        (glossary_id,),
    )
    return [row[0] for row in rows]


def _entries(
    connection: sqlite3.Connection, glossary_id: str, source: str, target: str
) -> tuple[str, str] | None:
    """Returns entries and version of a dictionary; None: there is none."""
    row: tuple[str, str] | None = connection.execute(
        "SELECT entries, version FROM dictionaries WHERE glossary_id = ? AND source_language = ? "
        "AND target_language = ?",
        (glossary_id, source, target),
    ).fetchone()
    return row


def _put(connection: sqlite3.Connection, glossary_id: str, row: _Row) -> None:
    connection.execute(
        "INSERT INTO dictionaries (glossary_id, source_language, target_language, entries, "
        "entry_count, version, size_bytes) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE "
        "SET entries = excluded.entries, entry_count = excluded.entry_count, "
        "version = excluded.version, size_bytes = excluded.size_bytes",
        (glossary_id, *row, secrets.token_hex(16), len(row[2].encode())),
    )


def _fitting(
    connection: sqlite3.Connection, caller: Caller, glossary_id: str, direction: tuple[str, str]
) -> tuple[str, int, str] | None:
    """Returns a glossary's id, and row and version of its dictionary for a direction, or None."""
    stored_id = _own(connection, caller, glossary_id)
    rows = connection.execute(
        "SELECT source_language, target_language, rowid, version FROM dictionaries "
        "WHERE glossary_id = ?",
        (stored_id,),
    )
    for src, tgt, row, version in rows:
        if (fold_language(src, direction[:1]), fold_language(tgt, direction[1:])) == direction:
            return stored_id, row, version
    return None
