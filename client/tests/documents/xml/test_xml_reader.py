"""The reader of XML: bytes outside texts never change, whatever a translator returns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from xml.parsers import expat

import pytest
from document_trees import xml_tree
from dragoman_documents.core.segments import Segment
from dragoman_documents.xml import xml_segmenter
from dragoman_documents.xml.xml_profiles import TEXT
from dragoman_documents.xml.xml_reader import XmlReader
from dragoman_options.markup import PlacedCodes
from hypothesis import given, settings
from hypothesis import strategies as st
from markup_laws import NOISE, check_bilingual, check_document, check_xml
from translated_documents import (
    hostile,
    identity,
    original,
    read,
    spans,
    swapped,
    texts,
    written,
)
from xml_documents import bilingual, documents, monolingual

_SHARED = Path(__file__).parents[5] / "shared" / "documents"
MOST_CHUNKS = 10_000
"""Of a real document; generated ones are read byte by byte too."""
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
    """A reader whose target language is the one that the document names, or German."""
    named = re.search(
        rb"""(?:target-language|trgLang|<TS\b[^>]* language)=["']([\w-]+)""", document
    )
    return XmlReader(target_language=named[1].decode() if named else "de")


def events(document: bytes) -> Iterator[tuple[str, ...]]:
    """Elements with their attributes, comments and instructions, as expat finds them."""
    seen: list[tuple[str, ...]] = []
    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda name, given: seen.append(("start", name, *map(str, given)))
    parser.EndElementHandler = lambda name: seen.append(("end", name))
    parser.CommentHandler = lambda text: seen.append(("comment", text))
    parser.ProcessingInstructionHandler = lambda *pair: seen.append(("instruction", *pair))
    parser.Parse(document, True)
    return iter(seen)


def shared() -> list[Path]:
    """Paths of real documents that are well-formed."""
    names = (path for folder in _FOLDERS for path in sorted((_SHARED / folder).rglob("*")))
    paths = [path for path in names if path.suffix in {".xml", ".resx", ".ts", ".xlf", ".xliff"}]
    return [path for path in paths if "empty" not in path.name and "invalid" not in path.name]


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


def test_a_translation_replaces_its_text() -> None:
    def translate(segment: Segment) -> tuple[str, PlacedCodes]:
        if len(segment.markup.codes) < 2:
            return "Über <PHP>", PlacedCodes(((5, 10),) * len(segment.markup.codes))
        return "strlen, siehe das Handbuch", PlacedCodes(((14, 26), (18, 26), (0, 6)))

    translated = written(reader(), DOCBOOK, translate).decode()
    expected = '<function>strlen</function>, siehe <link linkend="a&amp;b">das <emphasis>Handbuch'
    assert expected in translated
    assert "<![CDATA[a < b]]>" in translated


def test_a_target_is_written_after_its_source() -> None:
    for document, expected in (
        (XLIFF, b'Dr\xc3\xbccke <g id="1">Enter</g>'),
        (XLIFF_2, b'Dr\xc3\xbccke <pc id="1">Enter</pc>'),
    ):

        def translate(segment: Segment) -> tuple[str, PlacedCodes]:
            return "Drücke Enter.", PlacedCodes(((7, 12), (12, 12))[: len(segment.markup.codes)])

        translated = written(reader(), document, translate)
        source, target = translated.index(b"<source>Press"), translated.index(b"<target")
        assert source < target
        assert expected in translated
        list(events(translated))


@pytest.mark.parametrize("document", MONOLINGUAL)
def test_bytes_outside_texts_do_not_change(document: bytes) -> None:
    assert written(reader(), document, identity) == document
    for noise in ("<b>&amp;]]>", "\"'", "ß日本"):
        assert list(events(written(reader(), document, hostile(noise)))) == list(events(document))


@given(documents() | monolingual(), NOISE, st.integers(0, 99))
@settings(max_examples=200)
def test_random_documents(document: bytes, noise: str, seed: int) -> None:
    check_xml(document, noise, Random(seed))


