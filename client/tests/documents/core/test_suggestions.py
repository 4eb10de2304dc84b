"""Translations of similar texts beside a translation: what is written, and where."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

import pytest
from dragoman_client import Translation
from dragoman_client.files.document_translation import Excerpt
from dragoman_client.files.file_formats import Reading, open_reader
from dragoman_documents.memory.memory_store import Memory
from dragoman_documents.memory.memory_use import stored_translations, suggestions
from dragoman_documents.memory.pair_files import PairFile
from dragoman_documents.memory.pairs import Pair
from dragoman_options.markup import Code
from lxml import etree

ONE = "urn:oasis:names:tc:xliff:document:1.2"
TWO = "urn:oasis:names:tc:xliff:document:2.0"
MATCHES = "urn:oasis:names:tc:xliff:matches:2.0"
NAMES = {"a": ONE, "b": TWO, "m": MATCHES}
PAIRS = [
    Pair("Open the old file.", "Öffne die alte Datei."),
    Pair("Click on the button here now.", "Klick hier.", (Code(13, 19),), ((0, 5),)),
    Pair("The weather is nice today.", "Schönes Wetter heute."),
]


@pytest.fixture
def memory() -> Memory:
    """A memory with three segments."""
    memory = Memory.create(None, ("en", "de"))
    memory.add(PAIRS)
    return memory


def translated(form: str, document: bytes, memory: Memory, origin: str = "a.tmx") -> bytes:
    """A document as the command translates it, with capitals for texts that the memory lacks."""
    reader = open_reader(form, Reading("en", "de"))
    excerpt = Excerpt.of([*reader.feed(document), *reader.close()])  # type: ignore[union-attr]
    texts = [segment.text for segment in excerpt.segments]
    markups = [segment.markup for segment in excerpt.segments]
    answers = [
        stored or Translation(text.upper(), 1, "stop")
        for text, stored in zip(texts, stored_translations(memory, texts, markups), strict=True)
    ]
    places = excerpt.suggestible
    some = suggestions(
        memory, [place.text for place in places], [place.markup for place in places], origin
    )
    return excerpt.written(answers, some)


def unit_1(content: str, encoding: str = "UTF-8") -> bytes:
    """A file of XLIFF 1.2 with one unit."""
    return (
        f'<?xml version="1.0" encoding="{encoding}"?>\n<xliff version="1.2" xmlns="{ONE}"><file '
        'source-language="en" target-language="de" original="a" datatype="plaintext"><body>\n'
        f'<trans-unit id="1">\n {content}</trans-unit></body></file></xliff>'
    ).encode(encoding)


def unit_2(content: str) -> bytes:
    """A file of XLIFF 2.0 with one unit."""
    return (
        f'<xliff version="2.0" xmlns="{TWO}" srcLang="en" trgLang="de"><file id="f">'
        f'<unit id="u">{content}</unit></file></xliff>'
    ).encode()


def names(elements: Sequence[etree._Element]) -> list[str]:
    return [str(etree.QName(element).localname) for element in elements]


def whole(element: etree._Element) -> str:
    return "".join(map(str, element.itertext()))


def test_xliff_1_gets_them_behind_the_target(memory: Memory) -> None:
    tail = "<note>n</note><alt-trans><target>alt</target></alt-trans>"
    for target in ("", "<target/>", '<target state="new">x</target>'):
        written = translated(
            "xliff", unit_1(f"<source>Open the new file.</source>{target}{tail}"), memory
        )
        (unit,) = etree.fromstring(written).iterfind(".//a:trans-unit", NAMES)
        assert names(unit) == ["source", "target", "alt-trans", "note", "alt-trans"]
        source, target_element, offered = unit[0], unit[1], unit[2]
        assert (source.text, target_element.text) == ("Open the new file.", "OPEN THE NEW FILE.")
        assert offered.attrib == {"match-quality": "83%", "origin": "a.tmx"}
        assert list(map(whole, offered)) == [PAIRS[0].source, PAIRS[0].target]


def test_segments_of_xliff_1_are_named(memory: Memory) -> None:
    segments = (
        "<source>Hello. Open the new file.</source><seg-source><mrk mtype='seg' mid='x'>Hello."
        "</mrk> <mrk mtype='seg' mid='y'>Open the new file.</mrk></seg-source>"
    )
    written = translated("xliff", unit_1(segments), memory)
    (offered,) = etree.fromstring(written).iterfind(".//a:alt-trans", NAMES)
    assert (offered.get("mid"), offered[0].text) == ("y", PAIRS[0].source)


def test_xliff_2_gets_them_before_its_segments(memory: Memory) -> None:
    segments = (
        "<notes><note>n</note></notes><segment><source>Open the new file.</source></segment>"
        '<segment id="s1"><source>Nothing like it.</source></segment>'
        '<segment id="x"><source>The weather was nice today.</source></segment>'
    )
    written = translated("xliff", unit_2(segments), memory)
    (unit,) = etree.fromstring(written).iterfind(".//b:unit", NAMES)
    assert names(unit) == ["matches", "notes", *["segment"] * 3]
    assert [segment.get("id") for segment in unit[2:]] == ["s2", "s1", "x"]
    assert [dict(match.attrib) for match in unit[0]] == [
        {"ref": "#s2", "type": "tm", "origin": "a.tmx", "similarity": "83"},
        {"ref": "#x", "type": "tm", "origin": "a.tmx", "similarity": "94"},
    ]
    assert {match.tag for match in unit[0]} == {f"{{{MATCHES}}}match"}
    assert [[side.tag for side in match] for match in unit[0]] == [
        [f"{{{TWO}}}source", f"{{{TWO}}}target"]
    ] * 2


@pytest.mark.parametrize("prefix", ["mtc", "m"])
def test_matches_of_xliff_2_are_added_to(memory: Memory, prefix: str) -> None:
    own = (
        f'<{prefix}:matches xmlns:{prefix}="{MATCHES}"><{prefix}:match ref="#a"><source>o</source>'
        f"<target>p</target></{prefix}:match></{prefix}:matches>"
    )
    segment = '<segment id="a"><source>Open the new file.</source></segment>'
    (unit,) = etree.fromstring(translated("xliff", unit_2(own + segment), memory)).iterfind(
        ".//b:unit", NAMES
    )
    assert names(unit) == ["matches", "segment"]
    assert [whole(match[0]) for match in unit[0].iterfind("m:match", NAMES)] == [
        "o",
        PAIRS[0].source,
    ]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            "Click on the <{0}>button</{0}> there now.",
            ["Click on the <{0}>button</{0}> here now.", "<{0}>Klick</{0}> hier."],
        ),
        (
            "Click on <{0}>the</{0}> <{0}>button</{0}> there now.",
            [PAIRS[1].source, PAIRS[1].target],
        ),
        ("Click on the button there now.", [PAIRS[1].source, PAIRS[1].target]),
    ],
)
def test_elements_are_written_if_they_are_the_same(
    memory: Memory, source: str, expected: list[str]
) -> None:
    """In XLIFF 2 without references to data of the unit, which a match cannot see."""
    for form, tag, plain in (
        (unit_1, 'g id="1"', 'g id="1"'),
        (unit_2, 'pc id="1" dataRefStart="d"', 'pc id="1"'),
    ):
        begin, end = tag, tag.split()[0]
        text = re.sub(r"</\{0\}>", f"</{end}>", source).replace("{0}", begin)
        content = f"<source>{text}</source>"
        if form is unit_2:
            content = (
                f'<originalData><data id="d"/></originalData><segment id="a">{content}</segment>'
            )
        written = translated("xliff", form(content), memory).decode()
        for side in expected:
            shown = re.sub(r"</\{0\}>", f"</{end}>", side).replace("{0}", plain)
            assert f">{shown}<" in written


def test_a_text_in_a_cdata_section_gets_them_in_one(memory: Memory) -> None:
    memory.add([Pair("Open the <new> files.", "Neu ]]> <&")])
    written = translated("xliff", unit_1("<source><![CDATA[Open the new file.]]></source>"), memory)
    sides = etree.fromstring(written).iterfind(".//a:alt-trans/*", NAMES)
    pair = ["Open the <new> files.", "Neu ]]> <&"]
    assert list(map(whole, sides)) == [*pair, PAIRS[0].source, PAIRS[0].target]


def test_an_equal_text_gets_none(memory: Memory) -> None:
    document = unit_1("<source>Open the old file.</source>")
    assert b"alt-trans" not in translated("xliff", document, memory)
    assert b"Datei" in translated("xliff", document, memory)


def test_po_gets_the_best_one_as_a_comment(memory: Memory) -> None:
    """In the order of gettext: before the places in the program, and behind other comments."""
    entry = '# n\n#. p\n#: a.c:1\n#, c-format\nmsgid "Open the new file."\nmsgstr ""\n'
    written = translated("po", f'{entry}\nmsgid "x y"\nmsgstr "z"\n'.encode(), memory).decode()
    expected = (
        '# n\n#. p\n#. a.tmx, 83 %: "Open the old file." = "Öffne die alte Datei."\n#: a.c:1\n'
    )
    assert written.startswith(f"{expected}#, fuzzy, c-format\nmsgid")
    assert written.count("#.") == 2
    assert list(PairFile(io.BytesIO(written.encode()), "en", "de").pairs) == [Pair("x y", "z")]
    plural = b'msgid "Open the new file."\r\nmsgid_plural "Open the new files."\r\nmsgstr[0] ""\r\n'
    lines = translated("po", plural + b'msgstr[1] ""\r\n', memory).split(b"\r\n")
    assert [line[:3] for line in lines[:3]] == [b"#. ", b"#. ", b"#, "]
    memory.add([Pair("Open the new files.", "Neu\n#, fuzzy\0")])
    assert '= "Neu\\n#, fuzzy"\n#: a.c' in translated("po", entry.encode(), memory).decode()


@pytest.mark.parametrize("form", [unit_1, unit_2])
def test_an_import_does_not_take_them_for_translations(memory: Memory, form: object) -> None:
    """Also if somebody has accepted the translation."""
    source = "<source>Open the new file.</source>"
    content = source if form is unit_1 else f"<segment>{source}</segment>"
    written = translated("xliff", form(content), memory)  # type: ignore[operator]
    accepted = written.replace(b"mt-suggestion", b"x").replace(b"dragoman:machine", b"x:y")
    for document, count in ((written, 0), (accepted, 1)):
        pairs = list(PairFile(io.BytesIO(document), "en", "de").pairs)
        assert [pair.target for pair in pairs] == ["OPEN THE NEW FILE."] * count
    again = translated("xliff", written, memory)
    assert again == written


@pytest.mark.parametrize("encoding", ["UTF-16", "ISO-8859-1"])
def test_they_are_written_in_the_encoding_of_the_document(encoding: str, memory: Memory) -> None:
    memory.add([Pair("Open the new files.", "漢 <&\x01")])
    document = unit_1("<source>Open the new file.</source>", encoding)
    tree = etree.fromstring(translated("xliff", document, memory, 'ü"<\n漢'))
    offered = tree.findall(".//a:alt-trans", NAMES)
    assert [item[1].text for item in offered] == ["漢 <&", PAIRS[0].target]
    assert offered[0].get("origin") == 'ü"<\n漢'
