"""Glossary terms, which have a given translation."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import NamedTuple

from dragoman.kernel.texts.terms import (
    TERM_START,
    WORD_CHARACTER,
    folded,
    folded_text,
    longest_prefixes,
)

_IN_COMPOUND = re.compile(
    r"-(?!(?:c[ei]|elles?|en|ils?|je|la|là|les?|leur|lui|moi|nous|on|toi|tu?|vous|y)(?![\w-]))"
    r"[a-zß-öø-ÿ]"
)
"""What follows a term within a word such as `car-free`, but not in `Server-Raum` or `dit-il`."""


class Term(NamedTuple):
    """A source term in a text, from `begin` to `end`, and its given translation.

    `source` is the term as the glossary's index has it: folded.
    """

    begin: int
    end: int
    target: str
    source: str


class Glossary:
    """Source terms, each with the target term that the translation must contain."""

    def __init__(self, terms: Mapping[str, str]) -> None:
        """Store terms; where several match at one position, the longest counts.

        Args:
            terms: target terms by source term, none of them empty.
        """
        self._targets = {folded(term): target for term, target in terms.items()}
        self._sorted = sorted(self._targets)
        self._shorter = longest_prefixes(self._sorted)
        self._longest = max(map(len, self._sorted), default=0)

    def of(self, text: str) -> list[Term]:
        """Returns the terms of a text, in order."""
        folded, places = folded_text(text)

        def ends_word(end: int) -> bool:
            return not (WORD_CHARACTER.match(folded, end) or _IN_COMPOUND.match(text, places[end]))

        terms: list[Term] = []
        end = 0
        for start in TERM_START.finditer(folded):
            if start.start() >= end and (term := self._term_at(folded, start.start(), ends_word)):
                end = start.start() + len(term)
                begin = places[start.start()]
                if begin < places[end]:  # else a part of a character, as in ½
                    terms.append(Term(begin, places[end], self._targets[term], term))
        return terms

    def _term_at(self, text: str, begin: int, ends_word: Callable[[int], bool]) -> str | None:
        """The longest term at this position that ends at a word boundary.

        Only the term found by binary search and its prefixes can match, so the time does not grow
        linearly with the number of terms.
        """
        index = bisect_right(self._sorted, text[begin : begin + self._longest])
        term = self._sorted[index - 1] if index else None
        while term and not (text.startswith(term, begin) and ends_word(begin + len(term))):
            term = self._shorter[term]
        return term
