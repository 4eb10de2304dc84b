"""XLIFF: which sources get a target, and how it is written."""

from __future__ import annotations

import pytest
from dragoman_documents.core.segments import Segment
from dragoman_documents.xml.xml_reader import XmlReader
from dragoman_options.markup import PlacedCodes
from lxml import etree
from translated_documents import identity, read, spans, texts, written

XLIFF_1 = """<?xml version="1.0" encoding="UTF-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
 <file original="one" source-language="en" datatype="plaintext">
  <header><note>No note.</note></header>
  <body>
   <trans-unit id="1"><source>Press <g id="1">Enter<x id="2"/></g> now.</source>
    <note>No.</note></trans-unit>
   <trans-unit id="2" translate="no"><source>Locked.</source></trans-unit>
   <group translate="no"><trans-unit id="3"><source>In a locked group.</source></trans-unit>
    <trans-unit id="4" translate="yes"><source>Open again.</source></trans-unit></group>
   <trans-unit id="5" approved="yes"><source>Approved.</source>
    <target>Genehmigt.</target></trans-unit>
   <trans-unit id="6"><source>Final.</source><target state="final"/></trans-unit>
   <trans-unit id="7"><source>There already.</source><target>Schon da.</target></trans-unit>
   <trans-unit id="8"><source>New.</source><target state="new">Old.</target></trans-unit>
   <trans-unit id="9"><source>See <mrk mtype="protected">This Name</mrk>.</source>
    <alt-trans match-quality="60"><source>Not this.</source><target>Nicht das.</target></alt-trans>
   </trans-unit>
   <trans-unit id="10"><source>One. Two.</source><seg-source><mrk mtype="seg" mid="0">One.</mrk>
    <mrk mtype="seg" mid="1">Two.</mrk></seg-source></trans-unit>
   <trans-unit id="11"><source>An image <ph id="1">[<sub>A red car</sub>]</ph> here.</source>
   </trans-unit>
  </body></file>
 <file original="two" source-language="en" target-language="de-AT" datatype="plaintext"><body>
  <trans-unit id="1"><source>A second file.</source></trans-unit></body></file>
</xliff>
"""
XLIFF_2 = """<?xml version="1.0" encoding="UTF-8"?>
<xliff version="2.0" srcLang="en" xmlns="urn:oasis:names:tc:xliff:document:2.0">
 <file id="f1"><notes><note>No note.</note></notes>
  <unit id="1"><originalData><data id="d">No data</data></originalData>
   <segment id="s1"><source>First <pc id="1" dataRefStart="d">one</pc>.</source></segment>
   <ignorable><source> </source></ignorable>
   <segment id="s2" state="initial" subState="x:y">
    <source>Second <sc id="2"/>one<ec startRef="2"/>.</source>
    <target>Alt.</target></segment>
   <segment id="s3" state="final"><source>Final.</source><target>Fertig.</target></segment>
   <segment id="s4" state="reviewed"><source>Reviewed.</source></segment></unit>
  <unit id="2" translate="no"><segment><source>Locked.</source></segment></unit>
  <unit id="3"><segment><source>See <mrk id="m" translate="no">This Name</mrk> and
   <sm id="n" translate="no"/>That Name<em startRef="n"/>.</source></segment></unit>
 </file>
 <file id="f2" translate="no"><unit id="1"><segment><source>Locked.</source></segment></unit></file>
</xliff>
"""
FOUND = {
    XLIFF_1: [
        *("Press Enter now.", "Open again.", "New.", "See This Name.", "One.", "Two."),
        *("An image here.", "A second file."),
    ],
    XLIFF_2: ["First one.", "Second one.", "See This Name and That Name."],
}
BOTH = pytest.mark.parametrize("document", [XLIFF_1, XLIFF_2], ids=["1.2", "2.0"])


def upper(segment: Segment) -> tuple[str, PlacedCodes]:
    """A translation in upper case, with codes and kept text unchanged."""
    kept = [range(*span) for span in segment.markup.keep]
    text = "".join(
        character if any(index in span for span in kept) else character.upper()
        for index, character in enumerate(segment.text)
    )
    return text, PlacedCodes(spans(segment))


