"""The rule by which a text contains a term: as a whole word, the longest term first.

The engine and the gateway look for terms in different ways, and must find the same ones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

START = re.compile(r"(?<!\w)\S")
"""Where a term may begin."""
WORD = re.compile(r"\w")
"""What may not follow a term."""


def longest_prefixes(terms: Sequence[str]) -> dict[str, str | None]:
    """The longest other term that each begins with, of terms in rising order."""
    found: dict[str, str | None] = {}
    prefixes: list[str] = []
    for term in terms:
        while prefixes and not term.startswith(prefixes[-1]):
            prefixes.pop()
        found[term] = prefixes[-1] if prefixes else None
        prefixes.append(term)
    return found
