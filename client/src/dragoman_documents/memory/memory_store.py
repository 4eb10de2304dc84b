"""A translation memory in a SQLite file: pairs of one direction, in the order of their files.

A text is found again by the hash of its words and codes, first with its neighbours. Similar texts
are found by a full-text index of short runs of characters: of those of a text the rarest are looked
up, as many as have a bounded number of entries together, and the texts that share most of them are
compared with it. No lookup reads the whole memory.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from dragoman_options.markup import Code, Markup
from rapidfuzz import fuzz

from dragoman_documents.memory.pairs import MOST_CHARACTERS, Pair, key_of, normalized, storable

LEAST_SIMILARITY: Final = 75
"""Percentage below which a pair does not help a translator."""
_FORMAT: Final = 1
"""Version of the tables, in `user_version`."""
_APPLICATION: Final = 0x44724D65
"""Marks a SQLite file as a memory, in `application_id`."""
_MOST_SIMILAR_CHARACTERS: Final = 2000
"""Longer texts are found only if they are equal: comparing takes quadratic time."""
_MOST_ENTRIES: Final = 5000
"""Entries of the index that a lookup reads; those of the rarest runs."""
_MOST_COMPARED: Final = 100
_GRAM: Final = 5
"""Length of a run. Runs of three are too frequent in a large memory."""
_SHORT_GRAM: Final = 2
"""The same where a character is a syllable or a word."""
_LEAST_COUNT: Final = 32
"""Rarer runs are not counted: most are."""
_COUNTED_AT_ONCE: Final = 1 << 16
"""Different runs of new entries whose numbers are held in memory."""
_RECOUNTED: Final = 250
"""Up to this many entries in the index for each new one, counting all again is faster: that takes
13 us for an entry, and looking up the rare runs of a new one 3 ms."""
_TOKEN: Final[dict[int, int | str]] = {
    **{code: 0xE000 + code for code in range(128) if not chr(code).isalnum()},
    ord(" "): "\u00b7",
}
"""Makes a run a token of the index, which would split it at a mark or a space."""
_TABLES: Final = (
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    # `key`, `before` and `after` are `key_of` of the text and its neighbours; `codes` is JSON.
    """CREATE TABLE segments (
        id INTEGER PRIMARY KEY,
        key INTEGER NOT NULL,
        before INTEGER NOT NULL,
        after INTEGER NOT NULL,
        source TEXT NOT NULL,
        target TEXT NOT NULL,
        codes TEXT
    )""",
    "CREATE UNIQUE INDEX segments_in_context ON segments (key, before, after)",
    "CREATE INDEX segments_by_key ON segments (key)",
    "CREATE INDEX segments_behind ON segments (key, before)",
    # An entry of `grams` stands for all segments with its key.
    "CREATE TABLE entries (number INTEGER PRIMARY KEY, key INTEGER NOT NULL)",
    """CREATE VIRTUAL TABLE grams USING fts5 (
        source, content = '', columnsize = 0, detail = 'none',
        tokenize = 'ascii'
    )""",
    "CREATE VIRTUAL TABLE gram_entries USING fts5vocab (grams, instance)",
    "CREATE VIRTUAL TABLE gram_totals USING fts5vocab (grams, row)",
    "CREATE TABLE gram_counts (gram TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID",
)
_TOTAL: Final = "SELECT count(*) FROM segments"
_EQUAL: Final = "SELECT id, source, target, codes FROM segments WHERE key = ?"
_BETWEEN: Final = f"{_EQUAL} AND before = ? AND after = ?"
_BEHIND: Final = f"{_EQUAL} AND before = ? ORDER BY id DESC LIMIT 1"
_LAST: Final = f"{_EQUAL} ORDER BY id DESC LIMIT 1"
_FOLLOWING: Final = (
    "SELECT id, source, target, codes FROM segments WHERE id > ? ORDER BY id LIMIT ?"
)
_COUNT_ALL: Final = "INSERT INTO gram_counts SELECT term, doc FROM gram_totals WHERE doc >= ?"
_COUNT_NEW: Final = """INSERT OR REPLACE INTO gram_counts
    SELECT key, coalesce(
        (SELECT number FROM gram_counts WHERE gram = key) + value,
        (SELECT doc FROM gram_totals WHERE term = key)
    ) AS total FROM json_each(?) WHERE total >= ?
