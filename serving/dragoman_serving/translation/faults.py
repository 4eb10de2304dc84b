"""What is wrong with a translation at first sight, by rules that cost microseconds.

Figures of how often a fault is found, and how often a reference translation has one:
docs/options.md, "Faulty translations".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dragoman.kernel.hypothesis import Hypothesis

REPETITION, SHORT, LONG, UNTRANSLATED = "repetition", "short", "long", "untranslated"
"""Names of faults, as answers have them."""

_LOOP = re.compile(r"(.)\1{5}|(..)\2{3}|(.{3,12})\3{2}", re.DOTALL)
"""A token six times, two four times, up to twelve three times; each token is a character."""
_FEWEST_REPEATED = 5
"""Tokens of a loop that stand before in it."""
_SHORTEST_RATIO, _LONGEST_RATIO = 0.35, 3.0
"""Tokens of a translation for each token of its sentence."""
_FEWEST_TOKENS = 10
"""Of a sentence whose translation's length is looked at; a shorter one may be an idiom."""
_WORD = re.compile(r"[^\W\d_]+")
_MOST_DIFFERENCE = 3
"""Characters by which a translation that is a copy may differ in length: punctuation."""


def fault_of(src_ids: Sequence[int], found: Hypothesis) -> str | None:
    """The fault of a translation that another search may not have: a loop, or its length.

    Args:
        src_ids: of the sentence, tag and end symbol included.
        found: its translation.
    """
    if has_loop(found.ids) and not has_loop(src_ids):
        return REPETITION
    if len(src_ids) < _FEWEST_TOKENS:
        return None
    ratio = found.length / len(src_ids)
    if ratio > _LONGEST_RATIO:
        return LONG
    return SHORT if ratio < _SHORTEST_RATIO and found.complete else None


def is_copy(text: str, translation: str) -> bool:
    """Whether a translation has the words of its sentence, as that of a name rightly has."""
    if abs(len(text) - len(translation)) > _MOST_DIFFERENCE:
        return False
    words = _WORD.findall(text.casefold())
    return bool(words) and words == _WORD.findall(translation.casefold())


def has_loop(ids: Sequence[int]) -> bool:
    """Whether tokens are repeated in a row, as in "menmenmenmenmenmen"."""
    if len(ids) - len(set(ids)) < _FEWEST_REPEATED:
        return False
    return _LOOP.search("".join(map(chr, ids))) is not None
