"""The cache of translations in memory, with least-recently-used eviction."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dragoman_client import ServerInfo, Translation

_FIELD_BYTES = 8
_ENTRY_BYTES = 250
"""Size of an entry besides its translation: its key and its slot in the dictionary."""


@dataclass
class CacheCounts:
    """Counters and size of a cache.

    Attributes:
        hits: lookups that found a translation.
        misses: lookups that did not find one.
        shared: translations obtained by waiting for another request in flight.
        size_bytes: estimated size of all entries, never much too low.
        entries: number of entries.
    """

    hits: int = 0
    misses: int = 0
    shared: int = 0
    size_bytes: int = 0
    entries: int = 0


class Cache:
    """Translations by key, with a limit in bytes.

    Attributes:
        counts: counters for metrics.
    """

    def __init__(self, most_bytes: int) -> None:
        """Make an empty cache; with a limit of 0 it stores nothing."""
        self._most_bytes = most_bytes
        self._entries: OrderedDict[bytes, tuple[Translation, int]] = OrderedDict()
        self.counts = CacheCounts()

    def get(self, key: bytes) -> Translation | None:
        """Returns the translation for a key, or None."""
        entry = self._entries.get(key)
        if entry is None:
            self.counts.misses += 1
            return None
        self._entries.move_to_end(key)
        self.counts.hits += 1
        return entry[0]

    def put(self, key: bytes, translation: Translation) -> None:
        """Store a translation, and evict others if there is not enough space."""
        size_bytes = _ENTRY_BYTES + memory_of(translation)
        if size_bytes > self._most_bytes:
            return
        if (former := self._entries.pop(key, None)) is not None:
            self.counts.size_bytes -= former[1]
        self._entries[key] = (translation, size_bytes)
        self.counts.size_bytes += size_bytes
        while self.counts.size_bytes > self._most_bytes:
            _, (_, dropped_bytes) = self._entries.popitem(last=False)
            self.counts.size_bytes -= dropped_bytes
        self.counts.entries = len(self._entries)


class CacheKeys:
    """Makes the keys of a request's texts from everything that affects an answer."""

    def __init__(self, server: bytes, owner: str, options: Mapping[str, Any]) -> None:
        """Hash the part that all texts share.

        Args:
            server: see `fingerprint`.
            owner: whose translations these are: the time of an answer shows whether it was cached,
                and so whether that owner has translated a text.
            options: options of the request, as `dragoman_options.table.check` returns them,
                without its languages, glossary and prefixes.
        """
        self._begin = hashlib.sha256()
        written = json.dumps(sorted(options.items()), ensure_ascii=False)
        _feed(self._begin, server, owner.encode(), written.encode())

    def key(
        self,
        text: str,
        direction: Sequence[str],
        terms: Mapping[str, str],
        prefix: str | None = None,
    ) -> bytes:
        """Returns the key of a text.

        Args:
            text: the whole text.
            direction: source and target language.
            terms: terms of the glossary that may occur in it.
            prefix: prefix of its translation.
        """
        hasher = self._begin.copy()
        pairs = json.dumps(sorted(terms.items()), ensure_ascii=False) if terms else ""
        given = "" if prefix is None else f"={prefix}"
        _feed(hasher, *(part.encode() for part in (*direction, pairs, given, text)))
        return hasher.digest()


def fingerprint(info: ServerInfo) -> bytes:
    """Returns a digest of everything in a server's information that affects its answers.

    That is its version, limits, bundles with their runtimes, and the pivot languages of its pairs.
    """
    described = [
        *(info.version, [dict(bundle) for bundle in info.bundles], dict(info.limits)),
        [dataclasses.astuple(pair) for pair in info.pairs],
    ]
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).digest()


def memory_of(value: Any) -> int:
    """Returns the size of a value and everything in it; shared objects count each time."""
    if value is None:
        return 0
    size_bytes = sys.getsizeof(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        # `vars` would create a dictionary that stays in memory.
        held = [getattr(value, field.name) for field in dataclasses.fields(value)]
        return size_bytes + _FIELD_BYTES * (len(held) + 2) + sum(map(memory_of, held))
    if isinstance(value, tuple | list):
        return size_bytes + sum(map(memory_of, value))
    return size_bytes + int(getattr(value, "nbytes", 0))


def _feed(digest: Any, *parts: bytes) -> None:
    """Hash each part with its length, so that different sequences of parts differ."""
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
