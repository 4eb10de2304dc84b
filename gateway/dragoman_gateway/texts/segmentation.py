"""Splits texts into units that can be translated and cached separately."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dragoman_options.table import OUTPUTS, Translation

from dragoman.kernel.texts.sentences import split_sentences

JOINED_OUTPUTS = frozenset(output.name for output in OUTPUTS.values() if output.join)
"""Outputs of options with which a text can be split, or sent together with others."""
_MAY_SPAN_SENTENCES = re.compile(r"[{<`]|%\(|\[\[")
"""The beginning of placeholders and code that may contain white space."""
_LINE_BREAK = re.compile(r"[\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029]")
_BLANK_LINE = re.compile(r"\n\s*\n|\r\s*\r")


class SegmentedText(NamedTuple):
    """A split text: units to translate, and the characters between them, which are kept.

    Attributes:
        before: characters before the first unit.
        units: sentences, and paragraphs that cannot be split.
        kept: characters after each unit.
    """

    before: str
    units: tuple[str, ...]
    kept: tuple[str, ...]

    def joined(self, translations: Sequence[Translation]) -> Translation:
        """Join the translations of the units into that of the text.

        Other outputs are not joined: a text is split only if none is requested.
        """
        if len(translations) == 1 and not self.before and not self.kept[0]:
            return translations[0]
        parts = [self.before]
        for translation, kept in zip(translations, self.kept, strict=True):
            parts += (translation.text, kept)
        return joined("".join(parts), translations)


def joined(text: str, translations: Sequence[Translation]) -> Translation:
    """Makes a translation from several.

    Args:
        text: the whole text.
        translations: the translations in it.
    """
    is_cut = any(part.finish_reason == "length" for part in translations)
    return Translation(
        text,
        sum(part.output_tokens for part in translations),
        "length" if is_cut else "stop",
        elapsed_s=max((part.elapsed_s for part in translations), default=0.0),
        **{
            output.field: output.joined([getattr(part, output.field) for part in translations])
            for output in OUTPUTS.values()
            if output.join and translations
        },
    )


def whole(text: str) -> SegmentedText:
    """Returns a text as one unit."""
    return SegmentedText("", (text,), ("",))


def split(text: str, language: str, keeps_placeholders: bool) -> SegmentedText:
    """Split a text so that the server translates each unit like it would within the text.

    The server splits every text into sentences. A sentence is a unit if it stays one sentence when
    it is sent alone. This often fails for a sentence that spans two lines of a wrapped paragraph.
    Then the lines up to the next line that ends with a sentence are tried as a unit, then the whole
    paragraph, and otherwise the whole text is one unit.

    Args:
        text: any text.
        language: code of its language.
        keeps_placeholders: whether the server keeps placeholders, at which it never ends a
            sentence.
    """
    parts = split_sentences(text, language)
    if parts == [(text, "")] or not any(sentence for sentence, _ in parts):
        return whole(text)
    if keeps_placeholders and _may_be_joined(text, parts):
        return whole(text)
    spans = _Sentences(text, language, parts).units()
    if not spans:
        return whole(text)
    begins, ends = zip(*spans, strict=True)
    return SegmentedText(
        text[: begins[0]],
        tuple(text[begin:end] for begin, end in spans),
        tuple(text[end:begin] for end, begin in zip(ends, (*begins[1:], len(text)), strict=True)),
    )


class _Sentences:
    """The sentences of a text, and whether each can be sent alone."""

    def __init__(self, text: str, language: str, parts: list[tuple[str, str]]) -> None:
        self._text, self._language = text, language
        at = len(parts.pop(0)[1]) if not parts[0][0] else 0
        self._parts = parts
        self._begins = list(
            itertools.accumulate(
                (len(sentence) + len(kept) for sentence, kept in parts), initial=at
            )
        )

    def units(self) -> list[tuple[int, int]]:
        """Returns begin and end of each unit, in characters; empty if the text is one unit."""
        spans: list[tuple[int, int]] = []
        for paragraph in self._runs(range(len(self._parts)), _BLANK_LINE):
            units = self._of_paragraph(paragraph)
            if units is None:
                return []
            spans += units
        return spans

    def _of_paragraph(self, paragraph: range) -> list[tuple[int, int]] | None:
        spans: list[tuple[int, int]] = []
        for lines in self._runs(paragraph, _LINE_BREAK):
            if all(map(self._stands_alone, lines)):
                spans += (self._span(number) for number in lines)
            elif (block := self._block(lines)) is not None:
                spans.append(block)
            elif len(lines) < len(paragraph):
                block = self._block(paragraph)
                return None if block is None else [block]
            else:
                return None
        return spans

    def _runs(self, numbers: range, end: re.Pattern[str]) -> Iterator[range]:
        """Yields ranges of sentences, each up to a sentence that is followed by `end`."""
        begin = numbers.start
        for number in numbers:
            if number == numbers[-1] or end.search(self._parts[number][1]):
                yield range(begin, number + 1)
                begin = number + 1

    def _span(self, number: int) -> tuple[int, int]:
        begin = self._begins[number]
        return begin, begin + len(self._parts[number][0])

    def _stands_alone(self, number: int) -> bool:
        sentence = self._parts[number][0]
        return split_sentences(sentence, self._language) == [(sentence, "")]

    def _block(self, numbers: range) -> tuple[int, int] | None:
        """Returns begin and end of some sentences, including the beginning of their first line.

        None if they would be split differently when sent alone.
        """
        before = self._text[: self._begins[numbers[0]]]
        breaks = list(_LINE_BREAK.finditer(before))
        mark = before[breaks[-1].end() :] if breaks else before
        wanted = [*([("", mark)] if mark else []), *(self._parts[number] for number in numbers)]
        wanted[-1] = (wanted[-1][0], "")
        begin, end = len(before) - len(mark), self._span(numbers[-1])[1]
        is_same = split_sentences(self._text[begin:end], self._language) == wanted
        return (begin, end) if is_same else None


def _may_be_joined(text: str, sentences: Sequence[tuple[str, str]]) -> bool:
    """Whether a placeholder may begin in one sentence and end in another."""
    return len(sentences) > 1 and (
        _MAY_SPAN_SENTENCES.search(text) is not None
        or any(not re.search(r"\s", kept) for _, kept in sentences[:-1])
    )
