"""Translation rules in documents: ITS rules, and the languages of elements."""

from __future__ import annotations

import pytest
from dragoman_documents.core.segments import Segment
from dragoman_documents.html.html_reader import HtmlReader
from dragoman_documents.xml.xml_profiles import XHTML
from dragoman_documents.xml.xml_reader import XmlReader
from translated_documents import identity, read, texts, written


def document(rules: str, content: str, attributes: str = "") -> bytes:
    return (
        f'<doc xmlns:its="http://www.w3.org/2005/11/its" its:version="2.0"{attributes}>'
        f"<its:rules version='2.0'>{rules}</its:rules>{content}</doc>"
    ).encode()


def translate_rule(selector: str, value: str = "no") -> str:
    return f'<its:translateRule selector="{selector}" translate="{value}"/>'


def found(rules: str, content: str, attributes: str = "") -> list[str]:
    """The texts of a document; those of attributes come before the text that contains them."""
    xml = document(rules, content, attributes)
    assert written(XmlReader(), xml, identity) == xml
    parts = read(XmlReader(), xml)
    segments = [part for part in parts if isinstance(part, Segment)]
    return [segment.text for part in segments for segment in (*part.attributes, part)]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("//p", ["b"]),
        ("//x:p", ["b"]),
        ("//s/p", ["b", "three"]),
        ("/doc/p", ["one", "two", "b"]),
        ("/p", ["one", "two", "b", "three"]),
        ("/doc/*", []),
        ("//p[@k]", ["one", "b", "three"]),
        ("//p[@k='v']", ["one", "b", "three"]),
        ("//p[@k='w']", ["one", "two", "b", "three"]),
        ("//s/b | /doc/p", ["one", "two"]),
        ("//*", []),
    ],
)
def test_rules_for_elements(selector: str, expected: list[str]) -> None:
    content = "<s><p>one</p><p k='v'>two</p><b>b</b></s><p>three</p>"
    assert found(translate_rule(selector), content) == expected


def test_last_and_local_rules_take_precedence() -> None:
    rules = translate_rule("//s") + translate_rule("//p", "yes") + translate_rule("//p[@k]")
    content = (
        "<s>no<p>one</p><p k=''>no</p><p k='' its:translate='yes'>two</p>"
        "<p its:translate='no'>no<q>no</q></p></s>"
    )
    assert found(rules, content) == ["one", "two"]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("//p/@title", ["A title", "Text."]),
        ("//@title", ["Another", "A title", "Text."]),
        ("//s/p/@*", ["A title", "A hint", "Text."]),
    ],
)
def test_rules_for_attributes(selector: str, expected: list[str]) -> None:
    content = "<s title='Another'><p title='A title' hint='A hint'>Text.</p></s>"
    assert found(translate_rule(selector, "yes"), content) == expected


def test_a_rule_can_exclude_translatable_attributes() -> None:
    xml = document(translate_rule("//p/@title"), "<p title='A'>a <i title='B'>b</i></p>")
    parts = read(XmlReader(XHTML), xml)
    (segment,) = (part for part in parts if isinstance(part, Segment))
    assert [attribute.text for attribute in segment.attributes] == ["B"]


def test_rules_for_elements_within_text() -> None:
    content = "<p>One <m>two</m> <note>three</note> four.</p>"
    rules = (
        '<its:withinTextRule selector="//m" withinText="yes"/>'
        '<its:withinTextRule selector="//note" withinText="nested"/>'
    )
    assert found(rules, content) == ["three", "One two four."]
    assert found('<its:withinTextRule selector="//m" withinText="no"/>', content) == [
        *("One", "two", "three four."),
    ]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (translate_rule("//a//b"), "selector '//a//b' is not supported"),
        (translate_rule("id('a')"), "selector"),
        (translate_rule("//a[1]"), "selector '//a[1]'"),
        (translate_rule("//a", "maybe"), "translate='maybe' is not supported"),
        ('<its:rules xlink:href="more.xml" xmlns:xlink="u"/>', "another file, 'more.xml'"),
    ],
)
def test_unsupported_rules_cause_a_warning(
    rule: str, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is not logged: it quotes the document, which may be a client's."""
    content = "<a>Text.<b>Bold.</b></a>"
    assert found(rule, content) == ["Text.Bold."]
    reader = XmlReader()
    read(reader, document(rule, content))
    (warning,) = reader.warnings
    assert message in warning
    assert not caplog.records


def test_warnings_are_short_and_few() -> None:
    reader = XmlReader()
    read(reader, document(100 * translate_rule("x" * 1000 + "("), "<a>Text.</a>"))
    assert 0 < len(reader.warnings) <= 20
    assert max(map(len, reader.warnings)) < 120


def test_too_many_paths_are_refused() -> None:
    paths = "|".join(f"//a{number}" for number in range(257))
    with pytest.raises(ValueError, match="its ITS rules have more than 256 paths"):
        read(XmlReader(), document(translate_rule(paths), "<a>Text.</a>"))


@pytest.mark.parametrize("source_language", [None, "en"])
def test_elements_in_another_language_are_not_translated(source_language: str | None) -> None:
    xml = b"""<doc xml:lang="en-GB"><p>One.</p><p xml:lang="fr">Un. <q xml:lang="en">Two.</q></p>
<p>Say <q xml:lang="fr">oui</q> to <q xml:lang="en-US">it</q>.</p><p lang="fr">Three.</p></doc>"""
    assert texts(XmlReader(source_language=source_language), xml) == [
        *("One.", "Two.", "Say oui to it.", "Three."),
    ]
    page = b"""<html lang="en"><p>One.<p lang="fr">Un. <q lang="EN">Two.</q></p>
<p>Say <q lang="fr" title="non">oui</q> to <b lang="en-US">it</b>.
<div lang=de translate=no><p lang=en>No.</div><p lang="">Three."""
    segments = [
        part
        for part in read(HtmlReader(source_language=source_language), page)
        if isinstance(part, Segment)
    ]
    assert [segment.text for segment in segments] == ["One.", "Two.", "Say oui to it.", "Three."]
    assert [segment.markup.keep for segment in segments] == [(), (), ((4, 7),), ()]
    assert not any(segment.attributes for segment in segments)


def test_elements_of_documents_without_a_language() -> None:
    for root in ("<html>", "<html lang=und>"):
        page = f"{root}<p lang=en>One.<p lang=fr>Deux.".encode()
        assert texts(HtmlReader(), page) == ["One.", "Deux."]
        assert texts(HtmlReader(source_language="en"), page) == ["One."]
    fragment = b"<p xml:lang='en'>One.</p><p xml:lang='fr'>Deux.</p>"
    assert texts(XmlReader(is_fragment=True), fragment) == ["One.", "Deux."]
    reader = XmlReader(is_fragment=True, source_language="fr-CH")
    assert texts(reader, fragment) == ["Deux."]


def test_a_page_with_a_wrong_language_is_translated() -> None:
    page = b"<html lang=en><p>Eins.<p lang=de>Zwei.<p lang=en>Three."
    assert texts(HtmlReader(source_language="de"), page) == ["Eins.", "Zwei.", "Three."]
