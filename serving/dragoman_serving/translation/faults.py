"""Detects obvious faults of translations, with rules that take microseconds.

How often a fault is found, and how often a reference translation has one:
docs/options.md, "Faulty translations".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dragoman.kernel.hypothesis import Hypothesis

REPETITION, SHORT, LONG, UNTRANSLATED = "repetition", "short", "long", "untranslated"
"""Names of faults in answers."""

_LOOP = re.compile(r"(.)\1{5}|(..)\2{3}|(.{3,12})\3{2}", re.DOTALL)
"""One token 6 times in a row, two tokens 4 times, or up to 12 tokens 3 times. Each character is a
token."""
_FEWEST_REPEATED = 5
"""Least number of repeated tokens in a loop."""
_SHORTEST_RATIO, _LONGEST_RATIO = 0.35, 3.0
"""Limits of the translation's tokens per source token."""
_FEWEST_TOKENS = 10
"""Least source tokens for the check of the length; a shorter sentence may be an idiom."""
_WORD = re.compile(r"[^\W\d_]+")
_MOST_DIFFERENCE = 3
"""A copy may differ in length by this many characters, for punctuation."""


def fault_of(src_ids: Sequence[int], hypothesis: Hypothesis) -> str | None:
    """Returns a fault that another search may avoid, a loop or a wrong length, or None.

    Args:
        src_ids: ids of the sentence, tag and end symbol included.
        hypothesis: its translation.
    """
    if has_loop(hypothesis.ids) and not has_loop(src_ids):
        return REPETITION
    if len(src_ids) < _FEWEST_TOKENS:
        return None
    ratio = hypothesis.length / len(src_ids)
    if ratio > _LONGEST_RATIO:
        return LONG
    return SHORT if ratio < _SHORTEST_RATIO and hypothesis.complete else None


def is_copy(text: str, translation: str) -> bool:
    """Whether a translation has the same words as its sentence. For a name that is correct."""
    if abs(len(text) - len(translation)) > _MOST_DIFFERENCE:
        return False
    words = _WORD.findall(text.casefold())
    return bool(words) and words == _WORD.findall(translation.casefold())


def is_lost(text: str, translation: str) -> bool:
    """Whether a translation has nothing of the words of its sentence.

    Letters may become digits beside digits: `3 p.m.` is `15:00`.
    """
    if any(map(str.isalpha, translation)) or not any(map(str.isalpha, text)):
        return False
    return not (any(map(str.isdigit, text)) and any(map(str.isdigit, translation)))


def has_loop(ids: Sequence[int]) -> bool:
    """Whether tokens are repeated in a loop, as in "menmenmenmenmenmen"."""
    if len(ids) - len(set(ids)) < _FEWEST_REPEATED:
        return False
    return _LOOP.search("".join(map(chr, ids))) is not None
