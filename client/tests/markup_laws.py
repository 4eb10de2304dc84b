"""Properties of translated documents that hold for any output of a translator."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from copy import deepcopy
from random import Random
from typing import Any

from document_trees import Change, html_texts, html_tree, ordered, unordered, xml_tree
from dragoman_documents.core.segments import Raw, Segment
from dragoman_documents.html import html_profile
from dragoman_documents.html.html_reader import HtmlReader
from dragoman_documents.xml import android_strings
from dragoman_documents.xml.xml_reader import XmlReader
from hypothesis import strategies as st
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

NOISE = st.text("<&>\"'/ ab\n-!]\0\ud800\r\ufeffé日\u202e", max_size=8)
"""Texts that hostile translators add."""
_BEGIN, _END = "\u27ea", "\u27eb"
"""Delimiters of the text that a hostile translator adds."""
_NOISE = re.compile(f"{_BEGIN}(.*?){_END}", re.DOTALL)
_NOT_IN_HTML = re.compile("[\0\ud800-\udfff]")
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SPACES = re.compile(r"[ \t\n\f\r]+")

Tree = Callable[[bytes], Any]


def hostile_noise(noise: str) -> str:
    """The text that a hostile translator adds, in marks that show where it is."""
    return f"{_BEGIN}{noise}{_END}"


def without_noise(text: str, noise: str) -> str:
    """A text of XML without what a hostile translator added, which must be there as text."""
    shown = _NOT_IN_XML.sub("", noise)
    for occurrence in _NOISE.findall(text):
        assert _SPACES.sub(" ", occurrence) == _SPACES.sub(" ", shown)
    return _NOISE.sub("", text)


def check_trees(
    open_reader: Callable[[], Reader], document: bytes, noise: str, random: Random
) -> None:
    """Check the trees of XML documents that several translators make."""
    shown = _NOT_IN_XML.sub("", noise)
    _check_trees(open_reader, document, xml_tree, (noise, shown), random)


def check_html(document: bytes, noise: str, random: Random, *, is_tree: bool = False) -> None:
    """Check a page in UTF-8.

    Args:
        document: the page as bytes.
        noise: text that a hostile translator adds to each text.
        random: chooses sizes of chunks and positions of codes.
        is_tree: whether its elements are correctly nested.
    """

    def open_reader() -> HtmlReader:
        return HtmlReader(encoding="utf-8")

    before = html_tree(document)
    names = {
        element.tag
        for element in before.iter()
        if isinstance(element.tag, str) and "}" not in element.tag
    }
    blocks = {name for name in names if html_profile.role(name) in ("block", "skip")}
    check_document(open_reader, document, random)
    shown = _NOT_IN_HTML.sub("\ufffd", noise)
    _check_trees(open_reader, document, html_tree, (noise, shown), random, blocks=blocks)
    after = html_tree(written(open_reader(), document, swapped))
    for (old, is_translated), (new, _) in zip(html_texts(before), html_texts(after), strict=True):
        if is_tree or not is_translated:
            expected = old.translate(SWAPPED) if is_translated else old
            assert _SPACES.sub(" ", new) == _SPACES.sub(" ", expected)


def check_xml(document: bytes, noise: str, random: Random) -> None:
    """Check a well-formed document whose texts are replaced; see `check_html`."""
    check_document(XmlReader, document, random)
    decode = android_strings.decode if xml_tree(document).tag == "resources" else str
    shown = _NOT_IN_XML.sub("", noise)
    _check_trees(XmlReader, document, xml_tree, (noise, shown), random, decode=decode)


def check_bilingual(document: bytes, noise: str, random: Random) -> None:
    """Check a bilingual document; see `check_html`."""

    def open_reader() -> XmlReader:
        return XmlReader(target_language="de")

    def letters(text: str) -> str:
        return "".join(sorted("".join(_NOISE.sub("", text).lower().split())))

    _check_chunks(open_reader, document, random)
    before = [_content(source, letters) for source, _ in _units(xml_tree(document))]
    for translate in (
        *(identity, swapped, blank(" ")),
        *(hostile(f"{_BEGIN}{noise}{_END}"), shuffled(random), careless(random)),
    ):
        units = _units(xml_tree(written(open_reader(), document, translate)))
        assert [_content(source, letters) for source, _ in units] == before
        for source, targets in units:
            for target in targets:
                assert _content(target, lambda _: "") == _content(source, lambda _: "")
                if translate in (identity, swapped):
                    assert _content(target, letters) == _content(source, letters)


def _units(root: Any) -> list[tuple[Any, list[Any]]]:
    """Sources, each with those of its translations that are not empty."""
    units = []
    for unit in root.iter("{*}trans-unit", "{*}segment", "{*}message", "{*}tu"):
        source, *rest = unit.iter("{*}source", "{*}seg")
        targets = [*rest, *unit.iter("{*}target", "{*}numerusform")]
        targets = targets or [target for target in unit.iter("translation") if not len(target)]
        units.append((source, [target for target in targets if len(target) or target.text]))
    return units


def _content(element: Any, change: Change) -> int:
    """A digest of the content of an element, without the element's name and attributes."""
    copied = deepcopy(element)
    copied.tag, copied.tail = "content", None
    copied.attrib.clear()
    return unordered(copied, change)[0]


