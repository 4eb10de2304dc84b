"""The searches for the translations of the sentences that step together, step by step.

They see scores alone. A search has a slot, and in it as many rows as it is wide, from the first
step to the last. At the first step all of them say the same, and only the first one's scores count.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dragoman.kernel.hypothesis import Hypothesis
from dragoman_serving.engine.arrays import Copy, Ids
from dragoman_serving.engine.network import Found
from dragoman_serving.engine.sentence import Sentence
from dragoman_serving.engine.session import Ranking


@dataclass(frozen=True)
class Advance:
    """What comes of a step: what each row says next [R], copies to be made, slots that are done."""

    tokens: Ids
    copies: Sequence[Copy]
    done: Sequence[int]


class Searches(Found, Protocol):
    """The searches of one width; slots are without gaps, in the order in which they joined.

    Those with guidance have a slot too, but are made elsewhere: nothing is said of them here.
    """

    def join(self, sentences: Sequence[Sentence]) -> None:
        """Begin searches, which may generate up to the sentences' `max_tokens`."""

    def advance(self, ranking: Ranking, logits: Any) -> Advance:
        """Choose what the rows say next, of a step's scores [R, V] as the ranking takes them."""
        ...

    def leave(self, slot: int) -> None:
        """Forget a search; the last one takes its slot."""


class GreedySearches:
    """Take the best token at every step; what they find has no score, which nothing here needs."""

    def __init__(self, end_id: int) -> None:
        """Begin without searches."""
        self._end_id = end_id
        self._limits = np.zeros(0, np.int64)
        self._lengths = np.zeros(0, np.int64)
        self._guided = np.zeros(0, np.bool_)
        self._said = np.zeros((0, 0), np.int64)
        """[B or more, T]"""
        self._slots = np.arange(0)

    def join(self, sentences: Sequence[Sentence]) -> None:
        """See `Searches`."""
        limits = np.array([sentence.max_tokens for sentence in sentences])
        self._limits = np.concatenate((self._limits, limits))
        self._lengths = np.concatenate((self._lengths, np.zeros_like(limits)))
        guided = [sentence.options.guidance is not None for sentence in sentences]
        self._guided = np.concatenate((self._guided, np.array(guided, np.bool_)))
        count, longest = len(self._limits), int(self._limits.max())
        self._slots = np.arange(count)
        if count > self._said.shape[0] or longest > self._said.shape[1]:
            said = np.zeros(np.maximum(self._said.shape, (2 * count, longest)), np.int64)
            said[: self._said.shape[0], : self._said.shape[1]] = self._said
            self._said = said

    def advance(self, ranking: Ranking, logits: Any) -> Advance:
        """See `Searches`."""
        tokens = ranking.likeliest(logits)
        self._said[self._slots, self._lengths] = tokens
        self._lengths += ~self._guided
        done = (tokens == self._end_id) | (self._lengths == self._limits)
        done &= ~self._guided
        return Advance(tokens, (), np.flatnonzero(done).tolist())

    def result(self, slot: int) -> Hypothesis:
        """See `Searches`."""
        ids = self._ids(slot)
        complete = ids[-1] == self._end_id
        return Hypothesis(tuple(ids[:-1] if complete else ids), None, complete)

    def next_best(self, slot: int, count: int) -> tuple[Hypothesis, ...]:
        """See `Searches`."""
        return ()

    def certain(self, slot: int) -> tuple[int, ...]:
        """See `Searches`."""
        ids = self._ids(slot)
        return tuple(ids[:-1] if ids[-1] == self._end_id else ids)

    def leave(self, slot: int) -> None:
        """See `Searches`."""
        last = len(self._limits) - 1
        if slot != last:
            length = self._lengths[slot] = self._lengths[last]
            self._limits[slot] = self._limits[last]
            self._guided[slot] = self._guided[last]
            self._said[slot, :length] = self._said[last, :length]
        self._limits, self._lengths = self._limits[:last], self._lengths[:last]
        self._slots, self._guided = self._slots[:last], self._guided[:last]

    def _ids(self, slot: int) -> list[int]:
        ids: list[int] = self._said[slot, : self._lengths[slot]].tolist()
        return ids


