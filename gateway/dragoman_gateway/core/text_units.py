"""Texts taken apart into what can be translated, and kept, by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
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
    for group in _groups(sentences, language):
        units.append("".join(map("".join, group))[: -len(group[-1][1]) or None])
        kept.append(group[-1][1])
        if len(group) > 1 and split_sentences(units[-1], language) != [
            *group[:-1],
            (group[-1][0], ""),
        ]:
            return whole(text)
    return UnitText(before, tuple(units), tuple(kept))


def _groups(sentences: Sequence[tuple[str, str]], language: str) -> Iterator[list[tuple[str, str]]]:
    """Sentences that stand by themselves, and else those of a paragraph together."""
    group: list[tuple[str, str]] = []
    for sentence, kept in sentences:
        group.append((sentence, kept))
        # In a paragraph that has begun, all sentences stay together.
        stands_alone = len(group) == 1 and split_sentences(sentence, language) == [(sentence, "")]
        if stands_alone or _LINE_BREAK.search(kept):
            yield group
            group = []
    if group:
        yield group


def _may_be_joined(text: str, sentences: Sequence[tuple[str, str]]) -> bool:
    """Whether a placeholder may begin in one sentence and end in another."""
    return len(sentences) > 1 and (
        _MAY_SPAN_SENTENCES.search(text) is not None
        or any(not re.search(r"\s", kept) for _, kept in sentences[:-1])
    )
