"""Inputs and outputs of the compared translators."""

from __future__ import annotations

from dataclasses import dataclass

SOURCE_LANGUAGE, TARGET_LANGUAGE = "en", "de"
LENGTH_PENALTY = 0.6
"""Of both sides, if translations are not compared."""


@dataclass(frozen=True)
class LengthPenalties:
    """Length penalties of beam search, if translations are compared.

    Ours is the exponent of ((5 + length) / 6), CTranslate2's that of the length: the same number
    would make one side prefer longer translations than the other. The defaults are the best ones
    for the shipped model on the first 1,000 sentences of `tatoeba-en-de/valid`.
    """

    ours: float = 1.5
    peer: float = 1.2


@dataclass(frozen=True)
class Output:
    """A translation; `tokens` without the end symbol; `cut` if it reached the token limit."""

    text: str
    tokens: int
    cut: bool
    ids: tuple[int, ...] | None = None
    """Token ids, if the contender reports them."""


@dataclass(frozen=True)
class Run:
    """The translations of some texts and the seconds they took, tokenization included."""

    elapsed_s: float
    outputs: tuple[Output, ...]
