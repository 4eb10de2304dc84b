"""The matching rule of glossary terms in texts: case-insensitive, whole words.

The engine and the gateway share it, so that the gateway sends all terms that the engine would find.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

TERM_START = re.compile(r"(?<![\w@#/])(?<!\b\w-)(?<!\b\w\w-)(?<!\b\w\w\w-)\S")
"""A position at which a term may begin; `in-house` has no house, but `Bauern-Haus` has."""
WORD_CHARACTER = re.compile(r"\w")
"""A term must not be followed by one."""
_OTHER_SPACE = re.compile(r"[^\S ]")
_CLUSTER = re.compile(r"\s+|\S[\u0300-\u036f]*")


def folded(term: str) -> str:
    """Returns the form of a term that is compared with the folded text."""
    return folded_text(term.strip())[0]


def folded_text(text: str) -> tuple[str, Sequence[int]]:
    """Returns a text without differences of case, spelling and white space.

    Returns:
        The folded text; for each of its characters, and its end, the index in the text.
    """
    if text.isascii() and "  " not in text and not _OTHER_SPACE.search(text):
        return text.casefold(), range(len(text) + 1)
    parts: list[str] = []
    places: list[int] = []
    for cluster in _CLUSTER.finditer(text):
        part = unicodedata.normalize("NFKC", cluster[0]).casefold()
        parts.append(" " if cluster[0].isspace() else part)
        places += [cluster.start()] * len(parts[-1])
    return "".join(parts), [*places, len(text)]


def longest_prefixes(terms: Sequence[str]) -> dict[str, str | None]:
    """Returns, for each term, the longest other term that it begins with.

    Args:
        terms: in ascending order.

    Returns:
        The prefixes by term, in the same order; None: the term begins with no other term.
    """
    prefix_of: dict[str, str | None] = {}
    prefixes: list[str] = []
    for term in terms:
        while prefixes and not term.startswith(prefixes[-1]):
            prefixes.pop()
        prefix_of[term] = prefixes[-1] if prefixes else None
        prefixes.append(term)
    return prefix_of
