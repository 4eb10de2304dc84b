"""The units of a request: the parts that are translated and cached separately."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from dragoman_options.table import requested_outputs, sampled, splits

from dragoman.kernel.texts.tags import has_tags
from dragoman_gateway.core.errors import InvalidInput
from dragoman_gateway.glossaries.term_index import Terms
from dragoman_gateway.texts.cache import CacheKeys
from dragoman_gateway.texts.directions import Direction
from dragoman_gateway.texts.segmentation import JOINED_OUTPUTS, SegmentedText, split, whole

_APART = frozenset(
    ("source_language", "target_language", "glossary", "prefix", "return_bundle", "markup")
)
"""Options that are part of the unit's key, only affect which fields an answer has, or belong to a
whole text, which is not cached."""
_MOST_TERMS = 1000
"""Maximum number of terms in a request to the server."""
_LONG_CHARACTERS = 2000
"""Longer texts are split in a thread: it takes milliseconds and would delay other requests."""
_Found = TypeVar("_Found")
TermsPerDirection = Mapping[tuple[str, str], Terms]


class Unit(NamedTuple):
    """A sentence, or a text that is not split.

    Attributes:
        text: the text to translate.
        languages: source and target language.
        terms: terms of glossaries that may occur in it.
        prefix: prefix of its translation; None: none.
        key: key in the cache.
    """

    text: str
    languages: tuple[str, str]
    terms: Mapping[str, str]
    prefix: str | None
    key: bytes


class Segmenter:
    """Splits the texts of a request into units."""

    def __init__(
        self,
        options: Mapping[str, Any],
        keys: CacheKeys,
        terms: TermsPerDirection,
        sentence_tokens: int,
        keeps: bool,
    ) -> None:
        """Prepare for the texts of a request.

        Args:
            options: options of the request, as `dragoman_options.table.check` returns them.
            keys: makes the keys of units.
            terms: terms of the request's glossaries, for each direction of its texts.
            sentence_tokens: tokens of a sentence above which the server cuts it by default.
            keeps: whether translations are stored in the cache.
        """
        self._keys, self._terms = keys, terms
        self._prefixes: Sequence[str] = options.get("prefix", ())
        self._keeps_placeholders = options.get("keep_placeholders") is not False
        # Splitting is useful only for the cache.
        self._splits = (
            keeps
            and splits(options)
            and not sampled(options)
            and JOINED_OUTPUTS.issuperset(requested_outputs(options))
        )
        # The server may split a run without white space of this length, if it has many tokens.
        self._uncut_bytes = max(1, options.get("max_sentence_tokens", sentence_tokens) // 3)

    async def all_units(
        self, texts: Sequence[str], directions: Sequence[Direction]
    ) -> list[tuple[SegmentedText, list[Unit]]]:
        """Split texts, and return the units of each."""
        return await _for_each(self._units, texts, directions)

    async def all_terms(
        self, texts: Sequence[str], directions: Sequence[Direction]
    ) -> dict[str, Mapping[str, str]]:
        """Returns the option `glossary` for all texts together, if any text has a term."""
        together: dict[str, str] = {}
        for terms in await _for_each(self._terms_in, texts, directions):
            together |= terms
        return {"glossary": together} if together else {}

    def _terms_in(self, _index: int, text: str, direction: Direction) -> dict[str, str]:
        return self._terms[direction.languages].occurring(text, self._uncut_bytes)

    def _units(
        self, index: int, text: str, direction: Direction
    ) -> tuple[SegmentedText, list[Unit]]:
        """Split a text, and return its units."""
        languages = direction.languages
        segmented = whole(text)
        if self._splits:
            keeps = self._keeps_placeholders or has_tags(text)
            segmented = split(text, languages[0], keeps)
        prefix = None
        if self._prefixes:
            prefix = self._prefixes[index if len(self._prefixes) > 1 else 0]
        units = []
        for unit_text in segmented.units:
            terms = self._terms_in(index, unit_text, direction)
            key = self._keys.key(unit_text, languages, terms, prefix)
            units.append(Unit(unit_text, languages, terms, prefix, key))
        return segmented, units


async def _for_each(
    work: Callable[[int, str, Direction], _Found],
    texts: Sequence[str],
    directions: Sequence[Direction],
) -> list[_Found]:
    """Call a function for each text; other requests are served in between."""
    results = []
    for index, (text, direction) in enumerate(zip(texts, directions, strict=True)):
        if len(text) > _LONG_CHARACTERS:
            results.append(await asyncio.to_thread(work, index, text, direction))
        else:
            results.append(work(index, text, direction))
        if index % 64 == 63:
            await asyncio.sleep(0)
    return results


def groups_of(units: Sequence[Unit]) -> Iterator[list[Unit]]:
    """Group units into requests: one direction each, and at most the maximum number of terms.

    Raises:
        InvalidInput: a single unit has more terms.
    """
    by_direction: dict[tuple[str, str], list[Unit]] = {}
    for unit in units:
        by_direction.setdefault(unit.languages, []).append(unit)
    for of_direction in by_direction.values():
        group: list[Unit] = []
        terms: dict[str, str] = {}
        for unit in of_direction:
            both = {**terms, **unit.terms} if unit.terms else terms
            if len(both) > _MOST_TERMS and group:
                yield group
                group, both = [], dict(unit.terms)
            if len(both) > _MOST_TERMS:
                raise InvalidInput(
                    f"glossary: {len(both):,} terms occur in one text, more than {_MOST_TERMS:,}: "
                    "send it in parts"
                )
            group.append(unit)
            terms = both
        if group:
            yield group


def key_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options for cache keys; an explicit default of `split_sentences` is the same."""
    keyed = {name: value for name, value in options.items() if name not in _APART}
    return keyed | {"split_sentences": splits(options)}
