"""What a search finds, whether the oracle's or the engine's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Hypothesis:
    """A translation.

    `ids` are its tokens without start and end symbol; `score` is the sum of their
    log-probabilities, the end symbol's included, over the length penalty; `complete` is false where
    the limit cut it. A search that scores nothing leaves `score` at None. `others` are what it
    found beside this best one, best first, where they were asked for.
    """

    ids: tuple[int, ...]
    score: float | None
    complete: bool
    others: tuple[Hypothesis, ...] = ()
