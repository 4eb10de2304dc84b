"""What always holds of documents that are translated, whatever a translator returns."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random
from typing import Any

from document_trees import html_texts, html_tree, ordered, unordered, xml_tree
from dragoman_client.markup import html_profile
from dragoman_client.markup.html_reader import HtmlReader
from dragoman_client.markup.segments import Raw, Segment
from dragoman_client.markup.xml_profiles import XmlProfile
from dragoman_client.markup.xml_reader import XmlReader
from dragoman_options.markup import PlacedCodes
from translated_documents import (
    SWAPPED,
    Reader,
    Translator,
    blank,
    careless,
    hostile,
    identity,
    original,
    read,
    shuffled,
    swapped,
    written,
)

_BEGIN, _END = "\u27ea", "\u27eb"
"""Around what a hostile translator adds."""
_NOISE = re.compile(f"{_BEGIN}(.*?){_END}", re.DOTALL)
_UNWRITABLE = re.compile("[\0\ud800-\udfff]")
_SPACES = re.compile(r"[ \t\n\f\r]+")

Tree = Callable[[bytes], Any]


def check_html(document: bytes, noise: str, random: Random, *, is_tree: bool = False) -> None:
    """Check a page in UTF-8.

    Args:
        document: as bytes.
        noise: what a hostile translator adds to each text.
        random: chooses chunks and places.
        is_tree: each of its elements is closed where it belongs.
    """

    def open_reader() -> HtmlReader:
        return HtmlReader(encoding="utf-8")

    before = html_tree(document)
    names = {one.tag for one in before.iter() if isinstance(one.tag, str) and "}" not in one.tag}
    blocks = {name for name in names if html_profile.role(name) in ("block", "skip")}
    check_document(open_reader, document, random)
    _check_trees(open_reader, document, html_tree, noise, random, blocks)
    after = html_tree(written(open_reader(), document, swapped))
    for (old, is_translated), (new, _) in zip(html_texts(before), html_texts(after), strict=True):
        if is_tree or not is_translated:
            wanted = old.translate(SWAPPED) if is_translated else old
            assert _SPACES.sub(" ", new) == _SPACES.sub(" ", wanted)


def check_document(
    open_reader: Callable[[], Reader], document: bytes, random: Random
) -> None:
    """What holds of all documents: nothing is lost, and chunks change nothing."""
    assert original(open_reader(), document) == document
    assert written(open_reader(), document, identity) == document
    parts = _joined(read(open_reader(), document))
    reader, found, position = open_reader(), list[Raw | Segment](), 0
    while position < len(document):
        size = random.choice((1, 1, 2, 3, 7, 100, 5000))
        found += reader.feed(document[position : position + size])
        position += size
    assert _joined(found + reader.close()) == parts


def _joined(parts: list[Raw | Segment]) -> list[Any]:
    """Parts, in which bytes that stand side by side are one."""
    found: list[Any] = []
    for part in parts:
        if isinstance(part, Segment):
            tags = [(_joined(list(map(_as_part, tag.parts))), tag.closing) for tag in part.tags]
            found.append((part.text, part.markup, part.original, part.kind, tags))
        elif found and isinstance(found[-1], bytes):
            found[-1] += part.content
        elif part.content:
            found.append(part.content)
    return found


def _as_part(part: bytes | Segment) -> Raw | Segment:
    return Raw(part) if isinstance(part, bytes) else part


def _check_trees(
    open_reader: Callable[[], Reader],
    document: bytes,
    tree: Tree,
    noise: str,
    random: Random,
    blocks: set[str],
) -> None:
    def translated(translate: Translator) -> Any:
        return tree(written(open_reader(), document, translate))

    before = tree(document)
    assert ordered(translated(swapped), str.lower) == ordered(before, str.lower)
    added = _SPACES.sub(" ", _UNWRITABLE.sub("\ufffd", noise))

    def without(text: str) -> str:
        for one in _NOISE.findall(text):
            assert _SPACES.sub(" ", one) == added
        return _NOISE.sub("", text)

    noisy = translated(hostile(f"{_BEGIN}{noise}{_END}"))
    assert ordered(noisy, without) == ordered(before)
    moved = translated(shuffled(random))
    assert unordered(moved, _characters, blocks) == unordered(before, _characters, blocks)
    for translate in (blank(""), blank(" "), blank("\n")):
        assert shape(translated(translate)) == shape(before)
    assert shape(translated(careless(random))) == shape(before)


def _characters(text: str) -> str:
    return "".join(sorted("".join(text.split())))


def shape(root: Any) -> tuple[int, Any]:
    return unordered(root, lambda _: "")
