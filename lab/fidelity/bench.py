"""Translates texts, and counts what survived."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dragoman_client.files.document_translation import read_text
from dragoman_client.files.file_formats import Reader
from dragoman_documents.html.html_reader import HtmlReader
from dragoman_documents.xml.xml_profiles import TEXT
from dragoman_documents.xml.xml_reader import XmlReader
from dragoman_options.table import OPTIONS
from dragoman_serving.fidelity.negations import says_opposite
from dragoman_training.run.evaluation import measure

from dragoman.kernel.errors import DragomanError
from lab.fidelity import placeholders, signs, terms
from lab.fidelity.cases import Case
from lab.fidelity.numbers import differing
from lab.fidelity.variations import Variation, days, lost_days, variations
from lab.report import percent

Pairs = Sequence[tuple[str, ...]]
_ANY_PER_CENT = re.compile(r"%|(?i:percent|per cent|prozent|pour\s?cent)")
_PER_CENT = re.compile(rf"(?<=\d)[ \u00a0\u202f-]?(?:{_ANY_PER_CENT.pattern})")
_AMBIGUOUS = re.compile(r"\b(?:March|May|[Mm]ars|[Mm]ai)\b")
Translate = Callable[[Sequence[str], Mapping[str, Any]], list[Any]]


@dataclass
class Row:
    """How many texts kept something, in one direction."""

    what: str
    direction: str
    texts: int
    right: int
    beside: str = ""
    """A figure to compare with."""
    wrong: list[str] = field(default_factory=list)
    """Examples, to read."""

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of its row."""
        share = percent(self.right / max(1, self.texts))
        return self.what, self.direction, str(self.texts), share, self.beside

    def add(self, is_right: bool, example: str) -> None:
        """Count a text."""
        self.texts += 1
        self.right += is_right
        if not is_right:
            self.wrong.append(example)


