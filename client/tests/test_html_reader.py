"""HTML as segments in place: the tree that browsers make outside texts never changes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import html5lib
import pytest
from dragoman_client.markup.html_reader import HtmlReader
from dragoman_client.markup.segments import Segment
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

_SHARED = Path(__file__).parents[3] / "shared" / "documents"
PAGE = b"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Cats &amp; dogs</title>
<meta name=description content="All about cats.">
<script>if (a < b) { document.write("<b>no</b>") }</script>
<style>b > i { color: red }</style></head>
<body>
<!-- not this -->
<p>See <a href="x?a=1&b=2" title="The manual">the <em>manual</em></a>,<br>
or call <code>strlen()</code>.
<p class="notranslate">Dragoman <b>stays</b></p>
<ul><li translate=no>no<li>One&nbsp;item<li><img src=a.png alt='A "red" car'> Two</ul>
<form><input type=submit value="Send"><input type=button value="Open"></form>
<pre>two
  lines</pre></body></html>
"""
PIECES = st.sampled_from(
    (
        *("<b>", "</b>", "<i>", "</i>", "<a href=x>", "</a>", "<p>", "</p>", "<div>", "</div>"),
        *("<br>", "<br/>", '<img alt="a b">', "<span translate=no>", "</span>", "<code>"),
        *("</code>", "<ul>", "<li>", "</ul>", "text ", "One. ", "A &amp; b", "&nbsp;", "&lt;x&gt;"),
        *("\r\n", "<!-- c -->", "<script>if(a<b)</script>", "<table>", "<tr>", "<td>", "</table>"),
        *("<pre>", "</pre>", "<svg><g/></svg>", "<h1>", "</h1>", "<select>", "<option>", "</>"),
        *("<textarea>t</textarea>", "<em class=notranslate>", "</em>", "<nobr>", "é", "日本 ", "<"),
        *('<input type="button" value="Go">', "<object>", "</object>", "<x-y>", "</x-y>", "\0"),
    )
)


def tree(document: bytes) -> list[tuple[str, tuple[str, ...]]]:
    """Elements and comments with their attributes, as browsers find them."""
    root = html5lib.parse(document, namespaceHTMLElements=False)
    return [
        (one.tag if isinstance(one.tag, str) else "comment", tuple(map(str, one.attrib)))
        for one in root.iter()
    ]


def inputs() -> Iterator[str]:
    """Those of html5lib's tests of tokenizers."""
    for path in sorted((_SHARED / "html5lib-tokenizer").glob("*.test*")):
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        for cases in json.loads(content).values():
            for case in cases:
                text = case["input"]
                if case.get("doubleEscaped"):
                    text = text.encode("latin-1", "backslashreplace").decode("unicode_escape")
                yield text


def test_texts_are_found() -> None:
    found = [part for part in read(HtmlReader(), PAGE) if isinstance(part, Segment)]
    assert [(one.kind, one.text) for one in found] == [
        ("title", "Cats & dogs"),
        ("attribute", "All about cats."),
        ("text", "See the manual, or call strlen()."),
        ("text", "One\u00a0item"),
        ("attribute", 'A "red" car'),
        ("text", "Two"),
        ("attribute", "Open"),
        ("text", "two\n  lines"),
    ]
    (_, _, manual, *_) = found
    assert [one.text for one in manual.attributes] == ["The manual"]
    assert [manual.text[begin:end] for begin, end in spans(manual)] == [
        *("the manual", "manual", "", "strlen()")
    ]
    assert manual.markup.keep == ((24, 32),)


def test_a_translation_is_put_in_its_place() -> None:
    def translate(segment: Segment) -> tuple[str, PlacedCodes]:
        if segment.text.startswith("See"):
            return "strlen(), siehe <Handbuch>", PlacedCodes(((16, 26), (16, 26), (15, 15), (0, 8)))
        return "Ü\u00a0\"&'", PlacedCodes(((0, 0),) * len(segment.markup.codes))

    found = written(HtmlReader(), PAGE, translate).decode()
    assert "<p><code>strlen()</code>, siehe<br> <a " in found
    assert 'title="Ü&nbsp;&quot;&amp;\'"><em>&lt;Handbuch&gt;</em></a>' in found
    assert "alt='Ü&nbsp;\"&amp;&#39;'" in found
    assert "<title>Ü&nbsp;\"&amp;'</title>" in found
    assert '<input type=submit value="Send">' in found
    assert 'document.write("<b>no</b>")' in found


