"""Sampling: a token by its probability, after temperature, top-k and top-p."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dragoman_serving.engine.arrays import Floats, Ids, Rank

_FEWEST_OF_NUCLEUS = 64
"""Tokens that are sorted at first: mostly these few have the share."""


@dataclass(frozen=True)
class Sampling:
    """How tokens are sampled; the same `seed` samples the same tokens.

    A `temperature` above 1 flattens the distribution; `top_k` keeps that many of the most probable
    tokens; `top_p` keeps the fewest most probable tokens that have this probability together
    (Holtzman et al. 2020, https://arxiv.org/abs/1904.09751).
    """

    seed: tuple[int, ...]
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def token(self, scores: Floats, number: float, rank: Rank) -> int | None:
        """Sample a token.

        Args:
            scores: log-probabilities [V].
            number: from 0 to 1. The token at which the cumulative probability, by id, passes it.
            rank: finds the best scores.

        Returns:
            The token; None if all are forbidden.
        """
        most = scores.max()
        if most == -math.inf:
            return None
        weights: Floats = np.exp((scores - most) / np.float32(self.temperature))
        kept: Ids | None = None
        if self.top_k is not None:
            kept = rank(scores, self.top_k)
        if self.top_p is not None:
            kept = _nucleus(scores, weights, kept, self.top_p, rank)
        if kept is not None:
            kept.sort()
            weights = weights[kept]
        # Where a token has no probability, the sum does not grow, so no number leads to it.
        total = np.cumsum(weights, dtype=np.float64)
        index = int(np.searchsorted(total, number * total[-1], side="right"))
        index = min(index, len(total) - 1)
        return index if kept is None else int(kept[index])


def _nucleus(scores: Floats, weights: Floats, kept: Ids | None, share: float, rank: Rank) -> Ids:
    """The fewest tokens, best first, that have such a share of the weights of those kept."""
    whole = share * float((weights if kept is None else weights[kept]).sum(dtype=np.float64))
    best = rank(scores, _FEWEST_OF_NUCLEUS) if kept is None else kept
    total = np.cumsum(weights[best], dtype=np.float64)
    if kept is None and total[-1] < whole:
        best = np.argsort(-scores)
        total = np.cumsum(weights[best], dtype=np.float64)
    return best[: int(np.searchsorted(total, whole)) + 1]
