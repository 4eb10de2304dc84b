"""Pairs of bilingual XML files, by the reader of these files: TMX, XLIFF 1.2 and 2.x, Qt ts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import MappingProxyType

from dragoman_documents.core.languages import is_compatible, is_same_language, names_language
from dragoman_documents.core.segments import Raw, Segment
from dragoman_documents.memory.pairs import Pair, pair_of
from dragoman_documents.xml.bilingual import UnitReader, children, is_among, local
from dragoman_documents.xml.bilingual_forms import TMX, UnitForm
from dragoman_documents.xml.outline import Item
from dragoman_documents.xml.xml_tokens import XmlToken

ANY = "und"
"""Stands for a language that is not known."""


class UnitPairs(UnitReader):
    """Reads the translations of a file instead of adding some.

    Attributes:
        languages: source and target language; unless given those that the file declares, of TMX
            those of the first unit.
        skipped: number of units without a translation that can be used.
    """

    def __init__(self, form: UnitForm, encoding: str, languages: tuple[str, str]) -> None:
        """Start before the first token.

        Args:
            form: format of the file.
            encoding: its encoding.
            languages: source and target language; "und": that of the file.
        """
        roles = dict(form.profile.roles)
        if form is not TMX:
            roles[form.target] = "text"
        profile = replace(form.profile, roles=MappingProxyType(roles))
        super().__init__(replace(form, profile=profile), encoding, languages[1], overwrites=True)
        self._is_tmx = form is TMX
        self.languages = languages
        self.skipped = 0
        self._pairs: list[Pair] = []

    def take_pairs(self) -> list[Pair]:
        """Remove and return the pairs of the complete units."""
        pairs, self._pairs = self._pairs, []
        self.take()
        return pairs

    def with_language(self, token: XmlToken, name: str) -> bytes:
        """Read the languages that the file declares; units in other ones are left out."""
        element, attribute = self._form.language
        if self._is_tmx or token.kind != "start" or name != element:
            return token.raw
        declared = [
            token.attributes.get(named, "") for named in (self._form.source_language, attribute)
        ]
        source, target = (
            theirs if names_language(theirs) and not names_language(ours) else ours
            for ours, theirs in zip(self.languages, declared, strict=True)
        )
        self.languages = source, target
        self._is_wanted = all(
            is_compatible(theirs, ours) or not names_language(theirs)
            for ours, theirs in zip(self.languages, declared, strict=True)
        )
        self._languages[_direction(declared)] = self._is_wanted
        return token.raw

    def finish(self) -> list[Raw | Segment]:
        """See `UnitReader`.

        Raises:
            ValueError: no translations of the file are in these languages.
        """
        if self._languages and not any(self._languages.values()):
            several = " and ".join(self._languages)
            raise ValueError(f"its translations are {several}, not {_direction(self.languages)}")
        return self.take()

    def written(self, unit: list[Item]) -> Iterator[Raw | Segment]:
        """Keep the pairs of a unit; nothing is written."""
        spans = self._spans_of_languages(unit) if self._is_tmx else self._spans(unit)
        pairs: list[Pair | None] = [None]
        if spans is not None:
            source, target = (
                [part for part in self.content(unit, span) if isinstance(part, Segment)]
                for span in spans
            )
            if len(source) == len(target):
                pairs = [pair_of(*both) for both in zip(source, target, strict=True)]
        self._pairs += [pair for pair in pairs if pair is not None]
        self.skipped += pairs.count(None)
        return iter(())

    def _spans(self, unit: list[Item]) -> tuple[tuple[int, int], tuple[int, int]] | None:
        """Returns the elements of source and target; None: there is no reviewed translation."""
        places = self.places(unit)
        if places is None or places.target is None or not self._is_wanted:
            return None
        form, begin = self._form, places.target[0]
        known = {**unit[0].token.attributes, **unit[begin].token.attributes}
        ours = {**form.unit_attributes, **form.target_attributes}
        is_from_machine = bool(ours) and all(known.get(name) == ours[name] for name in ours)
        if is_from_machine or is_among(known, form.replaced) or places.targets != (places.target,):
            return None
        return places.source, places.target

    def _spans_of_languages(
        self, unit: list[Item]
    ) -> tuple[tuple[int, int], tuple[int, int]] | None:
        """Returns the `seg` of the source and the target language in a unit of TMX."""
        variants: dict[str, tuple[int, int]] = {}
        for begin, end in children(unit):
            attributes = unit[begin].token.attributes
            language = attributes.get("xml:lang", attributes.get("lang", ""))
            if local(unit[begin].token) == "tuv" and language:
                variants.setdefault(language, (begin, end))
        source, target = self.languages
        if not names_language(source):
            declared = self._source_language
            source = declared if declared in variants else next(iter(variants), ANY)
        if not names_language(target):
            others = (name for name in variants if not is_same_language(name, source))
            target = next(others, ANY)
        chosen = [_best(variants, language) for language in (source, target)]
        if None in chosen:
            return None
        self.languages = source, target
        spans = []
        for begin, end in (variants[str(language)] for language in chosen):
            segs = (
                (begin + first, begin + last)
                for first, last in children(unit[begin:end])
                if local(unit[begin + first].token) == "seg"
            )
            spans.append(next(segs, None))
        if spans[0] is None or spans[1] is None:
            return None
        return spans[0], spans[1]


def _best(variants: dict[str, tuple[int, int]], language: str) -> str | None:
    """Returns the variant of a language: the same tag, or else the first with this language."""
    if language in variants:
        return language
    return next((name for name in variants if is_compatible(name, language)), None)


def _direction(languages: Sequence[str]) -> str:
    return f"from {languages[0] or ANY} to {languages[1] or ANY}"