class BeamSearches:
    """Beam searches, each by itself."""

    def __init__(self, end_id: int) -> None:
        """Begin without searches."""
        self._end_id = end_id
        self._width = 0
        self._searches: list[BeamSearch | None] = []

    def join(self, sentences: Sequence[Sentence]) -> None:
        """See `Searches`."""
        self._width = sentences[0].options.beam_width
        self._searches += [
            BeamSearch(sentence, self._end_id) if sentence.options.guidance is None else None
            for sentence in sentences
        ]

    def advance(self, ranking: Ranking, logits: Any) -> Advance:
        """See `Searches`."""
        width = self._width
        found = iter(candidates(self._searches, *ranking.best(logits, 2 * width), width))
        tokens = np.zeros(len(self._searches) * width, np.int64)
        copies: list[Copy] = []
        done: list[int] = []
        for slot, search in enumerate(self._searches):
            if search is None:
                continue
            continuation = search.advance(next(found))
            if continuation is None:
                done.append(slot)
                continue
            copies += continuation.write(slot * width, search.length, tokens)
        return Advance(tokens, copies, done)

    def result(self, slot: int) -> Hypothesis:
        """See `Searches`."""
        result = self._search(slot).result
        assert result is not None  # it is done
        return result

    def next_best(self, slot: int, count: int) -> tuple[Hypothesis, ...]:
        """See `Searches`."""
        return self._search(slot).next_best(count)

    def certain(self, slot: int) -> tuple[int, ...]:
        """See `Searches`."""
        return self._search(slot).certain()

    def leave(self, slot: int) -> None:
        """See `Searches`."""
        last = self._searches.pop()
        if slot < len(self._searches):
            self._searches[slot] = last

    def _search(self, slot: int) -> BeamSearch:
        search = self._searches[slot]
        assert search is not None  # it has no guidance
        return search


@dataclass(frozen=True)
class Continuation:
    """What the rows of one search say next, and the row of before that each goes on from."""

    tokens: Sequence[int]
    parents: Sequence[int]

    def write(self, first: int, length: int, tokens: Ids) -> list[Copy]:
        """Say it in the rows from `first` on.

        Args:
            first: row of the search, of all.
            length: tokens that each row has said.
            tokens: [R], what each of all rows says next, in which these are written.

        Returns:
            Copies to be made.
        """
        tokens[first : first + len(self.tokens)] = self.tokens
        return [
            Copy(first + parent, first + row, length)
            for row, parent in enumerate(self.parents)
            if row != parent
        ]


@dataclass(frozen=True)
class Candidates:
    """A search's best continuations, twice as many as it is wide, best first.

    `parents` are places among the live hypotheses.
    """

    scores: list[float]
    parents: list[int]
    tokens: list[int]