"""
_COUNTS: Final = (
    "SELECT number, gram FROM gram_counts WHERE gram IN (SELECT value FROM json_each(?))"
)
_SHARING: Final = """SELECT id, source, target, codes FROM segments WHERE id IN (
    SELECT (SELECT max(id) FROM segments WHERE key = entries.key) FROM entries WHERE number IN (
        SELECT doc FROM gram_entries WHERE term IN (SELECT value FROM json_each(?))
        GROUP BY doc ORDER BY count(*) DESC LIMIT ?
    )
)"""


@dataclass(frozen=True)
class Match:
    """A pair that was found for a text.

    Attributes:
        pair: the pair.
        similarity: percentage of the text that is equal. 100: text and codes are equal.
    """

    pair: Pair
    similarity: int


class Memory:
    """A memory in a file; several threads may use it.

    Attributes:
        name: name of the file.
    """

    def __init__(self, connection: sqlite3.Connection, name: str) -> None:
        """Use an open connection; see `create` and `open`."""
        self._connection = connection
        self.name = name
        self._lock = threading.Lock()

    @classmethod
    def create(
        cls, path: Path | None, languages: tuple[str, str], *, is_shared: bool = False
    ) -> Self:
        """Make a file with an empty memory.

        Args:
            path: path of the file, which does not exist; None: in memory.
            languages: source and target language.
            is_shared: whether it is read while it is written. Then its folder must be writable.

        Raises:
            OSError: the file exists or cannot be written.
        """
        with ExitStack() as undo:
            if path is not None:
                path.touch(0o600, exist_ok=False)
                undo.callback(path.unlink, missing_ok=True)
            memory = cls(_connected(path), "" if path is None else path.name)
            if is_shared:
                memory._connection.execute("PRAGMA journal_mode = WAL")
            with memory._transaction() as connection:
                for statement in _TABLES:
                    connection.execute(statement)
                facts = zip(("source_language", "target_language"), languages, strict=True)
                connection.executemany("INSERT INTO facts VALUES (?, ?)", facts)
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {_FORMAT}")
            undo.pop_all()
        return memory

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a file.

        Raises:
            OSError: the file cannot be read.
            ValueError: it is not a memory, or one of a newer version.
        """
        path.open("rb").close()  # its error names the reason
        try:
            connection = _connected(path)
        except sqlite3.OperationalError as error:
            raise OSError(f"{path}: cannot be opened: {error}") from None
        try:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
        except sqlite3.DatabaseError as error:
            connection.close()
            raise ValueError(f"{path}: is not a translation memory: {error}") from None
        if application != _APPLICATION or version > _FORMAT:
            connection.close()
            reason = "a newer version wrote it" if application == _APPLICATION else "give another"
            raise ValueError(f"{path}: is not a translation memory of this version: {reason}")
        return cls(connection, path.name)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> Self:
        """The memory itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close."""
        self.close()

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target language."""
        facts = dict(self._rows("SELECT name, value FROM facts"))
        return facts["source_language"], facts["target_language"]

    @property
    def size_bytes(self) -> int:
        """Size of the file."""
        with self._lock:
            return _size_bytes(self._connection)

    def __len__(self) -> int:
        """Number of pairs."""
        return int(self._rows(_TOTAL)[0][0])

    def add(
        self, pairs: Iterable[Pair], *, most: int | None = None, most_bytes: int | None = None
    ) -> int:
        """Add pairs in the order of their document; all of them, or none if an error is raised.

        A pair replaces one with the same text, codes and neighbours, and is then the last one.

        Args:
            pairs: the pairs; those with an empty or a very long text are left out.
            most: maximum number of pairs in the memory.
            most_bytes: maximum size of its file.

        Returns:
            The number of added pairs.

        Raises:
            ValueError: the memory would have more pairs or bytes.
        """
        with self._transaction() as connection:
            number = 0
            index = _GramCounts(connection)
            for row in _rows_of(pairs):
                index.add(_insert(connection, row))
                number += 1
            (total,) = connection.execute(_TOTAL).fetchone()
            if most is not None and total > most:
                raise ValueError(f"the memory would have {total:,} segments, more than {most:,}")
            index.finish()
            if most_bytes is not None and (size := _size_bytes(connection)) > most_bytes:
                raise ValueError(f"the memory would have {size:,} bytes, more than {most_bytes:,}")
        return number

    def exact(
        self,
        text: str,
        codes: Sequence[Code] = (),
        before: str | None = None,
        after: str | None = None,
    ) -> Match | None:
        """Returns the pair with a text and its codes; of several, one with the same neighbours.

        Args:
            text: the text.
            codes: its codes.
            before: the text before it; None: there is none, or it is not known.
            after: the text after it, likewise.
        """
        short, moved = normalized(text, codes)
        key = key_of(short, moved)
        neighbours = _neighbour(before), _neighbour(after)
        queries: list[tuple[str, tuple[int, ...]]] = [(_LAST, (key,))]
        if before is not None:
            queries.insert(0, (_BEHIND, (key, neighbours[0])))
        if before is not None or after is not None:
            queries.insert(0, (_BETWEEN, (key, *neighbours)))
        for query, values in queries:
            for row in self._rows(query, values):
                pair = _pair(row)
                if (pair.source, pair.codes) == (short, moved):
                    return Match(pair, 100)
        return None

    def similar(
        self,
        text: str,
        codes: Sequence[Code] = (),
        *,
        least: int = LEAST_SIMILARITY,
        most: int = 5,
    ) -> list[Match]:
        """Returns the most similar pairs, the best first; equal ones have a similarity of 100.

        Args:
            text: the text.
            codes: its codes.
            least: minimum similarity, in percent.
            most: maximum number of pairs.
        """
        short, moved = normalized(text, codes)
        if not short or len(short) > _MOST_SIMILAR_CHARACTERS:
            return [] if (match := self.exact(text, codes)) is None else [match]
        matches: dict[str, Match] = {}
        equal = self.exact(text, codes)
        for row in self._candidates(short):
            pair = _pair(row)
            similarity = int(fuzz.ratio(short, pair.source))
            if (pair.source, pair.codes) != (short, moved):
                similarity = min(similarity, 99)
            if similarity >= least:
                matches[pair.source] = Match(pair, similarity)
        if equal is not None:
            matches[short] = equal
        return sorted(matches.values(), key=lambda match: -match.similarity)[:most]

    def pairs(self, after: int = 0, most: int | None = None) -> Iterator[tuple[int, Pair]]:
        """Yields the pairs, each with its number, in the order in which they were added.

        Args:
            after: number of the last pair that is not needed.
            most: maximum number of pairs.
        """
        page = 1000
        while most is None or most > 0:
            limit = page if most is None else min(page, most)
            rows = self._rows(_FOLLOWING, (after, limit))
            for row in rows:
                yield row[0], _pair(row)
            if len(rows) < limit:
                return
            after, most = rows[-1][0], None if most is None else most - limit

    def _candidates(self, text: str) -> list[Any]:
        """Returns the last rows of texts that share most of the rarest runs."""
        grams = self._rare_grams(_grams(text))
        return self._rows(_SHARING, (json.dumps(grams), _MOST_COMPARED)) if grams else []

    def _rare_grams(self, grams: list[str]) -> list[str]:
        counts = dict.fromkeys(grams, _LEAST_COUNT)
        counts |= {gram: number for number, gram in self._rows(_COUNTS, (json.dumps(grams),))}
        rare, entries = [], 0
        for gram in sorted(counts, key=lambda gram: counts[gram]):
            entries += counts[gram]
            if entries > _MOST_ENTRIES:
                break
            rare.append(gram)
        return rare

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._lock:
            return self._connection.execute(query, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise


class _GramCounts:
    """Keeps the numbers of entries with frequent runs, while entries are added to the index."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        (number,) = connection.execute("SELECT coalesce(max(number), 0) FROM entries").fetchone()
        self._most_new = number // _RECOUNTED
        self._new = 0
        self._counts: Counter[str] = Counter()

    def add(self, grams: Sequence[str]) -> None:
        """Count the runs of a new entry; none: the index has the text."""
        self._new += bool(grams)
        if self._new <= self._most_new:
            self._counts.update(grams)
            if len(self._counts) > _COUNTED_AT_ONCE:
                self._count_new()

    def finish(self) -> None:
        """Store the numbers."""
        if self._new <= self._most_new:
            self._count_new()
            return
        self._connection.execute("DELETE FROM gram_counts")
        self._connection.execute(_COUNT_ALL, (_LEAST_COUNT,))

    def _count_new(self) -> None:
        counts = json.dumps(self._counts, ensure_ascii=False)
        self._connection.execute(_COUNT_NEW, (counts, _LEAST_COUNT))
        self._counts.clear()


