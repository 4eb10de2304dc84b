"""Terms with a translation of their own."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

from dragoman.kernel.terms import START, WORD, longest_prefixes


class Glossary:
    """Source terms, each with what a translation shall hold for it."""

    def __init__(self, terms: Mapping[str, str]) -> None:
        """Take terms, of which the longest counts where several begin at one place.

        Args:
            terms: target term by source term, none of them empty.
        """
        self._targets = {term.strip().casefold(): target for term, target in terms.items()}
        self._sorted = sorted(self._targets)
        self._shorter = longest_prefixes(self._sorted)
        self._longest = max(map(len, self._sorted), default=0)

    def targets_of(self, text: str) -> tuple[str, ...]:
        """What the translation of a text shall hold: once for each term that stands there."""
        text = text.casefold()
        found: dict[str, None] = {}
        end = 0
        for start in START.finditer(text):
            if start.start() >= end and (term := self._term_at(text, start.start())):
                found[self._targets[term]] = None
                end = start.start() + len(term)
        return tuple(found)

    def _term_at(self, text: str, begin: int) -> str | None:
        """The longest term that stands there as a whole word.

        Only one term and those that it begins with can stand there, so that a text's time does not
        grow with the number of terms.
        """
        index = bisect_right(self._sorted, text[begin : begin + self._longest])
        term = self._sorted[index - 1] if index else None
        while term and not (
            text.startswith(term, begin) and not WORD.match(text, begin + len(term))
        ):
            term = self._shorter[term]
        return term
