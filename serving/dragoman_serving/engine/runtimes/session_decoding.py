"""Decoding with a session, including the work between its steps."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dragoman.kernel.manifest import SpecialIds
from dragoman_serving.engine.cache import Cache, CacheShape
from dragoman_serving.engine.compiled.compiled_searches import NativeSearches
from dragoman_serving.engine.network import SearchResults
from dragoman_serving.engine.sentence import Sentence
from dragoman_serving.engine.session import Session


@dataclass(frozen=True)
class Sessions:
    """A `Network` of sessions.

    `beside` is for parallel workers, each on one core. `lone`, if set, is for a single worker that
    has all the work, on all cores.
    """

    beside: Session
    lone: Session | None = None

    @property
    def cache_shape(self) -> CacheShape:
        """Shape of the keys and values."""
        return self.beside.cache_shape

    def most_bytes(self, width: int, slots: int) -> int:
        """See `Network`."""
        return self.cache_shape.most_bytes(width, slots)

    @property
    def most_rows(self) -> None:
        """See `Network`."""
        return None

    @property
    def pads_sources(self) -> bool:
        """See `Network`."""
        return self.beside.pads_sources

    @property
    def gains_alone(self) -> bool:
        """See `Network`."""
        return self.lone is not None

    def begin(
        self, width: int, special_ids: SpecialIds, slots: int, searches: int = 1
    ) -> SessionDecoding:
        """See `Network`."""
        cache = Cache(self.cache_shape, width * searches, slots)
        return SessionDecoding(self, cache, special_ids, searches)

    def choose(self, alone: bool) -> Session:
        """Returns the session for a worker that has all the work, or not."""
        return self.lone if alone and self.lone else self.beside


class SessionDecoding:
    """See `Decoding`."""

    def __init__(
        self, sessions: Sessions, cache: Cache, special_ids: SpecialIds, searches: int
    ) -> None:
        """Start without sentences; each will have `searches` searches."""
        self._sessions = sessions
        self._width = width = cache.width
        self._special_ids = special_ids
        self._cache = cache
        self._searches = NativeSearches(
            width // searches, special_ids.end, sessions.beside.vocab_size, searches
        )
        self._tokens = np.zeros(0, np.int64)
        self._positions = np.zeros(0, np.int64)
        self._longest = 0
        """Tokens of the longest hypotheses."""

    @property
    def rows(self) -> int:
        """See `Decoding`."""
        return self._cache.rows

    @property
    def nbytes(self) -> int:
        """See `Decoding`."""
        return self._cache.nbytes

    def join(self, sentences: Sequence[Sentence], alone: bool) -> None:
        """See `Decoding`."""
        src_lengths = np.array([len(sentence.src_ids) for sentence in sentences])
        src_ids = np.full((len(sentences), src_lengths.max()), self._special_ids.pad, np.int64)
        for row, sentence in zip(src_ids, sentences, strict=True):
            row[: len(sentence.src_ids)] = sentence.src_ids
        cross = self._sessions.choose(alone).encode(src_ids, src_lengths)
        self._cache.join(cross, src_lengths)
        self._searches.join(sentences)
        begin = np.full(len(sentences) * self._width, self._special_ids.begin)
        self._tokens = np.concatenate((self._tokens, begin))
        self._positions = np.concatenate((self._positions, np.zeros_like(begin)))

    def step(
        self, alone: bool, _waiting: ctypes.c_int64 | None = None
    ) -> tuple[int, Sequence[int]]:
        """See `Decoding`; it is always one step."""
        session = self._sessions.choose(alone)
        self._longest += 1
        self._cache.fit(self._longest)
        logits = session.step(self._cache, self._tokens, self._positions)
        self._positions += 1
        advance = self._searches.advance(session, logits)
        self._tokens = advance.tokens
        if advance.copies:
            self._cache.copy_rows(advance.copies)
        return 1, advance.done

    @property
    def found(self) -> SearchResults:
        """See `Decoding`."""
        return self._searches

    def leave(self, slots: Sequence[int]) -> None:
        """See `Decoding`."""
        width = self._width
        for slot in reversed(slots):
            last = self._cache.slots - 1
            end = last * width
            self._searches.leave(slot)
            self._cache.leave(slot, int(self._positions[end]))
            if slot != last:
                rows, last_rows = slice(slot * width, (slot + 1) * width), slice(end, end + width)
                self._tokens[rows] = self._tokens[last_rows]
                self._positions[rows] = self._positions[last_rows]
            self._tokens, self._positions = self._tokens[:end], self._positions[:end]
        self._longest = int(self._positions.max(initial=0))
