"""Sentences and reference translations that have the same tags."""

from __future__ import annotations

import html
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from dragoman_options.markup import Code, Markup, Span
from dragoman_training.text.parallel_text import read_pairs

_TAG = re.compile(r"<(/?)([A-Za-z][\w:.-]*)([^<>]*?)(/?)>")
_NUMBER = re.compile(r"""\bid=(["'])\d+\1""")
_REFERENCE = re.compile(r"&#?\w+;")

Name = tuple[str, str, bool]
"""An element's name, its attributes, and whether it is empty."""


@dataclass(frozen=True)
class TaggedLine:
    """A parsed line; its tags form a tree.

    Attributes:
        pieces: the text between the tags, one more than tags.
        tags: as they are written.
        codes: the elements, as offsets in the text.
        names: of the elements.
    """

    pieces: tuple[str, ...]
    tags: tuple[str, ...]
    codes: tuple[Code, ...]
    names: tuple[Name, ...]

    @property
    def text(self) -> str:
        """The line without tags."""
        return "".join(self.pieces)


@dataclass(frozen=True)
class TaggedPair:
    """A sentence and its reference translation.

    Attributes:
        line: the sentence.
        reference: its translation.
        markup: the source's tags.
        expected: for each code, its span in the target.
        inner: indices of the codes that need an alignment: those that neither wrap the whole
            sentence nor stand at one of its ends.
        empty: indices of the empty elements.
    """

    line: TaggedLine
    reference: TaggedLine
    markup: Markup
    expected: tuple[Span, ...]
    inner: tuple[int, ...]
    empty: frozenset[int]

    @cached_property
    def source(self) -> str:
        """The sentence without tags."""
        return self.line.text

    @cached_property
    def target(self) -> str:
        """Its translation without tags."""
        return self.reference.text

    @cached_property
    def alike(self) -> list[list[int]]:
        """Inner codes that are alike: the reference does not tell which of its own is which.

        Test sets number elements by their order in each language, so the numbers do not match.
        """
        groups: dict[tuple[str, str, bool, int | None], list[int]] = defaultdict(list)
        for index in self.inner:
            name, attributes, empty = self.line.names[index]
            parent = self.markup.codes[index].parent
            groups[name, _NUMBER.sub("", attributes), empty, parent].append(index)
        return list(groups.values())


def read_tagged_pairs(prefix: Path, language: str) -> list[TaggedPair]:
    """Read the pairs whose codes need an alignment and whose tags are the same on both sides.

    Args:
        prefix: of the files, which end in `.en` and `.` plus the language, optionally with `.gz`.
        language: of the translations.
    """
    pairs = (tagged_pair(src, tgt) for src, tgt in read_pairs(prefix, ("en", language)))
    return [pair for pair in pairs if pair is not None and pair.inner]


def tagged_pair(source: str, target: str) -> TaggedPair | None:
    """A pair from two lines with tags; None if the tags differ or are not a tree."""
    src, tgt = tagged_line(source), tagged_line(target)
    if src is None or tgt is None or Counter(src.names) != Counter(tgt.names):
        return None
    if not src.text.strip() or not tgt.text.strip():
        return None
    places = dict(zip(_numbered(tgt.names), tgt.codes, strict=True))
    expected = [places[name] for name in _numbered(src.names)]
    return TaggedPair(
        line=src,
        reference=tgt,
        markup=Markup(src.codes),
        expected=tuple((begin, end) for begin, end, _ in expected),
        inner=tuple(index for index, code in enumerate(src.codes) if not _is_outer(src.text, code)),
        empty=frozenset(index for index, (*_, empty) in enumerate(src.names) if empty),
    )


def tagged_line(line: str) -> TaggedLine | None:
    """Parse a line with tags; None if the tags are not a tree."""
    length = at = 0
    pieces: list[str] = []
    tags: list[str] = []
    codes: list[Code] = []
    names: list[Name] = []
    opened: list[int] = []
    for match in _TAG.finditer(line):
        pieces.append(_unescaped(line[at : match.start()]))
        tags.append(match[0])
        length += len(pieces[-1])
        at = match.end()
        closing, name, attributes, empty = match.groups()
        if closing:
            if not opened or names[opened[-1]][0] != name:
                return None
            index = opened.pop()
            codes[index] = codes[index]._replace(end=length)
            continue
        codes.append(Code(length, length, opened[-1] if opened else None))
        names.append((name, attributes.strip(), bool(empty)))
        if not empty:
            opened.append(len(codes) - 1)
    if opened:
        return None
    pieces.append(_unescaped(line[at:]))
    return TaggedLine(tuple(pieces), tuple(tags), tuple(codes), tuple(names))


def _unescaped(written: str) -> str:
    """Text without escapes; entities that only a document declares are kept."""
    return _REFERENCE.sub(lambda match: html.unescape(match[0]), written)


def _numbered(names: Sequence[Name]) -> Iterator[tuple[Name, int]]:
    """Names, each with the number of equal ones before it."""
    seen: Counter[Name] = Counter()
    for name in names:
        yield name, seen[name]
        seen[name] += 1


def _is_outer(text: str, code: Code) -> bool:
    begin, end = len(text) - len(text.lstrip()), len(text.rstrip())
    if code.begin == code.end:
        return code.begin <= begin or code.end >= end
    return code.begin <= begin and code.end >= end
