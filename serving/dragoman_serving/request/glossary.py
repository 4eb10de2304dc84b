"""Glossary terms, which have a given translation."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import NamedTuple

from dragoman.kernel.texts.terms import (
    TERM_START,
    WORD_CHARACTER,
    folded,
    folded_text,
    longest_prefixes,
)


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
        terms: list[Term] = []
        end = 0
        for start in TERM_START.finditer(folded):
            if start.start() >= end and (term := self._term_at(folded, start.start())):
                end = start.start() + len(term)
                begin = places[start.start()]
                if begin < places[end]:  # else a part of a character, as in ½
                    terms.append(Term(begin, places[end], self._targets[term], term))
        return terms

    def _term_at(self, text: str, begin: int) -> str | None:
        """The longest term at this position that ends at a word boundary.

        Only the term found by binary search and its prefixes can match, so the time does not grow
        linearly with the number of terms.
        """
        index = bisect_right(self._sorted, text[begin : begin + self._longest])
        term = self._sorted[index - 1] if index else None
        while term and not (
            text.startswith(term, begin) and not WORD_CHARACTER.match(text, begin + len(term))
        ):
            term = self._shorter[term]
        return term