def test_outside_texts_nothing_changes() -> None:
    assert written(HtmlReader(), PAGE, identity) == PAGE
    for noise in ("<b>&amp;-->", "\"'</p>", "</title></textarea>", "ß日本"):
        assert tree(written(HtmlReader(), PAGE, hostile(noise))) == tree(PAGE)


@given(st.lists(PIECES, max_size=25), st.integers(1, 9), st.text("<&>\"'/ ab\n-!", max_size=8))
@settings(max_examples=400, deadline=None)
def test_any_soup(pieces: list[str], chunk: int, noise: str) -> None:
    document = ("<body>" + "".join(pieces)).encode()
    assert written(HtmlReader(), document, identity) == document
    assert texts(HtmlReader(), document, chunk) == texts(HtmlReader(), document)
    assert tree(written(HtmlReader(), document, hostile(noise))) == tree(document)
    written(HtmlReader(), document, at_once)


@pytest.mark.skipif(not _SHARED.is_dir(), reason="the real documents are not beside the project")
def test_the_inputs_of_tokenizers() -> None:
    seen = 0
    for text in inputs():
        document = text.encode("utf-8", "surrogatepass")
        assert original(HtmlReader(encoding="utf-8"), document) == document
        assert written(HtmlReader(encoding="utf-8"), document, identity) == document
        seen += 1
    assert seen > 6000


@pytest.mark.skipif(not _SHARED.is_dir(), reason="the real documents are not beside the project")
@pytest.mark.parametrize("path", sorted((_SHARED / "html").glob("*")), ids=lambda path: path.name)
def test_real_pages(path: Path) -> None:
    page = path.read_bytes()
    assert written(HtmlReader(), page, identity) == page
    assert texts(HtmlReader(), page, 7) == texts(HtmlReader(), page)
    assert tree(written(HtmlReader(), page, hostile("<i>&amp;-->"))) == tree(page)


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        (b"\xef\xbb\xbf", "utf-8"),
        (b"\xff\xfe", "utf-16-le"),
        (b"\xfe\xff", "utf-16-be"),
        (b"<meta charset='iso-8859-1'>", "cp1252"),
        (b'<META http-equiv=Content-Type content="text/html; charset=iso-8859-2">', "iso8859-2"),
        (b"<meta charset=unknown>", "utf-8"),
        (b"", "utf-8"),
    ],
)
def test_encodings(head: bytes, encoding: str) -> None:
    document = head + "<p>Ö hello</p>".encode(encoding)
    assert texts(HtmlReader(), document) == ["Ö hello"]
    assert written(HtmlReader(), document, identity) == document
    found = written(HtmlReader(), document, lambda _: ("日ö", PlacedCodes()))
    lacking = "utf" not in encoding
    assert ("&#26085;ö" if lacking else "日ö").encode(encoding) in found


def test_bytes_of_another_encoding_stay() -> None:
    document = b"<p title='\xff'>a \xff b</p>\xfe"
    assert texts(HtmlReader(), document) == ["\ufffd".join(("a ", " b"))]
    assert written(HtmlReader(), document, identity) == document


def test_the_first_bytes_come_before_the_last_are_read() -> None:
    reader = HtmlReader()
    assert any(isinstance(part, Segment) for part in reader.feed(PAGE + b"<p>more" * 300))


@pytest.mark.parametrize("open_tag", ["<b>", "<div>", "<span translate=no>", "<object>"])
def test_elements_in_each_other_without_end(open_tag: str) -> None:
    document = (open_tag * 100_000 + "text").encode()
    assert written(HtmlReader(), document, identity) == document


def test_an_enormous_tag_is_refused_in_one_line() -> None:
    document = b"<p>a</p><a title='" + b"x" * (50 << 20)
    with pytest.raises(ValueError, match=r"^a tag or comment of more than \d+ characters$"):
        read(HtmlReader(), document)


@pytest.mark.parametrize(
    ("page", "wanted"),
    [
        (
            b"<nav><a>Home</a><a>New <b>books</b></a> <a>Help</a></nav>",
            ["Home", "New books", "Help"],
        ),
        (b"<p><a><img alt=x>Home</a> <span><a>New</a> <a>Help</a></span>", ["Home", "New", "Help"]),
        (b"<p>See <a>Home</a> <a>Help</a>", ["See Home Help"]),
        (b"<p><a>Home</a> and <a>Help</a> <a>us</a>", ["Home and Help us"]),
        (b"<p><a>Home</a>, <a>Help</a>", ["Home, Help"]),
    ],
)
def test_links_with_no_words_between_are_texts_of_their_own(page: bytes, wanted: list[str]) -> None:
    assert texts(HtmlReader(), page) == wanted
    assert written(HtmlReader(), page, identity) == page