class BeamSearch:
    """Beam search as `dragoman_training.oracle.search` defines it."""

    def __init__(self, sentence: Sentence, end_id: int) -> None:
        """Begin a search that may generate up to the sentence's `max_tokens`."""
        self._width = sentence.options.beam_width
        self._alpha = sentence.options.length_penalty
        self._limit = sentence.max_tokens
        self._end_id = end_id
        self._live: list[tuple[int, ...]] = [()] * self._width
        self._finished: list[Hypothesis] = []
        self.result: Hypothesis | None = None
        self.live_scores = [0.0, *[-math.inf] * (self._width - 1)]
        """Of the live hypotheses, best first. At first there is but one."""
        self.live_rows = list(range(self._width))
        """The row that each of them has."""

    @property
    def length(self) -> int:
        """Tokens that each row has said."""
        return len(self._live[0])

    def advance(self, candidates: Candidates) -> Continuation | None:
        """Choose what the rows say next.

        Returns:
            The next step's rows; None once `result` is there.
        """
        length = self.length + 1
        chosen: list[int] = []
        scores, parents, tokens = candidates.scores, candidates.parents, candidates.tokens
        for rank, token in enumerate(tokens):
            if token != self._end_id:
                if len(chosen) < self._width:
                    chosen.append(rank)
            elif rank < self._width:
                ids = self._live[parents[rank]]
                self._finished.append(Hypothesis(ids, scores[rank], complete=True))
        rows_of_parents = [self.live_rows[parents[rank]] for rank in chosen]
        self._live = [(*self._live[parents[rank]], tokens[rank]) for rank in chosen]
        self.live_scores = [scores[rank] for rank in chosen]
        if len(self._finished) < self._width and length < self._limit:
            self.live_rows = place(rows_of_parents, self._width)
            return self._continuation(rows_of_parents)
        if len(self._finished) < self._width:
            self._finished += [
                Hypothesis(ids, score, complete=False)
                for ids, score in zip(self._live, self.live_scores, strict=True)
            ]
        # Stable: of equal ones the first is better.
        self._finished.sort(key=lambda one: one.score(self._alpha), reverse=True)
        self.result = self._finished[0]
        return None

    def next_best(self, count: int) -> tuple[Hypothesis, ...]:
        """What was found beside the result, best first; at most so many."""
        return tuple(self._finished[1 : 1 + count])

    def certain(self) -> tuple[int, ...]:
        """The tokens that the translation will begin with: those that no outcome differs in."""
        return common_beginning([*self._live, *(hypothesis.ids for hypothesis in self._finished)])

    def _continuation(self, rows_of_parents: Sequence[int]) -> Continuation:
        tokens, parents = [0] * self._width, list(range(self._width))
        for ids, row, parent in zip(self._live, self.live_rows, rows_of_parents, strict=True):
            tokens[row], parents[row] = ids[-1], parent
        return Continuation(tokens, parents)


def candidates(
    searches: Sequence[BeamSearch | None],
    top_scores: npt.NDArray[np.float32],
    top_ids: npt.NDArray[np.int64],
    width: int,
) -> list[Candidates]:
    """The best continuations of each search in B slots.

    Args:
        searches: those in B slots, whose rows follow each other; None is left out.
        top_scores: [B x W, K] log-probabilities, best first, K at least twice the width.
        top_ids: [B x W, K], their tokens.
        width: W of all searches.
    """
    present = [(slot, search) for slot, search in enumerate(searches) if search is not None]
    if not present:
        return []
    wanted = 2 * width
    # Live hypotheses in the order of their scores, whatever rows they have: equal scores are told
    # apart by that order.
    rows = np.array(
        [[slot * width + row for row in search.live_rows] for slot, search in present]
    )  # [B, W]
    live_scores = np.array([search.live_scores for _, search in present], np.float32)
    total = live_scores[:, :, None] + top_scores[rows, :wanted]  # [B, W, 2W]
    total = total.reshape(len(present), -1)
    order = np.argsort(-total, axis=1, kind="stable")[:, :wanted]
    scores = np.take_along_axis(total, order, axis=1).tolist()
    ids = top_ids[rows, :wanted].reshape(len(present), -1)
    tokens = np.take_along_axis(ids, order, axis=1).tolist()
    parents = (order // wanted).tolist()
    return list(map(Candidates, scores, parents, tokens))


def place(parents: Sequence[int], width: int) -> list[int]:
    """Rows for hypotheses, so that few of them must be copied.

    A parent's first child stays in its row; further ones take rows whose hypotheses died, which
    nobody reads any more, so that the copies may be made in any order.

    Args:
        parents: the row that each hypothesis goes on from.
        width: number of rows.

    Returns:
        A row for each hypothesis, all different.
    """
    free = [row for row in range(width) if row not in parents]
    taken: set[int] = set()
    rows = []
    for parent in parents:
        rows.append(free.pop() if parent in taken else parent)
        taken.add(parent)
    return rows


def common_beginning(outcomes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The tokens with which all begin."""
    # What the first and the last in order have in common, all between them have too.
    pairs = zip(min(outcomes), max(outcomes), strict=False)
    return tuple(token for token, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
