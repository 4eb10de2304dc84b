"""The search for one sentence's translation, step by step.

Sees the scores of its own rows alone; must not know about batches, caches or text. A search has as
many rows as its width, from the first step to the last. At the first step all of them say the same,
and only the first one's scores count.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dragoman.hypothesis import Hypothesis
from serving.engine.sentence import Sentence


@dataclass(frozen=True)
class Continuation:
    """What the rows say next, and the row of before that each goes on from."""

    tokens: Sequence[int]
    parents: Sequence[int]


@dataclass(frozen=True)
class Candidates:
    """A search's best continuations, twice as many as it is wide, best first.

    `parents` are places among the live hypotheses.
    """

    scores: list[float]
    parents: list[int]
    tokens: list[int]


def _length_penalty(length: int, alpha: float) -> float:
    # Wu et al. 2016, equation 14
    return float(((5 + length) / 6) ** alpha)


class GreedySearch:
    """Takes the best token at every step; its hypothesis has no score, which nothing here needs."""

    def __init__(self, sentence: Sentence, end_id: int) -> None:
        """Begin a search that may generate up to the sentence's `max_tokens`."""
        self._limit = sentence.max_tokens
        self._end_id = end_id
        self._ids: list[int] = []
        self.result: Hypothesis | None = None

    def advance(self, token: int) -> None:
        """Take the best token of one step; `result` is there once it was the last."""
        if token == self._end_id:
            self.result = Hypothesis(tuple(self._ids), None, complete=True)
            return
        self._ids.append(token)
        if len(self._ids) == self._limit:
            self.result = Hypothesis(tuple(self._ids), None, complete=False)

    def certain(self) -> tuple[int, ...]:
        """The tokens that the translation will begin with."""
        return tuple(self._ids)


class BeamSearch:
    """Beam search as `training.search` defines it."""

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

    def advance(self, candidates: Candidates) -> Continuation | None:
        """Choose what the rows say next.

        Returns:
            The next step's rows; None once `result` is there.
        """
        length = len(self._live[0]) + 1
        chosen: list[int] = []
        penalty = _length_penalty(length, self._alpha)
        scores, parents, tokens = candidates.scores, candidates.parents, candidates.tokens
        for rank, token in enumerate(tokens):
            if token != self._end_id:
                if len(chosen) < self._width:
                    chosen.append(rank)
            elif rank < self._width:
                ids = self._live[parents[rank]]
                self._finished.append(Hypothesis(ids, scores[rank] / penalty, complete=True))
        rows_of_parents = [self.live_rows[parents[rank]] for rank in chosen]
        self._live = [(*self._live[parents[rank]], tokens[rank]) for rank in chosen]
        self.live_scores = [scores[rank] for rank in chosen]
        if len(self._finished) < self._width and length < self._limit:
            self.live_rows = place(rows_of_parents, self._width)
            return self._continuation(rows_of_parents)
        if len(self._finished) < self._width:
            self._finished += [
                Hypothesis(ids, score / penalty, complete=False)
                for ids, score in zip(self._live, self.live_scores, strict=True)
            ]
        self.result = max(self._finished, key=_score)
        return None

    def certain(self) -> tuple[int, ...]:
        """The tokens that the translation will begin with: those that no outcome differs in."""
        outcomes = [*self._live, *(hypothesis.ids for hypothesis in self._finished)]
        # What the first and the last in order have in common, all between them have too.
        pairs = zip(min(outcomes), max(outcomes), strict=False)
        return tuple(
            token for token, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)
        )

    def _continuation(self, rows_of_parents: Sequence[int]) -> Continuation:
        tokens, parents = [0] * self._width, list(range(self._width))
        for ids, row, parent in zip(self._live, self.live_rows, rows_of_parents, strict=True):
            tokens[row], parents[row] = ids[-1], parent
        return Continuation(tokens, parents)


Search: TypeAlias = GreedySearch | BeamSearch


def begin_search(sentence: Sentence, end_id: int) -> Search:
    """The search that a sentence asks for."""
    kind = GreedySearch if sentence.options.beam_width == 1 else BeamSearch
    return kind(sentence, end_id)


def candidates(
    searches: Sequence[BeamSearch],
    top_scores: npt.NDArray[np.float32],
    top_ids: npt.NDArray[np.int64],
) -> list[Candidates]:
    """The best continuations of each of B searches of one width W.

    Args:
        searches: B of them; their rows follow each other.
        top_scores: [B x W, K] log-probabilities, best first, K at least twice the width.
        top_ids: [B x W, K], their tokens.
    """
    width = len(searches[0].live_rows)
    wanted = 2 * width
    first_rows = width * np.arange(len(searches))[:, None]
    # Live hypotheses in the order of their scores, whatever rows they have: equal scores are told
    # apart by that order.
    rows = first_rows + np.array([search.live_rows for search in searches])  # [B, W]
    live_scores = np.array([search.live_scores for search in searches], np.float32)
    total = live_scores[:, :, None] + top_scores[rows, :wanted]  # [B, W, 2W]
    total = total.reshape(len(searches), -1)
    order = np.argsort(-total, axis=1, kind="stable")[:, :wanted]
    scores = np.take_along_axis(total, order, axis=1).tolist()
    ids = top_ids[rows, :wanted].reshape(len(searches), -1)
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


def _score(hypothesis: Hypothesis) -> float:
    assert hypothesis.score is not None  # beam search scores all
    return hypothesis.score
