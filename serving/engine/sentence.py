"""What goes into the engine and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SearchOptions:
    """How to search for one sentence's translation.

    `beam_width` 1 is greedy search. `length_penalty` is the exponent of Wu et al. 2016, equation
    14.
    """

    beam_width: int = 4
    length_penalty: float = 0.6


@dataclass(frozen=True)
class Sentence:
    """Source ids, tag and end symbol included, and the most tokens to generate for them."""

    src_ids: tuple[int, ...]
    max_tokens: int
    options: SearchOptions


@dataclass(frozen=True)
class Hypothesis:
    """A translation.

    `ids` are its tokens without start and end symbol; `score` is the sum of their
    log-probabilities, the end symbol's included, over the length penalty; `complete` is false where
    the limit cut it.
    """

    ids: tuple[int, ...]
    score: float
    complete: bool
