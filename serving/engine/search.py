"""The search for one sentence's translation, step by step.

Sees the best few scores of its own rows alone; must not know about batches, caches or text.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dragoman.hypothesis import Hypothesis
from serving.engine.sentence import Sentence


@dataclass(frozen=True)
class Continuation:
    """A row of the next step: which of the sentence's rows it goes on from, and with what token."""

    parent: int
    token: int


def _length_penalty(length: int, alpha: float) -> float:
    # Wu et al. 2016, equation 14
    return float(((5 + length) / 6) ** alpha)


class Search:
    """Beam search as `training.search` defines it; greedy search is its width of one.

    Begins with one row; `advance` says which rows there are in the next step, until `result` is
    there.
    """

    def __init__(self, sentence: Sentence, end_id: int) -> None:
        """Begin a search that may generate up to the sentence's `max_tokens`."""
        self._width = sentence.options.beam_width
        self._alpha = sentence.options.length_penalty
        self._limit = sentence.max_tokens
        self._end_id = end_id
        self._live: list[tuple[int, ...]] = [()]
        self._live_scores = np.zeros(1, dtype=np.float32)
        self._finished: list[Hypothesis] = []
        self.result: Hypothesis | None = None

    @property
    def rows(self) -> int:
        """Number of rows that the next step must have for this sentence."""
        return len(self._live)

    def advance(
        self, top_scores: npt.NDArray[np.float32], top_ids: npt.NDArray[np.int64]
    ) -> list[Continuation]:
        """Take one step's scores and choose the rows of the next.

        Args:
            top_scores: [rows, K] log-probabilities, best first, K at least twice the beam width.
            top_ids: [rows, K], their tokens.

        Returns:
            The next step's rows; none once `result` is there.
        """
        length = len(self._live[0]) + 1
        wanted = 2 * self._width
        total = self._live_scores[:, None] + top_scores[:, :wanted]
        order = np.argsort(-total, axis=None, kind="stable")[:wanted]
        scores = total.ravel()[order]
        parents = (order // total.shape[1]).tolist()
        tokens = top_ids[:, :wanted].ravel()[order].tolist()
        chosen: list[int] = []
        penalty = _length_penalty(length, self._alpha)
        for rank, (parent, token) in enumerate(zip(parents, tokens, strict=True)):
            if token != self._end_id:
                if len(chosen) < self._width:
                    chosen.append(rank)
            elif rank < self._width:
                score = float(scores[rank]) / penalty
                self._finished.append(Hypothesis(self._live[parent], score, complete=True))
        self._live = [(*self._live[parents[rank]], tokens[rank]) for rank in chosen]
        self._live_scores = scores[chosen]
        if len(self._finished) < self._width and length < self._limit:
            return [Continuation(parents[rank], tokens[rank]) for rank in chosen]
        if len(self._finished) < self._width:
            self._finished += [
                Hypothesis(ids, float(score) / penalty, complete=False)
                for ids, score in zip(self._live, self._live_scores, strict=True)
            ]
        self.result = max(self._finished, key=lambda hypothesis: hypothesis.score)
        return []