@given(bilingual(), NOISE, st.integers(0, 99))
@settings(max_examples=100)
def test_random_bilingual_documents(document: bytes, noise: str, seed: int) -> None:
    check_bilingual(document, noise, Random(seed))


@pytest.mark.skipif(not _SHARED.is_dir(), reason="the real documents are not beside the project")
@pytest.mark.parametrize(
    "path",
    [
        # The largest one takes most of the time of all, and others have its elements too.
        pytest.param(path, marks=[pytest.mark.thorough] if path.name == "mumble_en.ts" else [])
        for path in shared()
    ],
    ids=lambda path: path.name,
)
def test_real_documents(path: Path) -> None:
    document = path.read_bytes()
    whole = texts(reader(document), document)
    for chunk in (max(7, len(document) // MOST_CHUNKS), 1000):
        assert texts(reader(document), document, chunk) == whole
    changed = written(reader(document), document, hostile("<&]]>"))
    if path.parent.name in ("android", "resx"):
        same = written(reader(), document, identity)
        assert same == original(reader(), document) == document
        assert list(events(changed)) == list(events(document))
    else:
        list(events(changed))  # fails if it is not well-formed


def test_invalid_documents_are_refused() -> None:
    for document, message in (
        (b"<a><b></a>", r"line 1, column 9: mismatched tag"),
        (b"", "no element found"),
        (b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>', "in another file"),
        (b'<!DOCTYPE a [<!ENTITY b "x"><!ENTITY c "&b;&b;">]><a>&c;</a>', "made of other entities"),
    ):
        with pytest.raises(ValueError, match=message):
            read(reader(), document)


def test_the_root_may_come_late() -> None:
    """A long comment before the root does not change the detected format."""
    begin = b"<?xml version='1.0'?><!--" + b"-x" * 20_000 + b"-->"
    for chunk in (100, 1 << 16):
        assert texts(reader(), begin + XLIFF_2, chunk) == ["Press Enter."]
        assert texts(reader(), begin + ANDROID, chunk) == ["It's new, %1$s!"]


def test_spaces_are_kept_where_an_element_requires_it() -> None:
    document = b"<a>x  y <b xml:space='preserve'>c  d</b> e  f</a>"
    assert texts(reader(), document) == ["x y c  d e f"]


def test_translatable_elements_in_untranslatable_ones() -> None:
    document = b"<a>x <b translate='no'>y <i translate='yes'>z</i></b></a>"
    assert texts(reader(), document) == ["x", "z"]


@pytest.mark.parametrize("element", ["svg", "code", "footnote"])
def test_a_long_element_in_a_text_is_not_buffered(
    element: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long element splits the text, and is returned while it is read."""
    monkeypatch.setattr(xml_segmenter, "MOST_NESTED_BYTES", 1 << 16)  # for one with texts
    profile = "html" if element != "footnote" else "article"
    begin = f"<{profile}><p>Before <{element}>".encode()
    content = b"<g>" + b"x y " * 12 + b"</g>"
    document = begin + content * 2000 + f"</{element}> after</p></{profile}>".encode()
    source, given, taken = reader(), 0, 0
    for at in range(0, len(document), 1 << 13):
        chunk = document[at : at + (1 << 13)]
        given += len(chunk)
        parts = source.feed(chunk)
        taken += sum(len(p.original if isinstance(p, Segment) else p.content) for p in parts)
        assert given - taken < 0.9 * len(document)
    assert written(reader(), document, identity) == document


def test_attribute_values_that_look_like_attributes_are_kept() -> None:
    document = XLIFF.replace(b"</source>", b"</source><target a=' state=\"new\"' state='new'/>", 1)
    translated = written(reader(), document, identity)
    assert b'<target a=\' state="new"\' state="needs-review-translation"' in translated


def test_a_target_declares_the_prefixes_of_its_source() -> None:
    document = XLIFF.replace(b"<source>Press", b"<source xmlns:x='u'><x:y/>Press")
    assert xml_tree(written(reader(), document, identity)) is not None


@pytest.mark.parametrize("name", ["unicode_escape", "utf-7", "cp037", "idna", "utf-8-sig", "hz"])
def test_an_unsupported_encoding_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not supported: convert the document to UTF-8"):
        read(reader(), f"<?xml version='1.0' encoding='{name}'?><a>b</a>".encode())


@pytest.mark.parametrize(
    "document",
    [
        "<p>Open it<br/>Close it</p>",
        "<p>Open it<lb/>Close it</p>",
        "<p>Open it<?linebreak?>Close it</p>",
        "<html><body><p>Open it<br></br>Close it</p></body></html>",
        "<resources><string name='a'>Open it<br/>Close it</string></resources>",
        "<resources><string name='a'>Open it&lt;br>Close it</string></resources>",
        "<tmx><header srclang='en'/><tu><tuv xml:lang='en'><seg>Open it<ph>&lt;br/></ph>Close it"
        "</seg></tuv></tu></tmx>",
    ],
)
def test_a_line_break_ends_a_line(document: str) -> None:
    assert texts(reader(), document.encode()) == ["Open it\u2028Close it"]
    utf_16 = document.encode("utf-16")
    assert texts(XmlReader(target_language="de"), utf_16) == ["Open it\u2028Close it"]


def test_elements_that_only_look_like_line_breaks() -> None:
    assert texts(reader(), b"<p>It has <lb>5</lb> now</p>") == ["It has 5 now"]
    profile = TEXT.with_tags(non_splitting=("br",))
    assert texts(XmlReader(profile), b"<p>Open it <br/> now</p>") == ["Open it now"]


def test_line_breaks_of_a_text_stay() -> None:
    def fragment() -> XmlReader:
        return XmlReader(TEXT, encoding="utf-8", is_fragment=True)

    text = b"Open <b>it\n  all</b> <x/>\r\nnow"
    assert texts(fragment(), text) == ["Open it\n  all \nnow"]
    check_document(fragment, text, Random(0))


@pytest.mark.parametrize(
    "head",
    [
        '<?xml version="1.0"?>',
        '\ufeff<?xml version="1.0" encoding="UTF-16"?>\n',
        ' <?xml version="1.0"?><!-- c --><!DOCTYPE p [<!ENTITY me "Anna"> ]>\n',
        '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "x.dtd">',
    ],
)
def test_a_fragment_may_have_a_declaration(head: str) -> None:
    def fragment() -> XmlReader:
        return XmlReader(TEXT, encoding="utf-8", is_fragment=True)

    document = f"{head}<p>Open it</p> <b>now</b>".encode()
    assert texts(fragment(), document) == ["Open it", "now"]
    check_document(fragment, document, Random(0))
    begin = written(fragment(), document, swapped).decode().partition("<p>")[0]
    assert begin == head
    line = head.count("\n") + 1
    with pytest.raises(ValueError, match=rf"^line {line}, column \d+: mismatched tag"):
        texts(fragment(), document + b"</p>")


@pytest.mark.parametrize(
    "document",
    [
        "<para>Press <inlinemediaobject><imageobject><imagedata/></imageobject><textobject><phrase>"
        "A key</phrase></textobject></inlinemediaobject> now.</para>",
        "<topic><p>Press <image><alt>A key</alt></image> now.</p></topic>",
    ],
)
def test_a_picture_does_not_cut_its_sentence(document: str) -> None:
    [segment] = [part for part in read(reader(), document.encode()) if isinstance(part, Segment)]
    assert segment.text == "Press now."
    assert [text.text for text in segment.attributes] == ["A key"]


def test_quotation_marks_of_android_stay_around_their_words() -> None:
    def string(content: str) -> bytes:
        return f'<resources><string name="a">{content}</string></resources>'.encode()

    for content, text in (
        ('" Open it "', "Open it"),
        ('Say \\"yes\\"', 'Say "yes"'),
        ("The &quot;red car&quot; is", "The red car is"),
        ('One " two', "One two"),
    ):
        assert texts(reader(), string(content)) == [text]
        assert written(reader(), string(content), swapped).lower() == string(content).lower()
    assert texts(reader(), string("Hi \\uD83D\\uDE00")) == ["Hi 😀"]
