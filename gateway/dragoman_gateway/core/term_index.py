"""Finds the terms of a glossary that occur in a text, so that only those are sent on."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from dragoman.kernel.sentences import LineBreaks
from dragoman.kernel.terms import START, WORD, longest_prefixes

_RUN = re.compile(r"\S+")
_MOST_BYTES = 4
"""Of a character."""
_ENTRY_BYTES = 450
"""Of a term beside its characters: three strings, and its places in dictionaries and lists."""


class TermIndex:
    """Terms of one direction, indexed by how they begin.

    The engine looks for terms by the same rule (`dragoman_serving.request.glossary`): without
    regard to case, as whole words, the longest first. It does so in each piece of a text by itself.
    Here every term that could stand in some piece is found, also where a longer one stands, so that
    the engine finds among these what it would find among all.
    """

    def __init__(self, terms: Mapping[str, str]) -> None:
        """Index terms.

        Args:
            terms: target terms by source term; of several that differ in case alone the last one
                counts, as in the engine.
        """
        self._entries = {term.strip().casefold(): (term, tgt) for term, tgt in terms.items()}
        self._sorted = sorted(self._entries)
        self._shorter = longest_prefixes(self._sorted)
        self._far_shorter = _far_prefixes(self._shorter)
        self._first_characters = {term[:1] for term in self._sorted}
        self._longest = max(map(len, self._sorted), default=0)

    def __len__(self) -> int:
        """How many terms there are."""
        return len(self._entries)

    @cached_property
    def size_bytes(self) -> int:
        """About how much memory it takes."""
        characters = sum(len(term) + len(tgt) for term, tgt in self._entries.values())
        return _MOST_BYTES * characters + _ENTRY_BYTES * len(self)

    def occurring(self, text: str, uncut_bytes: int) -> dict[str, str]:
        """Terms that may be found in a text, however it is cut.

        The time grows linearly with the text: terms that begin with other terms are reached by
        jumps, and a term that was found once is not looked at again.

        Args:
            text: any text.
            uncut_bytes: of UTF-8; a run of fewer without white space is never cut in two. Within
                longer ones a term need not be a whole word, as it becomes one at a cut.

        Returns:
            Target terms by source term, as they were given.
        """
        if not self._entries:
            return {}
        # The engine takes line breaks out of sentences, but not out of a text that it leaves whole.
        found = _Found(self._shorter)
        for written in {text.casefold(): None, LineBreaks.of(text).line.casefold(): None}:
            long_runs = [
                run.span()
                for run in _RUN.finditer(written)
                if len(run[0]) * _MOST_BYTES >= uncut_bytes
                and len(run[0].encode("utf-8", "replace")) >= uncut_bytes
            ]
            for start in START.finditer(written):
                self._find_at(written, start.start(), long_runs, found)
            for begin, end in long_runs:
                for at in range(begin + 1, end):
                    self._find_at(written, at, long_runs, found)
        return dict(self._entries[term] for term in found.terms)

    def _find_at(
        self, text: str, begin: int, long_runs: Sequence[tuple[int, int]], found: _Found
    ) -> None:
        """Add all terms at a position that end with a word, or where a long run may be cut."""
        if text[begin] not in self._first_characters:
            return
        term = found.not_found(self._longest_at(text, begin))
        while term is not None:
            end = begin + len(term)
            if not WORD.match(text, end) or _is_within(long_runs, end):
                found.add(term)
            term = found.not_found(self._shorter[term])

    def _longest_at(self, text: str, begin: int) -> str | None:
        """The longest term at a position, wherever it ends."""
        index = bisect_right(self._sorted, text[begin : begin + self._longest])
        term = self._sorted[index - 1] if index else None
        # If a prefix does not match, nothing longer does.
        while term is not None and not text.startswith(term, begin):
            far = self._far_shorter.get(term)
            if far is not None and not text.startswith(far, begin):
                term = far
            term = self._shorter[term]
        return term


class _Found:
    """Terms that were found, and the way past them to shorter ones (disjoint sets)."""

    def __init__(self, shorter: Mapping[str, str | None]) -> None:
        self._shorter = shorter
        self._next: dict[str, str | None] = {}

    @property
    def terms(self) -> Iterable[str]:
        return self._next

    def add(self, term: str) -> None:
        self._next[term] = self._shorter[term]

    def not_found(self, term: str | None) -> str | None:
        """The term, or the longest of its prefixes that was not found yet."""
        passed = []
        while term is not None and term in self._next:
            passed.append(term)
            term = self._next[term]
        for one in passed:
            self._next[one] = term
        return term


def _is_within(spans: Sequence[tuple[int, int]], at: int) -> bool:
    """Whether one of some spans, in ascending order, goes on at a place."""
    index = bisect_right(spans, at, key=lambda span: span[0])
    return bool(index) and at < spans[index - 1][1]


def merged(dictionaries: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The terms of several dictionaries; of an earlier one where several have a term."""
    found: dict[str, tuple[str, str]] = {}
    for terms in reversed(dictionaries):
        found |= {term.strip().casefold(): (term, target) for term, target in terms.items()}
    return dict(found.values())


def _far_prefixes(shorter: Mapping[str, str | None]) -> dict[str, str]:
    """A much shorter prefix of each term that has prefixes, so that few jumps reach any of them.

    Source: Myers, An applicative random-access stack (1983): jump pointers.

    Args:
        shorter: the longest prefix of each term; prefixes come before what begins with them.
    """
    depths: dict[str, int] = {}
    found: dict[str, str] = {}
    for term, prefix in shorter.items():
        if prefix is None:
            continue
        depths[term] = depths.get(prefix, 0) + 1
        far = found.get(prefix, prefix)
        farther = found.get(far, far)
        is_even = depths.get(prefix, 0) + depths.get(farther, 0) == 2 * depths.get(far, 0)
        found[term] = farther if is_even else prefix
    return found