def translated(document: str) -> etree._Element:
    return etree.fromstring(written(XmlReader(target_language="de"), document.encode(), upper))


def found_by(tree: etree._Element, path: str) -> list[etree._Element]:
    elements = tree.xpath(path, namespaces={"x": etree.QName(tree).namespace})
    assert isinstance(elements, list)
    return elements  # type: ignore[return-value]


@BOTH
def test_translatable_sources_are_found(document: str) -> None:
    assert texts(XmlReader(target_language="de"), document.encode()) == FOUND[document]


@BOTH
def test_existing_content_is_preserved(document: str) -> None:
    """Except for new targets, and the states that come with them, the file is the same."""
    before, after = etree.fromstring(document.encode()), translated(document)
    for tree in (before, after):
        for target in found_by(tree, "//x:target[not(ancestor::x:alt-trans)]"):
            if target.get("state") not in ("final",) and target.text not in (
                *("Genehmigt.", "Schon da.", "Fertig."),
            ):
                parent = target.getparent()
                assert parent is not None
                parent.remove(target)
        for element in tree.iter():
            for name in ("state", "subState", "target-language", "trgLang"):
                element.attrib.pop(name, None)
            element.text, element.tail = (element.text or "").strip(), (element.tail or "").strip()
    assert etree.tostring(before) == etree.tostring(after)


@BOTH
def test_a_target_has_the_codes_of_its_source(document: str) -> None:
    pairs = found_by(translated(document), "//x:target[not(ancestor::x:alt-trans)]/..")
    assert len(pairs) >= 4
    for pair in pairs:
        source, target = (found_by(pair, f"x:{name}")[0] for name in ("source", "target"))
        if target.get("state") == "final" or pair.get("state") == "final":
            continue
        codes, placed = (
            sorted(
                (element.tag, *map(str, sorted(element.attrib.items())))
                for element in side.iterdescendants()
            )
            for side in (source, target)
        )
        assert placed == codes or found_by(target, "x:mrk[@mtype='seg']")


def test_states_and_languages_are_written() -> None:
    tree = translated(XLIFF_1)
    units = {unit.get("id"): unit for unit in found_by(tree, "//x:file[1]//x:trans-unit")}
    states = {
        key: (target.get("state"), target.get("state-qualifier"))
        for key, unit in units.items()
        for target in found_by(unit, "x:target")
    }
    made = ("needs-review-translation", "mt-suggestion")
    assert {key for key, state in states.items() if state == made} == {
        *("1", "4", "8", "9", "10", "11")
    }
    assert [states[key] for key in ("5", "6", "7")] == [(None, None), ("final", None), (None, None)]
    assert [file.get("target-language") for file in found_by(tree, "//x:file")] == ["de", "de-AT"]
    two = translated(XLIFF_2)
    assert two.get("trgLang") == "de"
    assert [(s.get("state"), s.get("subState")) for s in found_by(two, "//x:segment")] == [
        ("translated", "dragoman:machine-translation"),
        ("translated", "dragoman:machine-translation"),
        ("final", None),
        ("reviewed", None),
        (None, None),
        ("translated", "dragoman:machine-translation"),
        (None, None),
    ]


def test_protected_parts_and_texts_within_codes() -> None:
    (target,) = found_by(translated(XLIFF_2), "//x:unit[@id='3']//x:target")
    assert "".join(map(str, target.itertext())).split() == [
        "SEE",
        "This",
        "Name",
        "AND",
        "That",
        "Name.",
    ]
    (target,) = found_by(translated(XLIFF_1), "//x:trans-unit[@id='9']/x:target")
    assert "".join(map(str, target.itertext())) == "SEE This Name."
    (target,) = found_by(translated(XLIFF_1), "//x:trans-unit[@id='11']/x:target")
    assert "".join(map(str, target.itertext())) == "AN IMAGE [A RED CAR] HERE."