def _connected(path: Path | None) -> sqlite3.Connection:
    # Without mode=rw SQLite creates a file that was removed just now.
    name = ":memory:" if path is None else f"{path.absolute().as_uri()}?mode=rw"
    connection = sqlite3.connect(name, isolation_level=None, check_same_thread=False, uri=True)
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _size_bytes(connection: sqlite3.Connection) -> int:
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    return int(pages * page_bytes)


def _rows_of(pairs: Iterable[Pair]) -> Iterator[tuple[Any, ...]]:
    """Yields the rows of pairs, each with the keys of its neighbours."""
    before = 0
    waiting: tuple[Any, ...] | None = None
    for pair in pairs:
        source, codes = normalized(pair.source, pair.codes)
        if not source or not pair.target.strip():
            continue
        if max(len(source), len(pair.target)) > MOST_CHARACTERS:
            continue
        neighbour = _neighbour(source)
        if waiting is not None:
            yield waiting[0], before, neighbour, *waiting[1:4]
            before = waiting[4]
        written = json.dumps([codes, pair.placed]) if codes else None
        waiting = key_of(source, codes), source, storable(pair.target), written, neighbour
    if waiting is not None:
        yield waiting[0], before, _neighbour(None), *waiting[1:4]


def _insert(connection: sqlite3.Connection, row: tuple[Any, ...]) -> list[str]:
    """Add a row as the last one, and return the runs of its text if they are new in the index."""
    known = connection.execute("SELECT 1 FROM segments WHERE key = ? LIMIT 1", row[:1]).fetchone()
    # Not updated: the number of a pair says which one was stored last.
    connection.execute("DELETE FROM segments WHERE key = ? AND before = ? AND after = ?", row[:3])
    connection.execute(
        "INSERT INTO segments (key, before, after, source, target, codes) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        row,
    )
    if known is not None:
        return []
    grams = _grams(row[3])
    entry = connection.execute("INSERT INTO entries (key) VALUES (?)", row[:1]).lastrowid
    connection.execute("INSERT INTO grams (rowid, source) VALUES (?, ?)", (entry, " ".join(grams)))
    return grams


def _grams(text: str) -> list[str]:
    """Returns the runs of a text's first characters, as tokens, without repetitions."""
    folded = text[:_MOST_SIMILAR_CHARACTERS].casefold().translate(_TOKEN)
    runs = (
        folded[at : at + (_SHORT_GRAM if "\u2e80" <= folded[at] < "\ue000" else _GRAM)]
        for at in range(max(1, len(folded) - _SHORT_GRAM + 1))
    )
    return list(dict.fromkeys(runs))


def _neighbour(text: str | None) -> int:
    """Returns the key of a neighbour, without its codes; 0: there is none."""
    return 0 if text is None else key_of(normalized(text)[0])


def _pair(row: Any) -> Pair:
    _, source, target, written = row
    if written is None:
        return Pair(source, target)
    codes, placed = json.loads(written)
    markup = Markup.of({"codes": codes})
    return Pair(source, target, markup.codes, tuple((begin, end) for begin, end in placed))
