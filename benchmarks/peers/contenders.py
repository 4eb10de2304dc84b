"""What the compared sides are asked for, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass

SOURCE_LANGUAGE, TARGET_LANGUAGE = "en", "de"
LENGTH_PENALTY = 0.6
"""Of both sides, where translations are not judged."""


@dataclass(frozen=True)
class LengthPenalties:
    """Of beam search, where translations are judged.

    Ours is the exponent of ((5 + length) / 6), CTranslate2's that of the length: the same number
    would let one side favour longer translations than the other. The defaults are the shipped
    model's best ones on the first 1,000 sentences of `tatoeba-en-de/valid`.
    """

    ours: float = 1.0
    peer: float = 0.8


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
