"""Finds the terms of a glossary that occur in a text, so that only these are sent to the server."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from dragoman.kernel.texts.terms import (
    TERM_START,
    WORD_CHARACTER,
    folded,
    folded_text,
    longest_prefixes,
)

_RUN = re.compile(r"\S+")
_MOST_BYTES = 4
"""Maximum size of a character in UTF-8."""
_ENTRY_BYTES = 450
"""Memory of a term besides its characters: three strings, and entries in dicts and lists."""


class TermIndex:
    """Terms of one direction, sorted for prefix search.

    The engine uses the same rule (`dragoman.kernel.texts.terms`), the longest term first,
    separately in each part of a text. This index finds every term that could occur in any part,
    also within a longer term, so that the engine gets the same result from these terms as from all.
    """

    def __init__(self, terms: Mapping[str, str]) -> None:
        """Index terms.

        Args:
            terms: target terms by source term; of terms that differ only in case, the last one
                counts, as in the engine.
        """
        self._entries = {folded(term): (term, tgt) for term, tgt in terms.items()}
        self._sorted = sorted(self._entries)
        self._shorter = longest_prefixes(self._sorted)
        self._whole_shorter = _whole_prefixes(self._shorter)
        self._far_shorter = _far_prefixes(self._shorter)
        self._first_characters = {term[:1] for term in self._sorted}
        self._longest = max(map(len, self._sorted), default=0)

    def __len__(self) -> int:
        """Number of terms."""
        return len(self._entries)

    @cached_property
    def size_bytes(self) -> int:
        """Approximate memory usage."""
        characters = sum(len(term) + len(tgt) for term, tgt in self._entries.values())
        return _MOST_BYTES * characters + _ENTRY_BYTES * len(self)

    def occurring(self, text: str, uncut_bytes: int) -> dict[str, str]:
        """Returns the terms that may be found in a text, however it is split.

        Terms that begin with other terms are reached by jump pointers, and a term is checked only
        until it is found once. So a text without long runs takes time linear in its length.

        Args:
            text: any text.
            uncut_bytes: length in UTF-8; a shorter run without white space is never split. In
                longer runs a term need not be a whole word, since a split can make it one.

        Returns:
            Target terms by source term, in their original form.
        """
        if not self._entries:
            return {}
        found_terms = _SeenTerms(self._shorter), _SeenTerms(self._whole_shorter)
        written, _ = folded_text(text)
        long_runs = [
            run.span()
            for run in _RUN.finditer(written)
            if len(run[0]) * _MOST_BYTES >= uncut_bytes
            and len(run[0].encode("utf-8", "replace")) >= uncut_bytes
        ]
        for start in TERM_START.finditer(written):
            self._find_at(written, start.start(), long_runs, found_terms)
        for begin, end in long_runs:
            for at in range(begin + 1, end):
                self._find_at(written, at, long_runs, found_terms)
        return dict(self._entries[term] for group in found_terms for term in group.terms)

    def _find_at(
        self,
        text: str,
        begin: int,
        long_runs: Sequence[tuple[int, int]],
        found_terms: tuple[_SeenTerms, _SeenTerms],
    ) -> None:
        """Add all terms at a position that end at a word end, or where a long run may be split.

        Args:
            text: case-folded text.
            begin: the position.
            long_runs: spans of the runs that may be split.
            found_terms: the terms found at positions with a long run, and at others.
        """
        if text[begin] not in self._first_characters:
            return
        longest = self._longest_at(text, begin)
        if longest is None:
            return
        splits = _overlaps(long_runs, begin, begin + len(longest))
        here = found_terms[0] if splits else found_terms[1]
        term = here.not_found(longest)
        while term is not None:
            end = begin + len(term)
            if not WORD_CHARACTER.match(text, end) or _overlaps(long_runs, end, end):
                here.add(term)
            term = here.not_found(here.shorter[term])

    def _longest_at(self, text: str, begin: int) -> str | None:
        """Returns the longest term at a position, regardless of word ends."""
        index = bisect_right(self._sorted, text[begin : begin + self._longest])
        term = self._sorted[index - 1] if index else None
        # If a prefix does not match, no longer term does.
        while term is not None and not text.startswith(term, begin):
            far = self._far_shorter.get(term)
            if far is not None and not text.startswith(far, begin):
                term = far
            term = self._shorter[term]
        return term


@dataclass(frozen=True)
class Terms:
    """The terms of a request's glossaries for one direction; earlier ones take precedence."""

    indexes: tuple[TermIndex, ...]

    def occurring(self, text: str, uncut_bytes: int) -> dict[str, str]:
        """See `TermIndex.occurring`."""
        if not self.indexes:
            return {}
        return merged([index.occurring(text, uncut_bytes) for index in self.indexes])


class _SeenTerms:
    """The terms found so far; skips them quickly to shorter ones (disjoint sets)."""

    def __init__(self, shorter: Mapping[str, str | None]) -> None:
        self.shorter = shorter
        self._next: dict[str, str | None] = {}

    @property
    def terms(self) -> Iterable[str]:
        return self._next

    def add(self, term: str) -> None:
        self._next[term] = self.shorter[term]

    def not_found(self, term: str | None) -> str | None:
        """Returns the term, or its longest prefix that has not been found yet."""
        passed = []
        while term is not None and term in self._next:
            passed.append(term)
            term = self._next[term]
        for passed_term in passed:
            self._next[passed_term] = term
        return term


def _overlaps(spans: Sequence[tuple[int, int]], begin: int, end: int) -> bool:
    """Whether any of the ascending spans covers a position from `begin` to `end`, inclusive."""
    index = bisect_right(spans, end, key=lambda span: span[0])
    return bool(index) and begin < spans[index - 1][1]


def merged(dictionaries: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Returns the terms of several dictionaries; earlier ones take precedence."""
    entries: dict[str, tuple[str, str]] = {}
    for terms in reversed(dictionaries):
        entries |= {folded(term): (term, target) for term, target in terms.items()}
    return dict(entries.values())


def _whole_prefixes(shorter: Mapping[str, str | None]) -> dict[str, str | None]:
    """Returns, for each term, its longest prefix that ends at the end of a word in it.

    Args:
        shorter: the longest prefix of each term; prefixes come before longer terms.
    """
    prefixes: dict[str, str | None] = {}
    for term, prefix in shorter.items():
        if prefix is not None and WORD_CHARACTER.match(term, len(prefix)):
            # Each shorter one is followed by the same character in the term and in this prefix.
            prefix = prefixes[prefix]
        prefixes[term] = prefix
    return prefixes


def _far_prefixes(shorter: Mapping[str, str | None]) -> dict[str, str]:
    """Returns jump pointers: for each term with prefixes, a much shorter prefix.

    Source: Myers, An applicative random-access stack (1983): jump pointers.

    Args:
        shorter: the longest prefix of each term; prefixes come before longer terms.
    """
    depths: dict[str, int] = {}
    pointers: dict[str, str] = {}
    for term, prefix in shorter.items():
        if prefix is None:
            continue
        depths[term] = depths.get(prefix, 0) + 1
        far = pointers.get(prefix, prefix)
        farther = pointers.get(far, far)
        is_even = depths.get(prefix, 0) + depths.get(farther, 0) == 2 * depths.get(far, 0)
        pointers[term] = farther if is_even else prefix
    return pointers
