"""Decoding in compiled code: one call does a step, and the work between two steps."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman.kernel.manifest import SpecialIds
from dragoman_serving.engine.arrays import Floats, Ids
from dragoman_serving.engine.cache import Cache
from dragoman_serving.engine.compiled import library
from dragoman_serving.engine.compiled.compiled_searches import NativeSearches
from dragoman_serving.engine.compiled.library import ENCODED_TOGETHER, Rows, Sources
from dragoman_serving.engine.compiled.scratch import Scratch
from dragoman_serving.engine.compiled.shortlists import Shortlists, Words
from dragoman_serving.engine.compiled.weights import NativeWeights
from dragoman_serving.engine.constraints import Constraints
from dragoman_serving.engine.network import SearchResults
from dragoman_serving.engine.sentence import Sentence

MOST_STEPS = 8
"""Steps of a call. Cancelled and overdue sentences leave between calls."""


class NativeDecoding:
    """See `Decoding`.

    The compiled code keeps all state that changes from step to step, so that little work needs the
    GIL, which the workers share.
    """

    def __init__(
        self,
        weights: NativeWeights,
        cache: Cache,
        scratch: Scratch,
        special_ids: SpecialIds,
        searches: int = 1,
        helpers: int = 0,
        aligning: npt.NDArray[np.uint8] | None = None,
        shortlists: Shortlists | None = None,
    ) -> None:
        """Start without sentences.

        Args:
            weights: weights of the model.
            cache: a cache without slots; its width is that of all searches of a sentence.
            scratch: scratch memory of the thread that uses this.
            special_ids: special ids of the model's vocabulary.
            searches: number of searches of each sentence.
            helpers: address of the threads that help while nothing else is in flight; 0: none.
            aligning: [decoder layers, H], 1 for alignment heads; None: unknown.
            shortlists: shortlists of the model; None: it has none.
        """
        self._helpers = helpers
        self._library = library.load()
        self._weights = weights  # the structures point into it
        self._model = weights.address
        self._scratch = scratch
        self._width = width = cache.width
        self._begin_id, self._end_id = special_ids.begin, special_ids.end
        self._cache = cache
        self._searches = NativeSearches(
            width // searches, special_ids.end, weights.sizes.vocab_size, searches
        )
        self._ids: Ids = np.zeros(0, np.int64)
        self._positions: Ids = np.zeros(0, np.int64)
        sizes = weights.sizes
        self._aligns = aligning is not None
        if aligning is None:
            aligning = np.zeros((sizes.decoder_layers, sizes.heads), np.uint8)
        self._aligning = aligning
        self._alignments: npt.NDArray[np.uintp] = np.zeros(0, np.uintp)
        """[B], addresses of the attention that the searches keep."""
        self._lists = shortlists
        self._listed: list[Words | None] = []
        """The shortlist of each slot."""
        self._shortlists: npt.NDArray[np.uintp] = np.zeros(0, np.uintp)
        """[B], their addresses."""
        self._rows = Rows(width=width, ticks=_address(scratch.ticks), aligning=_address(aligning))
        self._bound: object = None
        """Key of the memory that `_rows` points into."""
        self._longest = 0
        """Tokens of the longest hypotheses."""

    @property
    def rows(self) -> int:
        """See `Decoding`."""
        return self._cache.rows

    @property
    def nbytes(self) -> int:
        """See `Decoding`."""
        return self._cache.nbytes + self._searches.alignment_bytes

    @property
    def ids(self) -> Ids:
        """[R], the token that each row reads next; -1: no hypothesis. May be written."""
        return self._ids[: self.rows]

    @property
    def scores(self) -> Floats:
        """Scores [R, V] of the last step, up to a constant per row, for rows with a hypothesis.

        Rows of a sentence with a shortlist and without constraints begin with the scores of its
        listed vectors of tokens, one after the other. The next step overwrites them.
        """
        return self._scratch.last_scores(self.rows)

    def join(self, sentences: Sequence[Sentence], alone: bool = False) -> None:
        """See `Decoding`.

        Raises:
            ValueError: the model does not have the source ids or a shortlist, or there are too many
                source ids.
        """
        lengths = [len(sentence.src_ids) for sentence in sentences]
        ids = [token for sentence in sentences for token in sentence.src_ids]
        sizes = self._weights.sizes
        if max(lengths) > sizes.longest or not 0 <= min(ids) <= max(ids) < sizes.src_ids:
            raise ValueError("source ids that the model does not have, or too many")
        src_lengths, src_ids = np.array(lengths, np.int64), np.array(ids, np.int64)
        shortlists = [self._shortlist(sentence) for sentence in sentences]
        first = self._cache.open(src_lengths)
        alignments = [self._alignment(sentence) for sentence in sentences]
        self._searches.join(sentences, alignments)
        self._bind()
        self._alignments[first : first + len(sentences)] = _addresses(alignments)
        self._shortlists[first : first + len(sentences)] = _addresses(shortlists)
        self._listed += shortlists
        begin, end = first * self._width, self.rows
        self._ids[begin:end] = -1
        self._ids[begin : end : self._width] = self._begin_id
        self._positions[begin:end] = 0
        sources = Sources(
            len(sentences),
            len(src_ids),
            _address(src_ids),
            _address(src_lengths),
            first,
            self._rows.src_room,
            self._rows.cross,
        )
        memory = self._scratch.memory(max(*lengths, min(len(src_ids), ENCODED_TOGETHER)))
        helpers = self._helpers if alone else 0
        self._library.encode(self._model, ctypes.byref(sources), memory, helpers)

    def _alignment(self, sentence: Sentence) -> Floats | None:
        """Zeros [T, W, S] for the attention of a sentence's steps, if it is requested."""
        if not (sentence.options.alignment and self._aligns):
            return None
        return np.zeros((sentence.max_tokens, self._width, len(sentence.src_ids)), np.float32)

    def _shortlist(self, sentence: Sentence) -> Words | None:
        """The shortlist of a sentence, if requested, with the tokens that it must generate."""
        if not sentence.options.shortlist:
            return None
        if self._lists is None:
            raise ValueError("a shortlist that the model does not have")
        constraints = sentence.options.constraints or Constraints()
        required = {self._end_id, *constraints.prefix}
        return self._lists.of_sentence(
            sentence.src_ids, (token for token in required if token >= 0)
        )

    def step(
        self, alone: bool = False, pending: ctypes.c_int64 | None = None
    ) -> tuple[int, Sequence[int]]:
        """See `Decoding`."""
        if self._cache.fit(self._longest + 1):
            self._bind()
        rows = self._cache.rows
        done = self._library.decode(
            self._model,
            self._rows,
            self._searches.structure,
            self._scratch.memory(rows),
            self._scratch.scores(rows),
            self._helpers if alone else 0,
            pending,
            min(MOST_STEPS, self._cache.capacity - self._longest),
        )
        self._longest += self._rows.steps
        return self._rows.steps, self._searches.done[:done].tolist() if done else []

    @property
    def found(self) -> SearchResults:
        """See `Decoding`."""
        return self._searches

    def leave(self, slots: Sequence[int]) -> None:
        """See `Decoding`."""
        for slot in reversed(slots):
            self._library.leave(self._model, self._rows, self._searches.structure, slot)
            self._searches.forget(slot)
            self._listed[slot] = self._listed[-1]
            self._listed.pop()
        self._cache.slots = self._rows.sentences
        self._longest = self._library.longest(self._rows)

    def _bind(self) -> None:
        """Set the numbers and addresses in `_rows`."""
        cache, rows = self._cache, self._rows
        if cache.capacity > self._weights.sizes.longest:
            raise ValueError(f"{cache.capacity} tokens, more than the model can have")
        rows.sentences, rows.room, rows.src_room = cache.slots, cache.capacity, cache.src_capacity
        if self._bound == cache.memory:
            return
        room = cache.room * self._width
        self._ids, self._positions = _longer(self._ids, room), _longer(self._positions, room)
        self._alignments = _longer(self._alignments, cache.room)
        self._shortlists = _longer(self._shortlists, cache.room)
        rows.alignments = _address(self._alignments)
        rows.shortlists = _address(self._shortlists)
        self._cross, self._past = _pointers(cache.cross), _pointers(cache.past)
        rows.ids, rows.positions = _address(self._ids), _address(self._positions)
        rows.src_lengths = _address(cache.src_lengths)
        rows.cross = _address(self._cross)
        if self._weights.sizes.has_ssru:
            rows.cells = _address(self._past)
        else:
            rows.past = _address(self._past)
        self._bound = cache.memory


def _longer(array: npt.NDArray[Any], length: int) -> npt.NDArray[Any]:
    longer = np.zeros(length, array.dtype)
    longer[: len(array)] = array[:length]
    return longer


def _pointers(arrays: Iterable[npt.NDArray[Any]]) -> npt.NDArray[np.uintp]:
    return np.array([array.ctypes.data for array in arrays], np.uintp)


def _addresses(arrays: Iterable[npt.NDArray[Any] | None]) -> list[int]:
    return [0 if array is None else _address(array) for array in arrays]


def _address(array: npt.NDArray[Any]) -> int:
    return array.ctypes.data
