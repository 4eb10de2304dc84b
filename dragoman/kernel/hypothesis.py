"""What a search finds, whether the oracle's or the engine's."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from dragoman.kernel.exact import power


@dataclass(frozen=True)
class Hypothesis:
    """A translation.

    `ids` are its tokens without start and end symbol. `log_prob` is the sum of their
    log-probabilities, the end symbol's included; None if the search does not score. `complete` is
    false if the limit cut it. `others` are further translations, best first, if they were
    requested. `rescored` is the score if it was computed after the search.
    """

    ids: tuple[int, ...]
    log_prob: float | None
    complete: bool
    others: tuple[Hypothesis, ...] = ()
    rescored: float | None = None

    @property
    def length(self) -> int:
        """Number of tokens, the end symbol included."""
        return len(self.ids) + self.complete

    def score(self, alpha: float) -> float:
        """What scored hypotheses are compared by; `alpha` as for `length_penalty`."""
        if self.rescored is not None:
            return self.rescored
        assert self.log_prob is not None
        return self.log_prob / length_penalty(self.length, alpha)


@lru_cache(maxsize=4096)
def length_penalty(length: int, alpha: float) -> float:
    """What a sum of log-probabilities is divided by.

    Args:
        length: number of tokens, the end symbol included.
        alpha: 0 for none.

    Source: Wu et al. 2016, equation 14, https://arxiv.org/abs/1609.08144
    """
    return power((5 + length) / 6, alpha)
