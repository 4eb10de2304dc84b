"""Searches in compiled code: greedy, beam and sampling, with and without constraints."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman.kernel.hypothesis import Hypothesis
from dragoman_serving.engine.arrays import Copy, Floats, Ids
from dragoman_serving.engine.compiled.compiled_constraints import NativeConstraints
from dragoman_serving.engine.compiled.library import (
    FINISHED,
    PANEL,
    TOKEN,
    Searches,
    SearchResult,
    load,
)
from dragoman_serving.engine.constraints import Constraints
from dragoman_serving.engine.sentence import Sentence
from dragoman_serving.engine.session import Ranking

_CAPACITY = 64
"""Initial capacity, in tokens."""


@dataclass  # not frozen: that is three times slower, and there is one for each sentence
class _Slot:
    """Data of a search outside the compiled code's arrays; `weights` [T, W, S] are attention."""

    constraints: NativeConstraints | None
    weights: Floats | None
    token_scores: bool


@dataclass(frozen=True)
class Advance:
    """The result of a step: each row's next token [R], copies of rows, and finished slots."""

    tokens: Ids
    copies: Sequence[Copy]
    done: Sequence[int]


class NativeSearches:
    """The searches of sentences, all with the same beam width and number of searches.

    Each sentence has a slot, with the rows of all its searches. Slots are without gaps, in the
    order in which sentences joined. At the first step a sentence has one hypothesis, in its first
    row. The arrays are those of the structure `Searches` in `search_data.h`.

    Attributes:
        structure: the structure for the compiled code.
        done: [B], slots of sentences that the last step finished.
    """

    def __init__(self, width: int, end_id: int, vocab_size: int, branches: int = 1) -> None:
        """Start without searches.

        Args:
            width: beam width.
            end_id: id of the end symbol.
            vocab_size: V.
            branches: searches per sentence; above 1 for sentences with alternatives.
        """
        self._library = load()
        self._width = width
        self._branches = branches
        self._end_id = end_id
        self._panels = -(-vocab_size // PANEL)
        self._result = SearchResult()
        self._slots: list[_Slot] = []
        self.structure = Searches()
        self._arrays: dict[str, npt.NDArray[Any]] = {}
        """Arrays by their names in the structure; the attributes below are the same arrays."""
        self._scores = np.empty((0, self._panels * (PANEL + 1)), np.float32)
        """[R, ...], scores of rows with constraints, if a session computes the scores."""
        self._allocate(4, _CAPACITY)

    @property
    def alignment_bytes(self) -> int:
        """Bytes of the kept attention."""
        return sum(slot.weights.nbytes for slot in self._slots if slot.weights is not None)

    def join(self, sentences: Sequence[Sentence], alignments: Sequence[Floats | None] = ()) -> None:
        """Start searches, which may generate up to the sentences' `max_tokens`.

        Args:
            sentences: sentences that join.
            alignments: for each, the array for the attention of its steps [T, W, S], or None.
        """
        branches = self._branches
        first, last = self.structure.slots, self.structure.slots + len(sentences) * branches
        limits = [sentence.max_tokens for sentence in sentences]
        slots, capacity = self._tokens.shape[:2]
        if last > slots or max(limits) > capacity:
            self._allocate(2 * last if last > slots else slots, max(capacity, *limits))
        arrays = self._arrays
        joining = [
            _Slot(_native(sentence), weights, sentence.options.token_scores)
            for sentence, weights in zip(
                sentences, alignments or [None] * len(sentences), strict=True
            )
        ]
        self._slots += joining
        for name in ("lengths", "ended", "kept", "live"):
            arrays[name][first:last] = 0
        arrays["live"][first:last:branches] = 1
        arrays["scores"][first:last, 0] = 0.0
        arrays["rows"][first:last, 0] = 0
        of_sentences = range(first, last, branches)
        for begin, sentence, slot in zip(of_sentences, sentences, joining, strict=True):
            slots_of = slice(begin, begin + branches)
            arrays["constraints"][slots_of] = slot.constraints.address if slot.constraints else 0
            arrays["limits"][slots_of] = sentence.max_tokens
            arrays["alphas"][slots_of] = sentence.options.length_penalty
        self.structure.slots = last

    def advance(self, ranking: Ranking, logits: Any) -> Advance:
        """Choose the next token of each row, from a step's scores in the form of the ranking."""
        is_constrained = [slot.constraints is not None for slot in self._slots]
        if not all(is_constrained):
            self._rank_plain(ranking, logits)
        if any(is_constrained):
            self._lay_out(ranking, logits, self._live_rows(is_constrained))
        tokens, copied = np.zeros(self.structure.slots * self._width, np.int64), ctypes.c_int64()
        done = self._library.advance(
            self.structure,
            self._scores.ctypes.data,
            tokens.ctypes.data,
            ctypes.addressof(copied),
        )
        copies = list(map(Copy._make, self._arrays["copies"][: copied.value].tolist()))
        return Advance(tokens, copies, self.done[:done].tolist())

    def _live_rows(self, chosen: Sequence[bool]) -> Ids:
        """The rows of chosen sentences that have a live hypothesis."""
        searches = np.flatnonzero(np.repeat(chosen, self._branches))
        live = np.arange(self._width) < self._arrays["live"][searches, None]
        rows: Ids = (searches[:, None] * self._width + self._arrays["rows"][searches])[live]
        return rows

    def _rank_plain(self, ranking: Ranking, logits: Any) -> None:
        """Rank the tokens of all rows; only rows without constraints use the result."""
        rows, top = self.structure.slots * self._width, 2 * self._width
        if self._width == 1:
            self._arrays["top_ids"][:rows, 0] = ranking.argmax(logits)
            return
        top_scores, top_ids = ranking.best(logits, top)
        self._arrays["top_scores"][:rows] = top_scores[:, :top]
        self._arrays["top_ids"][:rows] = top_ids[:, :top]

    def _lay_out(self, ranking: Ranking, logits: Any, constrained: Ids) -> None:
        """Convert the scores of rows with constraints to the layout of the compiled code."""
        rows = self.structure.slots * self._width
        if rows > len(self._scores):
            self._scores = np.empty((2 * rows, self._scores.shape[1]), np.float32)
        log_probs = ranking.log_probs(logits, constrained)
        for row, scores in zip(constrained.tolist(), log_probs, strict=True):
            self._library.lay_out(
                scores.ctypes.data, len(scores), self._panels, self._scores[row].ctypes.data
            )

    def result(self, slot: int) -> Hypothesis:
        """Returns the best translation of a finished sentence."""
        return self._ranked(slot, 0, 0)

    def next_best(self, slot: int, count: int) -> tuple[Hypothesis, ...]:
        """Returns more hypotheses, best first, at most `count`; or the other alternatives.

        Very strict constraints may leave fewer hypotheses than were requested; then the last one
        is repeated.
        """
        if self._is_greedy(slot):
            return ()
        if self._branches > 1:
            return tuple(self._ranked(slot, branch, 0) for branch in range(1, self._branches))
        kept = int(self._arrays["kept"][slot])
        hypotheses = tuple(self._ranked(slot, 0, rank) for rank in range(min(1 + count, kept)))
        return hypotheses[1:] + hypotheses[-1:] * (1 + count - len(hypotheses))

    def _ranked(self, slot: int, branch: int, rank: int) -> Hypothesis:
        result, ids, search = self._result, self._ids, slot * self._branches + branch
        self._library.result(self.structure, search, rank, *self._result_addresses, result)
        of_slot, steps = self._slots[slot], result.length + result.complete
        log_probs = attention = None
        if of_slot.token_scores:
            log_probs = tuple(self._log_probs[:steps].tolist())
        if of_slot.weights is not None:
            attention = of_slot.weights[np.arange(steps), self._origins[:steps]]
        return Hypothesis(
            tuple(ids[: result.length].tolist()),
            result.log_prob if self._is_scored(slot) else None,
            bool(result.complete),
            token_log_probs=log_probs,
            attention=attention,
        )

    def _is_greedy(self, slot: int) -> bool:
        """Whether a search is plain greedy search, which does not compare scores."""
        return self._width == 1 and self._slots[slot].constraints is None

    def _is_scored(self, slot: int) -> bool:
        constraints = self._slots[slot].constraints
        return self._width > 1 if constraints is None else constraints.scored

    def certain(self, slot: int) -> tuple[int, ...]:
        """Returns the stable prefix of a sentence's translation."""
        search = slot * self._branches  # the first of its searches
        length = int(self._arrays["lengths"][search])
        tokens = self._tokens[search, :length]
        if self._is_greedy(slot):
            ids = tuple(tokens["id"][:, 0].tolist())
            return ids[:-1] if ids[-1] == self._end_id else ids
        history = tokens["id"].tolist(), tokens["parent"].tolist()
        finished = self._arrays["finished"][search, : self._arrays["kept"][search]]
        ends = zip(finished["index"].tolist(), finished["length"].tolist(), strict=True)
        hypotheses = [_trace(*history, *end) for end in ends]
        if places := set(range(int(self._arrays["live"][search]))):
            # Go back to the last common token of all live hypotheses.
            while len(places) > 1 and length:
                length -= 1
                places = {history[1][length][place] for place in places}
            hypotheses.append(_trace(*history, min(places), length))
        return common_beginning(hypotheses)

    def leave(self, slot: int) -> None:
        """Remove a sentence's searches; the last sentence is moved to its slot."""
        self._library.leave_search(self.structure, slot)
        self.forget(slot)

    def forget(self, slot: int) -> None:
        """Release a sentence's constraints, after the compiled code has freed its slot."""
        self._slots[slot] = self._slots[-1]
        self._slots.pop()

    def _allocate(self, slots: int, capacity: int) -> None:
        """Allocate arrays for a number of searches and tokens; their content is kept."""
        width, top = self._width, 2 * self._width
        shapes: dict[str, tuple[tuple[int, ...], Any]] = {
            "constraints": ((slots,), np.uintp),
            "limits": ((slots,), np.int64),
            "alphas": ((slots,), np.float64),
            "lengths": ((slots,), np.int64),
            "live": ((slots,), np.int64),
            "scores": ((slots, width), np.float32),
            "rows": ((slots, width), np.int64),
            "tokens": ((slots, capacity, width), TOKEN),
            "ended": ((slots,), np.int64),
            "kept": ((slots,), np.int64),
            "finished": ((slots, width), FINISHED),
            "top_scores": ((slots * width, top), np.float32),
            "top_log_probs": ((slots * width, top), np.float32),
            "top_ids": ((slots * width, top), np.int64),
            "copies": ((slots * width, 3), np.int64),
            "done": ((slots,), np.int64),
            "history": ((capacity,), np.int32),
            "history_scores": ((capacity,), np.float32),
            "of_panels": ((2, self._panels), np.float32),
        }
        arrays: dict[str, npt.NDArray[Any]] = {
            name: np.zeros(shape, dtype) for name, (shape, dtype) in shapes.items()
        }
        for name, old in self._arrays.items():
            arrays[name][tuple(map(slice, old.shape))] = old
        self._arrays = arrays
        self._tokens, self.done = arrays["tokens"], arrays["done"]
        self._ids = np.zeros(capacity + 1, np.int32)
        """Ids of a result, with space for the end symbol; the next two arrays likewise."""
        self._log_probs = np.zeros(capacity + 1, np.float32)
        self._origins = np.zeros(capacity + 1, np.int32)
        self._result_addresses = (
            *(self._ids.ctypes.data, self._log_probs.ctypes.data),
            self._origins.ctypes.data,
        )
        self.structure = Searches(
            self.structure.slots,
            width,
            self._branches,
            capacity,
            self._end_id,
            self._panels,
            **{name: array.ctypes.data for name, array in arrays.items()},
        )


def _native(sentence: Sentence) -> NativeConstraints | None:
    options = sentence.options
    if options.constraints is None and not options.alternatives:
        return None
    return NativeConstraints(sentence, options.constraints or Constraints())


def _trace(
    ids: list[list[int]], parents: list[list[int]], place: int, length: int
) -> tuple[int, ...]:
    """The first `length` tokens of the hypothesis with the last token at index `place`."""
    tokens = []
    for step in range(length - 1, -1, -1):
        tokens.append(ids[step][place])
        place = parents[step][place]
    return tuple(reversed(tokens))


def common_beginning(outcomes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Returns the longest common prefix."""
    # The prefix that the first and the last in sort order share is shared by all between them.
    pairs = zip(min(outcomes), max(outcomes), strict=False)
    return tuple(token for token, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