class Bench:
    """A model, the options of all requests, and the size of each part."""

    def __init__(
        self, translate: Translate, options: Mapping[str, Any], limit: int | None, seed: int = 0
    ) -> None:
        """Set what all parts use."""
        self._translate, self._options, self.limit = translate, options, limit
        self.seed = seed

    def translated(self, texts: Sequence[str], src: str, tgt: str, **more: Any) -> list[str]:
        """Translations, with further options."""
        options = {"source_language": src, "target_language": tgt, **self._options, **more}
        return [translation.text for translation in self._translate(texts, options)]

    def some(self, items: Sequence[Any]) -> Sequence[Any]:
        """As many items as the limit says, evenly spread."""
        number = min(self.limit or len(items), len(items))
        return [items[index * len(items) // number] for index in range(number)]

    def numbers(self, name: str, pairs: Pairs, src: str, tgt: str) -> Row:
        """Numbers by value; beside, as in the next three: those of the references."""

        def fault(source: str, text: str) -> str:
            if (other := differing(source, src, text, tgt)) is None:
                return ""
            return "-{} +{}".format(*([*map(str, side)] for side in other))

        pairs = [pair for pair in pairs if re.search(r"\d", pair[0])]
        return self._compared(f"numbers: {name}", pairs, src, tgt, fault)

    def per_cent(self, name: str, pairs: Pairs, src: str, tgt: str) -> Row:
        """Per cent after digits, as the sign or in words."""

        def fault(source: str, text: str) -> str:
            lost = len(_PER_CENT.findall(source)) - len(_ANY_PER_CENT.findall(text))
            return f"{lost} lost" * (lost > 0)

        pairs = [pair for pair in pairs if _PER_CENT.search(pair[0])]
        return self._compared(f"per cent: {name}", pairs, src, tgt, fault)

    def days(self, name: str, pairs: Pairs, src: str, tgt: str) -> Row:
        """Days and months, of which March and May are also other words."""
        pairs = [pair for pair in pairs if not _AMBIGUOUS.search(pair[0])]
        pairs = [pair for pair in pairs if [*days(pair[0], src, tgt)]]
        return self._compared(
            f"days and months: {name}",
            pairs,
            src,
            tgt,
            lambda source, text: ", ".join(lost_days(source, text, src, tgt)),
        )

    def negations(self, name: str, pairs: Pairs, src: str, tgt: str) -> Row:
        """Sentences whose translation does not say the opposite."""
        return self._compared(
            f"negations: {name}",
            pairs,
            src,
            tgt,
            lambda source, text: "opposite" * says_opposite(source, text, src, tgt),
        )

    def _compared(
        self, what: str, pairs: Pairs, src: str, tgt: str, fault: Callable[[str, str], str]
    ) -> Row:
        """Translations without a fault of a kind."""
        pairs = self.some(pairs)
        row, right = Row(what, f"{src}-{tgt}", 0, 0), 0
        translated = self.translated([source for source, *_ in pairs], src, tgt)
        for (source, *reference), text in zip(pairs, translated, strict=True):
            wrong = fault(source, text)
            row.add(not wrong, "\n  ".join([wrong, source, text, *reference]))
            right += bool(reference) and not fault(source, reference[0])
        row.beside = f"references {percent(right / len(pairs))}" if pairs and pairs[0][1:] else ""
        return row

    def labels(self, name: str, pairs: Pairs, src: str, tgt: str) -> Row:
        """Labels and titles whose translation is the reference, in any case; beside: chrF."""
        pairs = self.some(pairs)
        row = Row(name, f"{src}-{tgt}", 0, 0)
        references = [reference.lower() for _, reference in pairs]
        translated = self.translated([source for source, _ in pairs], src, tgt)
        small = [text.lower() for text in translated]
        for (source, reference), text, written in zip(pairs, translated, small, strict=True):
            row.add(written == reference.lower(), f"{source}\n  {text}\n  {reference}")
        row.beside = f"chrF {measure(small, references).chrf:.1f}" if pairs else ""
        return row

    def signs(self, src: str, tgt: str) -> Iterator[Row]:
        """Emoji, signs and words of other scripts, each in one sentence."""
        groups = {
            "emoji": signs.emoji(),
            "signs": signs.listed("signs"),
            "scripts": [*signs.foreign_words()],
        }
        for name, group in groups.items():
            items = self.some(group)
            row, texts = Row(name, f"{src}-{tgt}", 0, 0), signs.framed(items, src)
            for item, text, translation in zip(
                items, texts, self.translated(texts, src, tgt), strict=True
            ):
                row.add(signs.is_kept(item, translation), f"{text} -> {translation}")
            yield row

    def placeholders(self, src: str, tgt: str, by_kind: dict[str, Row]) -> Iterator[Row]:
        """Placeholders: each once, and in the source's order; adds to the rows by kind."""
        cases = placeholders.sentences(src, min(500, self.limit or 500))
        once, order = (
            Row(f"placeholders: {what}", f"{src}-{tgt}", 0, 0) for what in ("once", "order")
        )
        translated = self.translated([case.text for case in cases], src, tgt)
        for case, text in zip(cases, translated, strict=True):
            positions, example = placeholders.positions(case, text), f"{case.text} -> {text}"
            once.add(None not in positions, example)
            if case.in_order and None not in positions:
                order.add(
                    positions == sorted(position for position in positions if position is not None),
                    example,
                )
            for (kind, _), position in zip(case.placeholders, positions, strict=True):
                by_kind.setdefault(kind, Row(placeholders.shown(kind), "all", 0, 0)).add(
                    position is not None, example
                )
        yield from (once, order)

    def glossary(
        self, name: str, glossary: dict[str, str], cases: Sequence[terms.Case], src: str, tgt: str
    ) -> Row:
        """Terms that are in the translation; beside: without the glossary, usual words, chrF."""
        sources = [case.source for case in cases]
        free = self.translated(sources, src, tgt)
        translated = self.translated(sources, src, tgt, glossary=glossary)
        row, doubled, alone = Row(f"glossary: {name}", f"{src}-{tgt}", 0, 0), 0, 0
        for case, text, other in zip(cases, translated, free, strict=True):
            for term in case.required:
                row.add(terms.has(text, term), f"{case.source} {case.required} -> {text}")
                alone += terms.has(other, term)
            doubled += any(terms.has(text, word) for word in case.usual)
        with_terms = measure(translated, [case.reference for case in cases]).chrf
        without = measure(free, [case.free_reference for case in cases]).chrf
        row.beside = (
            f"usual word too in {doubled} of {len(cases)}, chrF {with_terms:.1f}; without: "
            f"{percent(alone / max(1, row.texts))}, chrF {without:.1f}"
        )
        return row

    def words(self, name: str, texts: Sequence[str], src: str, tgt: str) -> Row:
        """Single words and labels: translations with letters; beside: empty ones."""
        row, empty = Row(name, f"{src}-{tgt}", 0, 0), 0
        for text, translation in zip(texts, self.translated(texts, src, tgt), strict=True):
            row.add(any(map(str.isalpha, translation)), f"{text!r} -> {translation!r}")
            empty += not translation.strip()
        row.beside = f"empty {empty}"
        return row

    def variations(self, src: str, tgt: str, by_kind: dict[str, Row]) -> None:
        """Variations of all kinds; adds to the rows by kind."""
        made = variations(src, tgt, self.limit or 1000, self.seed)
        plain = [variation for variation in made if not variation.is_html]
        for is_auto in (False, True):
            some = [variation for variation in plain if variation.is_auto is is_auto]
            source = "auto" if is_auto else src
            texts = self.translated([variation.text for variation in some], source, tgt)
            for variation, text in zip(some, texts, strict=True):
                self._add(variation, text, by_kind)
        options = {"source_language": src, "target_language": tgt, **self._options}
        for variation in made:
            if variation.is_html:
                text = self._marked(variation.text, HtmlReader(encoding="utf-8"), options)
                self._add(variation, text, by_kind)

    @staticmethod
    def _add(variation: Variation, translation: str, by_kind: dict[str, Row]) -> None:
        faults = list(variation.faults(translation))
        row = by_kind.setdefault(variation.kind, Row(f"variations: {variation.kind}", "all", 0, 0))
        direction = f"{variation.src}-{variation.tgt}{' html' * variation.is_html}"
        row.add(not faults, f"{direction} {faults}\n  {variation.text!r}\n  {translation!r}")

    def case(self, case: Case) -> str | None:
        """The translation of a case, or why it is refused; None: it does not run in process."""
        try:
            return self._case(case)
        except (DragomanError, ValueError) as error:
            return f"refused: {error}"

    def _case(self, case: Case) -> str | None:
        options = case.options()
        if options is None:
            return None
        options = {**self._options, **options}
        if case.markup is None:
            return str(self._translate([case.text], options)[0].text)
        if case.markup == "html":
            return self._marked(case.text, HtmlReader(encoding="utf-8"), options)
        profile = TEXT.with_tags(ignore=["x"])
        return self._marked(
            case.text, XmlReader(profile, encoding="utf-8", is_fragment=True), options
        )

    def _marked(self, text: str, reader: Reader, options: Mapping[str, Any]) -> str:
        """The translation of a text with markup."""
        excerpt = read_text(text, reader)
        options = {k: v for k, v in options.items() if k not in OPTIONS["markup"].not_with}
        answers = [
            self._translate([segment.text], {**options, "markup": [segment.markup]})[0]
            for segment in excerpt.segments
        ]
        return excerpt.written(answers).decode()
