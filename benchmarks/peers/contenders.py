"""What the compared sides are asked for, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass

SOURCE_LANGUAGE, TARGET_LANGUAGE = "en", "de"
LENGTH_PENALTY = 0.6


@dataclass(frozen=True)
class Output:
    """A translation; `tokens` without the end symbol, `cut` if the limit of tokens ended it."""

    text: str
    tokens: int
    cut: bool
    ids: tuple[int, ...] | None = None
    """Token ids, from who tells them."""


@dataclass(frozen=True)
class Run:
    """What a contender made of some texts, and the seconds it took, tokenisation included."""

    elapsed_s: float
    outputs: tuple[Output, ...]
