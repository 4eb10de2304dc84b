"""Constraints on a translation: what a request changes in the model's scores, as data."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dragoman_serving.engine.arrays import Floats
from dragoman_serving.engine.sampling import Sampling


class Rule(Protocol):
    """Forbids tokens, or lowers their scores."""

    def apply(self, said: tuple[int, ...], scores: Floats) -> None:
        """Change the scores [V] of what comes after these tokens, in place; -inf forbids."""


@dataclass(frozen=True)
class FewestTokens:
    """A translation does not end before it has so many tokens."""

    tokens: int
    end_id: int

    def apply(self, said: tuple[int, ...], scores: Floats) -> None:
        """See `Rule`."""
        if len(said) < self.tokens:
            scores[self.end_id] = -math.inf


@dataclass(frozen=True)
class RepetitionPenalty:
    """Multiplies the log-probability of every token that was said before.

    Source: Keskar et al. 2019, section 4.1, https://arxiv.org/abs/1909.05858, of log-probabilities,
    which unlike logits are the same whatever constant is added to a row.
    """

    penalty: float

    def apply(self, said: tuple[int, ...], scores: Floats) -> None:
        """See `Rule`."""
        before = list(set(said))
        scores[before] *= np.float32(self.penalty)


@dataclass(frozen=True)
class NoRepeatedNgrams:
    """No run of so many tokens stands in a translation twice."""

    size: int

    def apply(self, said: tuple[int, ...], scores: Floats) -> None:
        """See `Rule`."""
        end = said[len(said) - self.size + 1 :]
        starts = range(len(said) - self.size + 1)
        found = [i + self.size - 1 for i in starts if said[i : i + self.size - 1] == end]
        scores[[said[i] for i in found]] = -math.inf


@dataclass(frozen=True, eq=False)
class TermConstraints:
    """Sequences of tokens that a translation must hold, each as words of their own.

    `continuing` [V] says which tokens go on with the word before them, which none may do behind a
    term. `after` says of each term which other one must have been said before it, if any.
    """

    sequences: tuple[tuple[int, ...], ...]
    continuing: npt.NDArray[np.bool_] = field(repr=False)
    after: tuple[int | None, ...] = ()


@dataclass(frozen=True)
class Guidance:
    """What a search heeds beside the scores.

    `prefix` is how a translation begins. Beam search ends once `patience` times as many hypotheses
    as its beam is wide have finished (Kasai et al. 2022, https://arxiv.org/abs/2204.05424); without
    `early_stopping`, once no other can become better than the best so many.
    """

    prefix: tuple[int, ...] = ()
    rules: tuple[Rule, ...] = ()
    terms: TermConstraints | None = None
    sampling: Sampling | None = None
    patience: float = 1.0
    early_stopping: bool = True

    def heed(self, said: tuple[int, ...], scores: Floats) -> None:
        """Change the scores [V] of what comes after these tokens, in place."""
        if len(said) < len(self.prefix):
            token = self.prefix[len(said)]
            score = scores[token]
            scores.fill(-math.inf)
            scores[token] = score
            return
        for rule in self.rules:
            rule.apply(said, scores)
