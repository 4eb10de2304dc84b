"""Office documents and books: what is translated, and what stays."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from random import Random

import pytest
from dragoman_client.files.document_translation import Excerpt, parts_of
from dragoman_client.files.file_formats import ReadableFormat, Reading, format_of, open_reader
from dragoman_documents.office.run_profiles import DRAWING, STRINGS, WORD
from dragoman_documents.office.runs import RunReader
from dragoman_documents.xml.xml_profiles import OPENDOCUMENT
from dragoman_documents.xml.xml_reader import XmlReader
from dragoman_options.markup import PlacedCodes
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markup_laws import NOISE, check_document
from office_documents import (
    A,
    S,
    archive,
    docx,
    members,
    office,
    paragraph,
    run,
    segments,
    texts,
    translated,
    xlsx,
)
from office_laws import check_package, check_runs
from translated_documents import hostile, identity, read, shuffled, swapped, written

DOCUMENTS = Path(__file__).parents[5] / "shared" / "documents"
REAL = sorted(
    path
    for kind in ("docx", "pptx", "xlsx", "odt", "ods", "odp", "epub")
    for path in (DOCUMENTS / kind).glob("*")
)
LARGEST = {
    *("powertools-HC048-Excerpt.docx", "readium-childrens-literature.epub"),
    *("docling-textbox.docx", "odfdo-collection2.odt", "purvis-poetry.epub"),
    "powertools-solar-system.docx",
}
"""Documents that take most of the time of all; others have their elements too."""


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.thorough] if path.name in LARGEST else [])
        for path in REAL
    ],
    ids=lambda path: path.name,
)
def test_real_documents(path: Path) -> None:
    check_package(path.read_bytes(), path.suffix[1:], "<&>'\"]]>\0 \n", Random(1))


_WORDS = st.sampled_from(["The ", "old ", "house", " is", " big", ". ", "A&amp;B", " ", "É", "7"])
_LOOKS = st.sampled_from(
    [
        *("", "<w:b/>", "<w:i/>", '<w:lang w:val="fr-FR"/>', '<w:rFonts w:hint="eastAsia"/>'),
        '<w:b/><w:lang w:val="en-US"/><w:noProof/>',
    ]
)
_RUNS = st.builds(run, _WORDS, _LOOKS, st.sampled_from(["", ' w:rsidR="00A1"']))
_IN_RUN = st.sampled_from(
    [
        *("<w:tab/>", "<w:br/>", "<w:noBreakHyphen/>", "<w:softHyphen/>"),
        '<w:footnoteReference w:id="1"/>',
        "<w:drawing><wp:inline xmlns:wp='wp'><wp:docPr id='1' descr='A cat'/></wp:inline>"
        "</w:drawing>",
        "<w:pict><v:textbox xmlns:v='v'><w:txbxContent><w:p><w:r><w:t>In a box</w:t></w:r></w:p>"
        "</w:txbxContent></v:textbox></w:pict>",
        '<w:fldChar w:fldCharType="begin"/>',
        '<w:fldChar w:fldCharType="separate"/>',
        '<w:fldChar w:fldCharType="end"/>',
        "<w:instrText>REF a</w:instrText>",
    ]
)
_OBJECTS = st.builds(
    lambda content, look: f"<w:r><w:rPr>{look}</w:rPr>{content}</w:r>", _IN_RUN, _LOOKS
)
_MARKS = st.sampled_from(
    [
        '<w:proofErr w:type="spellStart"/>',
        *('<w:bookmarkStart w:id="1" w:name="a"/>', '<w:bookmarkEnd w:id="1"/>'),
        *('<w:bookmarkStart w:id="2" w:name="b"/>', '<w:bookmarkEnd w:id="2"/>'),
        *('<w:commentRangeStart w:id="1"/>', '<w:commentRangeEnd w:id="1"/>'),
        '<w:del w:id="3"><w:r><w:delText>gone </w:delText></w:r></w:del>',
        "<w:moveFrom><w:r><w:t>moved away </w:t></w:r></w:moveFrom>",
        "<m:oMath xmlns:m='m'><m:r><m:t>x</m:t></m:r></m:oMath>",
        '<w:fldSimple w:instr=" PAGE "><w:r><w:t>ix</w:t></w:r></w:fldSimple>',
        "\n  ",
    ]
)
_FIELDS = st.builds(
    lambda code, inner: (
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r>'
        f"<w:r><w:instrText>{code}</w:instrText></w:r>"
        '<w:r><w:fldChar w:fldCharType="separate"/></w:r>'
        f'{inner}<w:r><w:fldChar w:fldCharType="end"/></w:r>'
    ),
    st.sampled_from(["REF a", " PAGE ", 'HYPERLINK "http://a"']),
    _RUNS,
)
_INLINE = st.recursive(
    st.one_of(_RUNS, _RUNS, _OBJECTS, _MARKS, _FIELDS),
    lambda inner: st.builds(
        lambda around, parts: around.format("".join(parts)),
        st.sampled_from(
            [
                '<w:hyperlink r:id="r1">{}</w:hyperlink>',
                '<w:ins w:id="4">{}</w:ins>',
                "<w:sdt><w:sdtPr><w:alias w:val='a'/></w:sdtPr><w:sdtContent>{}</w:sdtContent>"
                "</w:sdt>",
            ]
        ),
        st.lists(inner, max_size=4),
    ),
    max_leaves=12,
)
_PARAGRAPHS = st.builds(
    lambda parts: f"<w:p><w:pPr><w:rPr><w:b/></w:rPr></w:pPr>{''.join(parts)}</w:p>",
    st.lists(_INLINE, max_size=8),
)

_FIELD_WITHOUT_RESULT = (
    '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>XE "a"</w:instrText></w:r>'
    '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
)


@settings(deadline=None, max_examples=40)
@example([f"<w:p>{run('a ')}{_FIELD_WITHOUT_RESULT}{run(' b')}</w:p>"], "", Random(1))
@given(st.lists(_PARAGRAPHS, min_size=1, max_size=3), NOISE, st.randoms(use_true_random=False))
def test_any_paragraphs(body: list[str], noise: str, random: Random) -> None:
    content = members(docx("".join(body)))["word/document.xml"]
    check_runs(content, WORD, noise, random)


def test_neighbouring_runs_of_equal_properties_are_one_text() -> None:
    body = paragraph(
        run("The Sa", '<w:lang w:val="en-US"/>', ' w:rsidR="1"'),
        '<w:proofErr w:type="spellStart"/><w:bookmarkStart w:id="0" w:name="_GoBack"/>',
        '<w:bookmarkEnd w:id="0"/>',
        run("turn ", "<w:noProof/>"),
        run("is ", "<w:b/>"),
        run("bi", '<w:b/><w:lang w:val="fr-FR"/>', ' w:rsidRPr="2"'),
        run("g."),
    )
    (segment,) = segments(docx(body), "docx")
    assert segment.text == "The Saturn is big."
    assert [segment.text[code.begin : code.end] for code in segment.markup.codes] == ["", "is bi"]


def test_a_text_has_its_runs_and_spaces_in_the_translation() -> None:
    body = paragraph(run("A "), run("red ", "<w:b/>"), run("car"))
    output = translated(docx(body), "docx", lambda _: ("Ein rotes Auto", PlacedCodes(((4, 10),))))
    assert (
        paragraph(run("Ein "), run("rotes ", "<w:b/>"), run("Auto")).encode()
        in members(output)["word/document.xml"]
    )


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            '<w:p><w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>TOC</w:instrText>'
            '</w:r><w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t>One</w:t></w:r></w:p>'
            "<w:p><w:r><w:t>Two</w:t></w:r></w:p>"
            '<w:p><w:r><w:fldChar w:fldCharType="end"/></w:r></w:p>',
            ["One", "Two"],
        ),
        ("<w:p><w:del><w:r><w:delText>Gone</w:delText></w:r></w:del></w:p>", []),
        (
            paragraph(run("Page "), '<w:fldSimple w:instr="PAGE">' + run("ix") + "</w:fldSimple>"),
            ["Page ix"],
        ),
        (paragraph('<w:fldSimple w:instr="PAGE">' + run("ix") + "</w:fldSimple>"), []),
        ("<w:p><w:r><w:t>Name</w:t><w:tab/><w:t>Age</w:t></w:r></w:p>", ["Name\u2028Age"]),
        ("<w:p><w:r><w:t>e</w:t><w:noBreakHyphen/><w:t>mail</w:t></w:r></w:p>", ["e\u2011mail"]),
        (paragraph(run("2012"), run(" / 13")), []),
    ],
)
def test_texts_of_paragraphs(body: str, expected: list[str]) -> None:
    assert texts(docx(body), "docx") == expected


def test_all_parts_of_a_document_are_translated() -> None:
    parts = {
        name: f"<w:p>{run(name)}</w:p>"
        for name in ("header", "footer", "footnotes", "endnotes", "comments")
    }
    assert texts(docx(paragraph(run("body")), **parts), "docx") == ["body", *parts]


def test_a_text_box_that_is_stored_twice_gets_one_translation() -> None:
    box = f"<w:txbxContent>{paragraph(run('In a '), run('box', '<w:b/>'))}</w:txbxContent>"
    mc = "http://schemas.openxmlformats.org/markup-compatibility/2006"
    body = (
        f'<w:p><w:r><mc:AlternateContent xmlns:mc="{mc}">'
        f'<mc:Choice Requires="wps">{box}</mc:Choice>'
        f"<mc:Fallback><w:pict>{box}</w:pict></mc:Fallback></mc:AlternateContent></w:r>"
        f"{run('Around it.')}</w:p>"
    )
    all_segments = segments(docx(body), "docx")
    assert [segment.text for segment in all_segments] == ["In a box", "In a box", "Around it."]
    assert all_segments[0].markup == all_segments[1].markup


def test_a_paragraph_that_is_too_long_is_translated_run_by_run() -> None:
    words = [f"number{index} {'word ' * 200}" for index in range(1100)]
    runs = [run(text, "<w:b/>" * (index % 2)) for index, text in enumerate(words)]
    document = docx(paragraph(*runs) + paragraph(run("after")))
    all_texts = texts(document, "docx")
    assert all_texts == [*map(str.strip, words), "after"]
    assert translated(document, "docx", identity) == document


@pytest.mark.parametrize(
    "content",
    [
        "<t>text</t>",
        "<p>text</p>",
        "<p><t>text</t></p>",
        "<r><t>text</t></r>",
        "<p><r><t>a<b>bold</b></t></r></p>",
        "<p><r><t>a<!-- c -->b</t></r></p>",
        "<p><r>text</r>more</p>",
        "<p><r><t><![CDATA[a <b>]]></t></r><?pi?></p>",
        "<p><r><t/><r><t>inner</t></r></r></p>",
        "<p><sdt><r><t>text</t></r></sdt></p>",
        "<p><sdt><sdtContent><r><t>text</t></r></sdtContent><docPr descr='a cat'/></sdt></p>",
        "<p><sdt/><hyperlink/><r/><fldSimple instr='PAGE'/></p>",
        "<p>" * 50 + "<r><t>deep</t></r>" + "</p>" * 50,
        "<p><r>" * 600 + "<t>deep</t>" + "</r></p>" * 600,  # deeper than calls may be
    ],
    ids=lambda content: content[:40],
)
def test_other_structures_keep_their_bytes(content: str) -> None:
    for profile in (WORD, DRAWING, STRINGS):
        open_reader = partial(RunReader, profile)
        check_document(open_reader, content.encode(), Random(1))
        read(XmlReader(), written(open_reader(), content.encode(), hostile("<&")))


def test_properties_of_an_element_around_runs_stay_its_first_element() -> None:
    wrapped = f"<w:smartTag><w:smartTagPr/>{run('New York ')}{run('City', '<w:b/>')}</w:smartTag>"
    document = docx(paragraph(run("I saw "), wrapped, run(" there.")))
    for seed in range(9):
        content = members(translated(document, "docx", shuffled(Random(seed))))["word/document.xml"]
        assert b"<w:smartTag><w:smartTagPr/>" in content


def test_words_of_numbers_are_translated() -> None:
    marks = ("Chapter %1:", "%1.", "o", "\u00d8")
    document = docx("", numbering="".join(f'<w:lvlText w:val="{mark}"/>' for mark in marks))
    assert texts(document, "docx") == ["Chapter %1:"]


def test_cells_that_formulas_quote_are_left_and_counted() -> None:
    strings = "".join(
        f"<si><t>{text}</t></si>"
        for text in (
            *("Open", "OPEN ", "Closed", "Open it", "Northern"),
            *("done", "a, b", "Price", "No"),
        )
    )
    sheet = (
        '<sheetData><row><c t="str"><f>IF(A1="open",COUNTIF(A:A,"&lt;&gt;closed"),'
        'SUMIF(B:B,"Nor*"))</f><v>5</v></c><c t="inlineStr"><is><t>Written here</t></is></c></row>'
        '</sheetData><dataValidations><dataValidation type="list"><formula1>"todo,done"</formula1>'
        "</dataValidation></dataValidations>"
    )
    table = {"xl/tables/table1.xml": f'<table xmlns="{S}"><tableColumn name="price"/></table>'}
    document = xlsx(strings, sheet, **table)
    parts = parts_of(open_reader("xlsx", Reading()), io.BytesIO(document), "a")
    assert texts(document, "xlsx") == ["Open it", "a, b", "No", "Written here"]
    assert Excerpt.of(parts).left == {"quoted": 6}


@pytest.mark.parametrize(
    ("formula", "table", "left"),
    [
        ("COUNTIF(A:A,&quot;*&quot;)", "x", []),
        ("&quot;Why &quot;&amp;A1&amp;&quot;?&quot;", "x", []),
        ("A1", "Two_x000a_lines", ["Two\nlines"]),
        ("INDIRECT(A1&amp;&quot;!B2&quot;)", "My_data", ["Sheet1", "My data"]),
    ],
)
def test_cells_are_left_only_if_their_texts_matter(
    formula: str, table: str, left: list[str]
) -> None:
    cells = ["Sheet1", "My data", "Two\nlines", "Hello"]
    strings = "".join(f"<si><t>{cell}</t></si>" for cell in cells)
    part = f'<table xmlns="{S}" name="{table}"><tableColumn name="{table}"/></table>'
    sheet = f"<sheetData><row><c><f>{formula}</f></c></row></sheetData>"
    document = xlsx(strings, sheet, **{"xl/tables/table1.xml": part})
    assert texts(document, "xlsx") == [cell for cell in cells if cell not in left]


def test_a_spreadsheet_keeps_the_fields_of_a_pivot_table() -> None:
    pivot = '<table:data-pilot-field table:source-field-name="Heading"/>'
    content = CONTENT.replace("</office:text>", f"{pivot}</office:text>")
    mime_type = "application/vnd.oasis.opendocument.spreadsheet"
    document = archive({"mimetype": mime_type, "content.xml": content})
    assert "Heading" not in texts(document, "ods")


def test_the_language_of_a_translated_document_is_set() -> None:
    body = paragraph(run("A ", '<w:lang w:val="en-GB"/>'), run("car", '<w:lang w:val="en-US"/>'))
    other = paragraph(run("12", '<w:lang w:val="en-GB"/>'))
    styles = '<w:docDefaults><w:rPr><w:lang w:val="en-US"/></w:rPr></w:docDefaults>'
    document = docx(body + other, styles=styles)
    output = members(translated(document, "docx", swapped, target_language="pt-BR"))
    assert b'w:val="pt-BR"' in output["word/styles.xml"]
    assert output["word/document.xml"].count(b'"pt-BR"') == 1
    assert output["word/document.xml"].count(b'"en-GB"') == 1
    for language in ("und", 'x"><w:b/>', ""):
        kept = members(translated(document, "docx", identity, target_language=language))
        assert kept == members(document)


SLIDE = (
    f'<p:sld xmlns:p="p" xmlns:a="{A}" xmlns:c="c"><p:cNvPr name="Kept" descr="A cat"/><a:p>'
    '<a:r><a:rPr lang="en-US" dirty="0"/><a:t>A </a:t></a:r><a:r><a:rPr lang="en-GB"/><a:t>title'
    '</a:t></a:r><a:br/><a:r><a:rPr b="1"/><a:t>bold</a:t></a:r><a:fld><a:t>IV</a:t>'
    "</a:fld><a:endParaRPr/></a:p><c:strCache><c:pt><c:v>Series</c:v></c:pt></c:strCache>"
    "<c:multiLvlStrCache><c:lvl><c:pt><c:v>North</c:v></c:pt></c:lvl></c:multiLvlStrCache>"
    "<c:numCache><c:formatCode>General</c:formatCode><c:pt><c:v>1E5</c:v></c:pt></c:numCache>"
    "</p:sld>"
)
PPTX = office(
    "pptx",
    {
        "ppt/presentation.xml": "<p/>",
        "ppt/slides/slide1.xml": SLIDE,
        "ppt/slideLayouts/slideLayout1.xml": SLIDE,
        "ppt/notesSlides/notesSlide1.xml": SLIDE.replace("title", "note"),
    },
    {
        "ppt/slides/slide1.xml": "presentationml.slide",
        "ppt/slideLayouts/slideLayout1.xml": "presentationml.slideLayout",
        "ppt/notesSlides/notesSlide1.xml": "presentationml.notesSlide",
    },
)
NAMESPACES = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for name in ("office", "text", "table", "style", "draw", "fo", "number")
)
CONTENT = (
    f'<office:document-content {NAMESPACES} xmlns:dc="dc"><office:automatic-styles><style:style '
    'style:name="T1"><style:text-properties fo:language="en" fo:country="US"/></style:style>'
    "<number:date-style><number:text>of</number:text></number:date-style></office:automatic-styles>"
    "<office:body><office:text><text:tracked-changes><text:deletion><text:p>Gone</text:p>"
    "</text:deletion></text:tracked-changes><text:h>Head<text:note><text:note-citation>a"
    "</text:note-citation><text:note-body><text:p>A note</text:p><text:p>Its second</text:p>"
    '</text:note-body></text:note>ing</text:h><text:p>A<text:s/><text:span text:style-name="T1">red'
    "</text:span> car.<office:annotation><dc:creator>Ann</dc:creator><text:p>A remark</text:p>"
    "</office:annotation></text:p><text:p>Name<text:tab/>Age<text:line-break/>and more</text:p>"
    '<text:p>In a w<text:bookmark-start text:name="b"/><text:bookmark-end text:name="b"/>ord, page '
    "<text:page-number>iv</text:page-number></text:p><draw:frame><draw:text-box><text:p>In a box"
    "</text:p></draw:text-box></draw:frame>"
    '<table:table table:name="Sheet">'
    '<table:table-cell table:formula="of:=IF([.A1]=&quot;Yes&quot;)">'
    "<text:p>Computed</text:p></table:table-cell><table:table-cell><text:p>yes</text:p>"
    "</table:table-cell></table:table></office:text></office:body></office:document-content>"
)
STYLES = (
    f"<office:document-styles {NAMESPACES}><office:styles><style:default-style>"
    '<style:text-properties fo:language="en" fo:country="US"/></style:default-style>'
    "</office:styles>"
    "<office:master-styles><style:header><text:p>A header</text:p></style:header>"
    "</office:master-styles></office:document-styles>"
)


def open_document(kind: str) -> bytes:
    return archive(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": CONTENT,
            "styles.xml": STYLES,
            "Object 1/content.xml": CONTENT.replace("Heading", "Chart"),
            "Pictures/a.png": b"\x89PNG" * 100,
            "meta.xml": '<office:meta xmlns:office="o" xmlns:dc="dc"><dc:title>Kept</dc:title>'
            "<dc:language>en</dc:language></office:meta>",
        }
    )


BOOK = archive(
    {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": '<container><rootfile full-path="OPS/a b.opf"/></container>',
        "OPS/a b.opf": '<package xmlns:dc="dc"><metadata><dc:title>Kept</dc:title><dc:language>en'
        "</dc:language></metadata><manifest>"
        '<item href="../text/one%20two.xhtml" media-type="application/xhtml+xml"/>'
        '<item href="toc.ncx" media-type="application/x-dtbncx+xml"/>'
        '<item href="no.xhtml" media-type="application/xhtml+xml"/>'
        '<item href="a.css" media-type="text/css"/></manifest></package>',
        "text/one two.xhtml": '<html lang="en" xml:lang="en"><title>Chapter</title><body>'
        "<p>A <em>red</em> car.</p></body></html>",
        "OPS/toc.ncx": "<ncx><docTitle><text>Book</text></docTitle>"
        "<navLabel><text>Part</text></navLabel></ncx>",
        "text/unlisted.xhtml": "<p>",
    }
)
OPEN_DOCUMENT_TEXTS = [
    *("A note", "Its second", "Heading", "A remark", "A red car."),
    *("Name\u2028Age\u2028and more", "In a word, page ", "In a box", "yes"),
]


def test_slides() -> None:
    assert texts(PPTX, "pptx") == [
        *("A cat", "A title\u2028bold", "Series", "North"),
        *("A cat", "A note\u2028bold", "Series", "North"),
    ]


@pytest.mark.parametrize(("form", "kind"), [("odt", "text"), ("odp", "presentation")])
def test_open_documents(form: str, kind: str) -> None:
    all_texts = texts(open_document(kind), form)
    assert sorted(map(str.strip, all_texts)) == sorted(
        map(str.strip, [*OPEN_DOCUMENT_TEXTS, "A header", *OPEN_DOCUMENT_TEXTS])
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("<draw:frame><svg:title>A cat</svg:title><svg:desc>It sits</svg:desc></draw:frame>", 2),
        ("<chart:title><text:p>Sales</text:p></chart:title>", 1),
        ("<text:p>On <text:date>1 May</text:date> at noon.</text:p>", 1),
        ("<text:p>Written by <text:creator>Ann</text:creator> at noon.</text:p>", 1),
        ("<text:p>A <text:drop-down><text:label/>red</text:drop-down> car.</text:p>", 1),
        ("<text:p>A <x:content-control>red</x:content-control> car.</text:p>", 1),
        ("<draw:image><office:binary-data>aGVsbG8=</office:binary-data></draw:image>", 0),
    ],
)
def test_elements_of_open_documents(content: str, expected: int) -> None:
    body = f'<office:text {NAMESPACES} xmlns:svg="s" xmlns:chart="c" xmlns:x="x">{content}'
    assert len(texts_of_xml(f"{body}</office:text>")) == expected


def texts_of_xml(content: str) -> list[str]:
    parts = read(XmlReader(OPENDOCUMENT), content.encode())
    return [text.text for text in Excerpt.of(parts).segments]


def test_a_spreadsheet_keeps_what_its_formulas_quote() -> None:
    document = open_document("spreadsheet")
    assert "yes" not in texts(document, "ods")
    assert "Heading" in texts(document, "ods")


def test_books() -> None:
    assert texts(BOOK, "epub") == ["Chapter", "A red car.", "Book", "Part"]
    in_french = segments(BOOK, "epub", source_language="fr")
    assert [segment.text for segment in in_french] == ["Chapter", "A red car.", "Book", "Part"]


@pytest.mark.parametrize(
    ("document", "form"),
    [
        (PPTX, "pptx"),
        (open_document("text"), "odt"),
        (open_document("spreadsheet"), "ods"),
        (open_document("presentation-template"), "odp"),
        (BOOK, "epub"),
    ],
    ids=lambda parameter: parameter if isinstance(parameter, str) else "",
)
@pytest.mark.parametrize("noise", ["", "<b>&amp;", "]]>\0\ud800", " \n é日\u202e"])
def test_laws_of_packages(document: bytes, form: str, noise: str) -> None:
    for seed in range(2):
        check_package(document, form, noise, Random(seed))


def test_the_language_of_books_and_open_documents_is_set() -> None:
    book = members(translated(BOOK, "epub", identity, target_language="de"))
    assert b"<dc:language>de</dc:language>" in book["OPS/a b.opf"]
    assert b'<html lang="de" xml:lang="de">' in book["text/one two.xhtml"]
    written = members(translated(open_document("text"), "odt", identity, target_language="pt-BR"))
    for name in ("content.xml", "styles.xml"):
        assert b'fo:language="pt" fo:country="BR"' in written[name]
        assert b'"US"' not in written[name]


CORE = {
    "[Content_Types].xml": '<Types><Override PartName="/word/document.xml" ContentType='
    '"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/><Override '
    'PartName="/docProps/core.xml" ContentType="application/vnd.openxmlformats-package.'
    'core-properties+xml"/></Types>',
    "word/document.xml": "<document/>",
    "docProps/core.xml": '<cp:coreProperties xmlns:cp="cp" xmlns:dc="dc"><dc:title>Kept</dc:title>'
    "<dc:creator>Ann</dc:creator><dc:language>en</dc:language></cp:coreProperties>",
}


@pytest.mark.parametrize(
    ("document", "form", "member"),
    [
        (BOOK, "epub", "OPS/a b.opf"),
        (open_document("text"), "odt", "meta.xml"),
        (archive(CORE), "docx", "docProps/core.xml"),
    ],
)
def test_a_title_among_the_properties_is_translated_on_request(
    document: bytes, form: str, member: str
) -> None:
    content = members(document)[member]
    for titles in (False, True):
        output = translated(document, form, swapped, target_language="de", titles=titles)
        title = b"<dc:title>kEPT</dc:title>" if titles else b"<dc:title>Kept</dc:title>"
        expected = content.replace(b"<dc:title>Kept</dc:title>", title)
        expected = expected.replace(b"<dc:language>en<", b"<dc:language>de<")
        assert members(output)[member] == expected


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (
            {
                "META-INF/manifest.xml": "<m><encryption-data/></m>",
                "mimetype": "application/vnd.oasis.opendocument.text",
            },
            "it has a password: save it without one",
        ),
        (
            {
                **members(BOOK),
                "META-INF/encryption.xml": '<e><CipherReference URI="text/one%20two.xhtml"/></e>',
            },
            "its pages are encrypted",
        ),
    ],
)
def test_documents_with_a_password_are_refused(members: dict[str, bytes], message: str) -> None:
    form = "epub" if "OPS/toc.ncx" in members else "odt"
    with pytest.raises(ValueError, match=f"^a document: {message}"):
        texts(archive(members), form)


def test_a_signed_document_is_warned_about() -> None:
    document = office("docx", {"word/document.xml": "<d/>", "_xmlsignatures/a.xml": "<s/>"}, {})
    reader = open_reader("docx", Reading())
    list(parts_of(reader, io.BytesIO(document), "a"))
    assert reader.warnings == ["its digital signature is not valid for the translation"]


@pytest.mark.parametrize(
    ("document", "form"),
    [
        (docx(""), "docx"),
        (PPTX, "pptx"),
        (xlsx(""), "xlsx"),
        (open_document("text"), "odt"),
        (open_document("spreadsheet"), "ods"),
        (open_document("presentation"), "odp"),
        (BOOK, "epub"),
    ],
    ids=lambda parameter: parameter if isinstance(parameter, str) else "",
)
def test_a_package_is_recognized_by_its_beginning(document: bytes, form: str) -> None:
    known = format_of("a", document[:4096])
    assert isinstance(known, ReadableFormat)
    assert known.name == form
    assert isinstance(known := format_of(f"a.{form.upper()}"), ReadableFormat)
    assert known.name == form


@pytest.mark.parametrize(
    "words", [("docx", "2000", "8000000"), ("epub", "300")], ids=lambda words: words[0]
)
def test_memory_does_not_depend_on_the_size(words: tuple[str, ...]) -> None:
    program = Path(__file__).parents[2] / "package_memory.py"
    done = subprocess.run([sys.executable, str(program), *words], check=True, capture_output=True)
    measured = json.loads(done.stdout)
    assert measured["texts"] >= 2000
    assert measured["mib"] - measured["mib_before"] < 6