def test_a_target_language_is_required() -> None:
    with pytest.raises(ValueError, match="as target_language or --target-language"):
        texts(XmlReader(), XLIFF_2.encode())


def test_another_target_language_is_skipped_or_refused() -> None:
    assert texts(XmlReader(target_language="fr"), XLIFF_1.encode()) == FOUND[XLIFF_1][:-1]
    other = XLIFF_2.replace('srcLang="en"', 'srcLang="en" trgLang="de-AT"').encode()
    assert texts(XmlReader(target_language="de"), other) == FOUND[XLIFF_2]
    with pytest.raises(ValueError, match=r"are in 'de-AT', not 'fr': .* or change trgLang"):
        texts(XmlReader(target_language="fr"), other)


@BOTH
def test_a_translated_file_is_not_changed_again(document: str) -> None:
    done = written(XmlReader(target_language="de"), document.encode(), upper)
    assert written(XmlReader(target_language="de"), done, identity) == done


@pytest.mark.parametrize(
    ("version", "source"),
    [
        ("1.2", '<x id="1" ctype="lb"/>'),
        ("1.2", '<x id="LINE_BREAK" equiv-text="&lt;br />"/>'),
        ("1.2", '<ph id="1">&lt;br&gt;</ph>'),
        ("1.2", "&lt;br/&gt;"),
        ("2.0", '<ph id="1" type="fmt" subType="xlf:lb"/>'),
        ("2.0", '<ph id="1" equiv="LINE_BREAK" type="fmt"/>'),
    ],
)
def test_a_line_break_ends_a_line(version: str, source: str) -> None:
    part = f"<source>Open it{source}Close it</source>"
    unit = f'<trans-unit id="1">{part}</trans-unit>'
    if version == "2.0":
        unit = f'<unit id="1"><segment>{part}</segment></unit>'
    document = f'<xliff version="{version}" srcLang="en"><file><body>{unit}</body></file></xliff>'
    assert texts(XmlReader(target_language="de"), document.encode()) == ["Open it\u2028Close it"]


def test_the_mark_of_a_key_stays_at_its_word() -> None:
    unit = "<source>E&amp;xit {}</source><translation type='unfinished'></translation>"
    document = f"<TS><context><message>{unit}</message></context></TS>"
    for text, target in (("now", "&amp;Beende es"), ("R&amp;D", "Beende es")):
        translated = written(
            XmlReader(target_language="de"),
            document.format(text).encode(),
            lambda _: ("Beende es", PlacedCodes(((0, 6),))),
        )
        assert f">{target}</translation>" in translated.decode()


def test_tags_of_angular_are_pairs() -> None:
    tags = [f'<x id="{name}"/>' for name in ("START_LINK", "CLOSE_LINK", "START_LINK_1")]
    source = "Go {0}here{1} or {2}there{1} now".format(*tags)
    unit = f'<trans-unit id="1"><source>{source}</source></trans-unit>'
    document = f'<xliff version="1.2"><file><body>{unit}</body></file></xliff>'.encode()
    [segment] = [
        part
        for part in read(XmlReader(target_language="de"), document)
        if isinstance(part, Segment)
    ]
    assert [segment.text[begin:end] for begin, end in spans(segment)] == ["here", "there"]


@pytest.mark.parametrize(
    ("attribute", "text"),
    [('xml:space="preserve"', "Open it\nClose it"), ('xml:space="default"', "Open it Close it")],
)
def test_line_breaks_of_a_source_stay_as_xml_space_says(attribute: str, text: str) -> None:
    unit = f'<trans-unit id="1" {attribute}><source>Open it\nClose it</source></trans-unit>'
    if "default" in attribute:
        unit = f'<trans-unit id="1"><source {attribute}>Open it\nClose it</source></trans-unit>'
    document = f'<xliff version="1.2"><file><body>{unit}</body></file></xliff>'
    assert texts(XmlReader(target_language="de"), document.encode()) == [text]
