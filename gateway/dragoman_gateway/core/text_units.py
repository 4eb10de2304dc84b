"""Texts taken apart into what can be translated, and kept, by itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dragoman_client import Translation

from dragoman.kernel.sentences import split_sentences

_MAY_SPAN_SENTENCES = re.compile(r"[{<]|%\(")
"""How placeholders begin that may have white space in them."""
_LINE_BREAK = re.compile(r"[\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class UnitText:
    """A text taken apart: units to translate, each with what follows it and stays as it is.

    Attributes:
        before: stays as it is before the first one.
        units: sentences, and paragraphs that cannot be taken apart.
        kept: what follows each.
    """

    before: str
    units: tuple[str, ...]
    kept: tuple[str, ...]

    def joined(self, found: Sequence[Translation]) -> Translation:
        """The translation of the text, of those of its units.

        What was asked for beside the text is not put together: texts are taken apart only where
        nothing is.
        """
        if len(found) == 1 and not self.before and not self.kept[0]:
            return found[0]
        parts = [self.before]
        for one, kept in zip(found, self.kept, strict=True):
            parts += (one.text, kept)
        is_cut = any(one.finish_reason == "length" for one in found)
        return Translation(
            "".join(parts),
            sum(one.output_tokens for one in found),
            "length" if is_cut else "stop",
            elapsed_s=max(one.elapsed_s for one in found),
            bundle=found[0].bundle,
            warnings=tuple(sorted({name for one in found for name in one.warnings})),
        )


def whole(text: str) -> UnitText:
    """A text as one unit."""
    return UnitText("", (text,), ("",))


def take_apart(text: str, language: str, keeps_placeholders: bool) -> UnitText:
    """Take a text apart so that the server translates each unit as it would within the text.

    The server cuts every text into sentences. A sentence is a unit if it would be cut the same way
    by itself; where it would not, such as one that goes over two lines of a wrapped paragraph, its
    paragraph is tried, and else the whole text is one unit.

    Args:
        text: any text.
        language: code of its language.
        keeps_placeholders: whether the server keeps placeholders, which never end within a
            sentence.
    """
    sentences = split_sentences(text, language)
    if not any(sentence for sentence, _ in sentences):
        return whole(text)
    if keeps_placeholders and _may_be_joined(text, sentences):
        return whole(text)
    if len(sentences) == 1 and sentences[0][0] == text:
        return whole(text)
    before = ""
    if not sentences[0][0]:
        before = sentences.pop(0)[1]
    units: list[str] = []
    kept: list[str] = []
    group: list[tuple[str, str]] = []
    for number, (sentence, behind) in enumerate(sentences, start=1):
        group.append((sentence, behind))
        ends = number == len(sentences) or _LINE_BREAK.search(behind) is not None
        # In a paragraph that has begun, all sentences stay together.
        if (ends or len(group) == 1) and _stands_alone(group, language):
            units.append(_text_of(group))
            kept.append(behind)
            group = []
        elif ends:
            return whole(text)
    return UnitText(before, tuple(units), tuple(kept))


def _stands_alone(group: Sequence[tuple[str, str]], language: str) -> bool:
    """Whether sentences are cut the same way by themselves."""
    return split_sentences(_text_of(group), language) == [*group[:-1], (group[-1][0], "")]


def _text_of(group: Sequence[tuple[str, str]]) -> str:
    """Sentences as they stand in the text, without what follows the last one."""
    return "".join((*map("".join, group[:-1]), group[-1][0]))


def _may_be_joined(text: str, sentences: Sequence[tuple[str, str]]) -> bool:
    """Whether a placeholder may begin in one sentence and end in another."""
    return len(sentences) > 1 and (
        _MAY_SPAN_SENTENCES.search(text) is not None
        or any(not re.search(r"\s", kept) for _, kept in sentences[:-1])
    )
