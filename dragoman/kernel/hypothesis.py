"""The result of a search, of the PyTorch oracle or the engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dragoman.kernel.exact import power


@dataclass  # not frozen: that is three times slower, and there is one for each sentence
class Hypothesis:
    """A translation.

    `ids` are its tokens without start and end symbol. `log_prob` is the sum of their
    log-probabilities, including the end symbol's; None if the search does not score. `complete` is
    false if the length limit cut the translation. `others` are more translations, best first, if
    they were requested. `rescored` is the score if it was computed after the search.
    `token_log_probs` are the model's log-probabilities, including the end symbol's; `attention`
    [N, S] is the mean of the alignment heads at the N steps that generated these tokens. Both are
    None if they were not requested or are not available.
    """

    ids: tuple[int, ...]
    log_prob: float | None
    complete: bool
    others: tuple[Hypothesis, ...] = ()
    rescored: float | None = None
    token_log_probs: tuple[float, ...] | None = None
    attention: npt.NDArray[np.float32] | None = field(default=None, compare=False, repr=False)

    @property
    def length(self) -> int:
        """Number of tokens, the end symbol included."""
        return len(self.ids) + self.complete

    def score(self, alpha: float) -> float:
        """Returns the score that ranks hypotheses; `alpha` as for `length_penalty`."""
        if self.rescored is not None:
            return self.rescored
        assert self.log_prob is not None
        return self.log_prob / length_penalty(self.length, alpha)


@lru_cache(maxsize=4096)
def length_penalty(length: int, alpha: float) -> float:
    """Returns the divisor of a sum of log-probabilities.

    Args:
        length: number of tokens, the end symbol included.
        alpha: exponent; 0 for no penalty.

    Source: Wu et al. 2016, equation 14, https://arxiv.org/abs/1609.08144
    """
    return power((5 + length) / 6, alpha)
