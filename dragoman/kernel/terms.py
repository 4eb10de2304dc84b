"""The rule by which terms of a glossary are found in texts: without case, as whole words.

The engine and the gateway use it, so that the gateway sends all terms that the engine would find.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

TERM_START = re.compile(r"(?<!\w)\S")
"""A position at which a term may begin."""
WORD_CHARACTER = re.compile(r"\w")
"""What must not follow a term."""


def folded(term: str) -> str:
    """A term as it is compared with a text, of which `str.casefold` is taken."""
    return term.strip().casefold()


def longest_prefixes(terms: Sequence[str]) -> dict[str, str | None]:
    """The longest other term that each begins with.

    Args:
        terms: in ascending order.

    Returns:
        In the same order; None: the term begins with no other one.
    """
    found: dict[str, str | None] = {}
    prefixes: list[str] = []
    for term in terms:
        while prefixes and not term.startswith(prefixes[-1]):
            prefixes.pop()
        found[term] = prefixes[-1] if prefixes else None
        prefixes.append(term)
    return found
