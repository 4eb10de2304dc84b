"""XML as segments in place: what is outside texts never changes, whatever a translator returns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from xml.parsers import expat

import pytest
from dragoman_client.markup.segments import Segment
from dragoman_client.markup.xml_reader import XmlReader
from dragoman_options.markup import PlacedCodes
from hypothesis import given, settings
from hypothesis import strategies as st
from translated_documents import (
    at_once,
    hostile,
    identity,
    original,
    read,
    spans,
    texts,
    written,
)
from xml_documents import documents

_SHARED = Path(__file__).parents[3] / "shared" / "documents"
_FOLDERS = ("android", "qt-ts", "resx", "symfony", "xliff-1.2", "xliff-2.0")
DOCBOOK = b"""<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE chapter [<!ENTITY php "PHP"> ]>
<chapter><title>On &php;</title>
 <!-- kept --><para role='x'>See <link linkend="a&amp;b">the <emphasis>manual</emphasis></link>,
  or <function>strlen</function>.</para><programlisting><![CDATA[a < b]]></programlisting>
</chapter>"""
ANDROID = b"""<resources>
  <string name="a">It\\'s <b>new</b>, %1$s!</string><string name="b" translatable="false">x</string>
</resources>"""
RESX = b"""<root><resheader name="resmimetype"><value>text/microsoft-resx</value></resheader>
 <data name='a'><value>Open &lt;file&gt;</value><comment>no</comment></data></root>"""
XLIFF = b"""<xliff version="1.2"><file source-language="en" target-language="de" original="a"
 datatype="plaintext"><body><trans-unit id="1"><source>Press <g id="1">Enter</g> now<x id="2"/>.
</source></trans-unit><trans-unit id="2" translate="no"><source>Key</source></trans-unit></body>
</file></xliff>"""
XLIFF_2 = b"""<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en"
 trgLang="de"><file id="f"><unit id="1"><segment><source>Press <pc id="1">Enter</pc>.</source>
</segment></unit></file></xliff>"""
MONOLINGUAL = (DOCBOOK, ANDROID, RESX)


def reader(document: bytes = b"") -> XmlReader:
    """Into the language that a document names, or German."""
    named = re.search(
        rb"""(?:target-language|trgLang|<TS\b[^>]* language)=["']([\w-]+)""", document
    )
    return XmlReader(target_language=named[1].decode() if named else "de")


def events(document: bytes) -> Iterator[tuple[str, ...]]:
    """Elements with their attributes, comments and instructions, as expat finds them."""
    found: list[tuple[str, ...]] = []
    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda name, given: found.append(("start", name, *map(str, given)))
    parser.EndElementHandler = lambda name: found.append(("end", name))
    parser.CommentHandler = lambda text: found.append(("comment", text))
    parser.ProcessingInstructionHandler = lambda *pair: found.append(("instruction", *pair))
    parser.Parse(document, True)
    return iter(found)


def shared() -> list[Path]:
    """Real documents that are well-formed."""
    names = (path for folder in _FOLDERS for path in sorted((_SHARED / folder).rglob("*")))
    found = [path for path in names if path.suffix in {".xml", ".resx", ".ts", ".xlf", ".xliff"}]
    return [path for path in found if "empty" not in path.name and "invalid" not in path.name]


def test_texts_are_found() -> None:
    assert texts(reader(), DOCBOOK) == ["On PHP", "See the manual, or strlen."]
    assert texts(reader(), ANDROID) == ["It's new, %1$s!"]
    assert texts(reader(), RESX) == ["Open <file>"]
    assert texts(reader(), XLIFF)[0].startswith("Press Enter now")
    assert len(texts(reader(), XLIFF)) == 1
    assert texts(reader(), XLIFF_2) == ["Press Enter."]


def test_tags_are_codes() -> None:
    (_, segment) = (part for part in read(reader(), DOCBOOK) if isinstance(part, Segment))
    assert [segment.text[begin:end] for begin, end in spans(segment)][:2] == [
        "the manual",
        "manual",
    ]
    assert segment.markup.codes[1].parent == 0


def test_a_translation_is_put_in_its_place() -> None:
    def translate(segment: Segment) -> tuple[str, PlacedCodes]:
        if len(segment.markup.codes) < 2:
            return "Über <PHP>", PlacedCodes(((5, 10),) * len(segment.markup.codes))
        return "strlen, siehe das Handbuch", PlacedCodes(((14, 26), (18, 26), (0, 6)))

    found = written(reader(), DOCBOOK, translate).decode()
    wanted = '<function>strlen</function>, siehe <link linkend="a&amp;b">das <emphasis>Handbuch'
    assert wanted in found
    assert "<![CDATA[a < b]]>" in found


def test_a_target_is_written_beside_its_source() -> None:
    for document, wanted in (
        (XLIFF, b'Dr\xc3\xbccke <g id="1">Enter</g>'),
        (XLIFF_2, b'Dr\xc3\xbccke <pc id="1">Enter</pc>'),
    ):

        def translate(segment: Segment) -> tuple[str, PlacedCodes]:
            return "Drücke Enter.", PlacedCodes(((7, 12), (12, 12))[: len(segment.markup.codes)])

        found = written(reader(), document, translate)
        source, target = found.index(b"<source>Press"), found.index(b"<target")
        assert source < target
        assert wanted in found
        list(events(found))


@pytest.mark.parametrize("document", MONOLINGUAL)
def test_outside_texts_nothing_changes(document: bytes) -> None:
    assert written(reader(), document, identity) == document
    for noise in ("<b>&amp;]]>", "\"'", "ß日本"):
        assert list(events(written(reader(), document, hostile(noise)))) == list(events(document))


@given(documents(), st.integers(1, 40), st.text("<&>\"'] ab\n", max_size=8))
@settings(max_examples=200, deadline=None)
def test_any_document(document: bytes, chunk: int, noise: str) -> None:
    assert written(reader(), document, identity) == document
    assert texts(reader(), document, chunk) == texts(reader(), document)
    for translate in (hostile(noise), at_once):
        assert sorted(events(written(reader(), document, translate))) == sorted(events(document))


@pytest.mark.skipif(not _SHARED.is_dir(), reason="the real documents are not beside the project")
@pytest.mark.parametrize("path", shared(), ids=lambda path: path.name)
def test_real_documents(path: Path) -> None:
    document = path.read_bytes()
    found = texts(reader(document), document)
    assert texts(reader(document), document, 7) == texts(reader(document), document, 1000) == found
    changed = written(reader(document), document, hostile("<&]]>"))
    if path.parent.name in ("android", "resx"):
        same = written(reader(), document, identity)
        assert same == original(reader(), document) == document
        assert list(events(changed)) == list(events(document))
    else:
        list(events(changed))  # well-formed


def test_what_is_not_well_formed_is_refused() -> None:
    for document, message in (
        (b"<a><b></a>", r"line 1, column 9: mismatched tag"),
        (b"", "no element found"),
        (b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>', "in another file"),
        (b'<!DOCTYPE a [<!ENTITY b "x"><!ENTITY c "&b;&b;">]><a>&c;</a>', "made of other entities"),
    ):
        with pytest.raises(ValueError, match=message):
            read(reader(), document)
