"""The matching rule of glossary terms in texts: case-insensitive, whole words.

The engine and the gateway share it, so that the gateway sends all terms that the engine would find.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

TERM_START = re.compile(r"(?<!\w)\S")
"""A position at which a term may begin."""
WORD_CHARACTER = re.compile(r"\w")
"""A term must not be followed by one."""


def folded(term: str) -> str:
    """Returns the form of a term that is compared with the case-folded text."""
    return term.strip().casefold()


def longest_prefixes(terms: Sequence[str]) -> dict[str, str | None]:
    """Returns, for each term, the longest other term that it begins with.

    Args:
        terms: in ascending order.

    Returns:
        The prefixes by term, in the same order; None: the term begins with no other term.
    """
    found: dict[str, str | None] = {}
    prefixes: list[str] = []
    for term in terms:
        while prefixes and not term.startswith(prefixes[-1]):
            prefixes.pop()
        found[term] = prefixes[-1] if prefixes else None
        prefixes.append(term)
    return found
