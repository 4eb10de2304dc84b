"""The cache of translations in memory, with least-recently-used eviction."""

from __future__ import annotations

import dataclasses
import functools
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
_PLAIN = frozenset((str, int, float, bool))


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
        if not self._most_bytes:
            return
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
        self._begin = hashlib.sha256(repr((server, owner, sorted(options.items()))).encode())

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
        digest = self._begin.copy()
        # Different values have different representations in Python.
        digest.update(repr((text, *direction, sorted(terms.items()), prefix)).encode())
        return digest.digest()


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
    if type(value) in _PLAIN:
        return size_bytes
    if isinstance(value, tuple | list):
        return size_bytes + sum(map(memory_of, value))
    names = _fields_of(value.__class__)
    for name in names:  # `vars` would create a dictionary that stays in memory
        if (held := getattr(value, name)) is not None:
            size_bytes += sys.getsizeof(held) if type(held) in _PLAIN else memory_of(held)
    if names:
        return size_bytes + _FIELD_BYTES * (len(names) + 2)
    return size_bytes + int(getattr(value, "nbytes", 0))


@functools.cache
def _fields_of(kind: type) -> tuple[str, ...]:
    """Returns the names of a dataclass's fields; none for another class."""
    if not dataclasses.is_dataclass(kind):
        return ()
    return tuple(field.name for field in dataclasses.fields(kind))
