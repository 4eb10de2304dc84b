"""Sentences and reference translations that have the same tags."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman_options.markup import Code, Markup, Span
from dragoman_training.text.parallel_text import read_pairs

_TAG = re.compile(r"<(/?)([A-Za-z][\w:.-]*)([^<>]*?)(/?)>")

Name = tuple[str, str, bool]
"""Of an element: its name, its attributes, and whether it is empty."""


@dataclass(frozen=True)
class TaggedPair:
    """A sentence and its reference translation.

    Attributes:
        source: without tags.
        target: without tags.
        markup: the source's tags.
        expected: for each code, its span in the target.
        inner: indices of the codes that need an alignment: those that neither wrap the whole
            sentence nor stand at one of its ends.
        empty: indices of the empty elements.
    """

    source: str
    target: str
    markup: Markup
    expected: tuple[Span, ...]
    inner: tuple[int, ...]
    empty: frozenset[int]


def read_tagged_pairs(prefix: Path, language: str) -> list[TaggedPair]:
    """Read the pairs that have codes to be aligned, and the same tags on both sides.

    Args:
        prefix: of the files, which end in `.en` and `.` with the language, or also in `.gz`.
        language: of the translations.
    """
    pairs = (tagged_pair(src, tgt) for src, tgt in read_pairs(prefix, ("en", language)))
    return [pair for pair in pairs if pair is not None and pair.inner]


def tagged_pair(source: str, target: str) -> TaggedPair | None:
    """A pair from two lines with tags; None if the tags are not the same, or no tree."""
    src, tgt = _parsed(source), _parsed(target)
    if src is None or tgt is None:
        return None
    (text, codes, names), (translation, found, found_names) = src, tgt
    if Counter(names) != Counter(found_names) or not text.strip() or not translation.strip():
        return None
    places = dict(zip(_numbered(found_names), found, strict=True))
    expected = [places[name] for name in _numbered(names)]
    return TaggedPair(
        *(text, translation, Markup(tuple(codes))),
        tuple((begin, end) for begin, end, _ in expected),
        tuple(index for index, code in enumerate(codes) if not _is_outer(text, code)),
        frozenset(index for index, (*_, empty) in enumerate(names) if empty),
    )


def _parsed(line: str) -> tuple[str, list[Code], list[Name]] | None:
    """The text of a line, its codes and their names; None if the tags are no tree."""
    text, at = "", 0
    codes: list[Code] = []
    names: list[Name] = []
    opened: list[int] = []
    for found in _TAG.finditer(line):
        text += line[at : found.start()]
        at = found.end()
        closing, name, attributes, empty = found.groups()
        if closing:
            if not opened or names[opened[-1]][0] != name:
                return None
            index = opened.pop()
            codes[index] = codes[index]._replace(end=len(text))
            continue
        codes.append(Code(len(text), len(text), opened[-1] if opened else None))
        names.append((name, attributes.strip(), bool(empty)))
        if not empty:
            opened.append(len(codes) - 1)
    return None if opened else (text + line[at:], codes, names)


def _numbered(names: Sequence[Name]) -> Iterator[tuple[Name, int]]:
    """Names, each with how many equal ones stand before it."""
    seen: Counter[Name] = Counter()
    for name in names:
        yield name, seen[name]
        seen[name] += 1


def _is_outer(text: str, code: Code) -> bool:
    begin, end = len(text) - len(text.lstrip()), len(text.rstrip())
    if code.begin == code.end:
        return code.begin <= begin or code.end >= end
    return code.begin <= begin and code.end >= end