def check_document(open_reader: Callable[[], Reader], document: bytes, random: Random) -> None:
    """Check that no byte is lost, and that the size of chunks does not matter."""
    assert original(open_reader(), document) == document
    assert written(open_reader(), document, identity) == document
    _check_chunks(open_reader, document, random)


def _check_chunks(open_reader: Callable[[], Reader], document: bytes, random: Random) -> None:
    parts = _joined(read(open_reader(), document))
    reader, chunked, position = open_reader(), list[Raw | Segment](), 0
    while position < len(document):
        size = random.choice((1, 1, 2, 3, 7, 100, 5000))
        chunked += reader.feed(document[position : position + size])
        position += size
    assert _joined([*chunked, *reader.close()]) == parts


def _joined(parts: list[Raw | Segment]) -> list[Any]:
    """The parts, with adjacent bytes joined."""
    joined: list[Any] = []
    for part in parts:
        if isinstance(part, Segment):
            tags = [(_joined(list(map(_as_part, tag.parts))), tag.closing) for tag in part.tags]
            joined.append((part.text, part.markup, part.original, part.kind, tags))
        elif joined and isinstance(joined[-1], bytes):
            joined[-1] += part.content
        elif part.content:
            joined.append(part.content)
    return joined


def _as_part(part: bytes | Segment) -> Raw | Segment:
    return Raw(part) if isinstance(part, bytes) else part


def _check_trees(
    open_reader: Callable[[], Reader],
    document: bytes,
    tree: Tree,
    noise: tuple[str, str],
    random: Random,
    *,
    blocks: Collection[str] = (),
    decode: Change = str,
) -> None:
    def translated(translate: Translator) -> Any:
        return tree(written(open_reader(), document, translate))

    def lower(text: str) -> str:
        return decode(text).lower()

    def without(text: str) -> str:
        shown = decode(text)
        for occurrence in _NOISE.findall(shown):
            assert _SPACES.sub(" ", occurrence) == _SPACES.sub(" ", noise[1])
        return _NOISE.sub("", shown)

    def letters(text: str) -> str:
        return "".join(sorted("".join(decode(text).split())))

    before = tree(document)
    assert ordered(translated(swapped), lower) == ordered(before, lower)
    noisy = translated(hostile(f"{_BEGIN}{noise[0]}{_END}"))
    assert ordered(noisy, without) == ordered(before, decode)
    moved = translated(shuffled(random))
    assert unordered(moved, letters, blocks) == unordered(before, letters, blocks)
    for translate in (blank(""), blank(" "), blank("\n"), careless(random)):
        assert shape(translated(translate)) == shape(before)


def shape(root: Any) -> int:
    """A digest of a tree without its texts and without the order of children."""
    return unordered(root, lambda _: "")[0]
