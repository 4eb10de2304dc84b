"""What a search heeds beside the model's scores, and how far a hypothesis has come with it.

Knows token ids and scores; must not know text, rows or how the next tokens are found.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dragoman_serving.engine.runtimes.cache import Floats


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


@dataclass(frozen=True)
class Sampling:
    """Tokens are drawn by their probabilities, which `seed` does in the same way every time.

    `temperature` flattens the distribution above 1; `top_k` keeps the best so many tokens; `top_p`
    keeps the fewest best ones that have this much probability together (Holtzman et al. 2020,
    https://arxiv.org/abs/1904.09751).
    """

    seed: tuple[int, ...]
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None


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


@dataclass(frozen=True)
class Progress:
    """Which terms a hypothesis has said, as a set of bits, and how much of one it is saying."""

    met: int = 0
    term: int | None = None
    place: int = 0
    just_met: bool = False

    @property
    def bank(self) -> int:
        """How many terms were begun."""
        return self.met.bit_count() + (self.term is not None)

    def begin(self, term: int, terms: TermConstraints) -> Progress:
        """After the first token of a term."""
        return Progress(self.met, term, 0).go_on(terms)

    def go_on(self, terms: TermConstraints) -> Progress:
        """After the next token of the term that is being said."""
        assert self.term is not None
        place = self.place + 1
        if place == len(terms.sequences[self.term]):
            return Progress(self.met | 1 << self.term, just_met=True)
        return Progress(self.met, self.term, place)

    def say_else(self) -> Progress:
        """After any other token."""
        return Progress(self.met)

    def unmet(self, terms: TermConstraints) -> Iterable[int]:
        """Terms that may be begun: of equal ones, which stand for so many places, the first."""
        left = {
            sequence: i
            for i, sequence in reversed(list(enumerate(terms.sequences)))
            if not self.met >> i & 1
        }
        return [term for term in left.values() if not terms.after or self._has(terms.after[term])]

    def _has(self, term: int | None) -> bool:
        return term is None or bool(self.met >> term & 1)

    @property
    def state(self) -> tuple[int, int | None, int]:
        """What hypotheses of the same tokens may differ in."""
        return self.met, self.term, self.place
