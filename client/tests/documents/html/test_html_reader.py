"""The reader of HTML: the tree that browsers build never changes outside texts."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from random import Random

import pytest
from document_trees import html_tree, ordered
from dragoman_documents.core.segments import Segment
from dragoman_documents.html import html_tokens
from dragoman_documents.html.html_reader import HtmlReader
from dragoman_documents.html.html_tokens import HtmlTokens
from dragoman_options.markup import PlacedCodes
from html_documents import inputs, soups, trees
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markup_laws import NOISE, check_document, check_html
from translated_documents import identity, original, read, spans, swapped, texts, written

_SHARED = Path(__file__).parents[5] / "shared" / "documents"
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


def test_texts_are_found() -> None:
    segments = [part for part in read(HtmlReader(), PAGE) if isinstance(part, Segment)]
    assert [(segment.kind, segment.text) for segment in segments] == [
        ("title", "Cats & dogs"),
        ("attribute", "All about cats."),
        ("text", "See the manual,\u2028or call strlen()."),
        ("text", "One\u00a0item"),
        ("attribute", 'A "red" car'),
        ("text", "Two"),
        ("attribute", "Open"),
        ("text", "two\n  lines"),
    ]
    (_, _, manual, *_) = segments
    assert [attribute.text for attribute in manual.attributes] == ["The manual"]
    assert [manual.text[begin:end] for begin, end in spans(manual)] == [
        *("the manual", "manual", "\u2028", "strlen()")
    ]
    assert manual.markup.keep == ((24, 32),)


def test_a_translation_replaces_its_text() -> None:
    def translate(segment: Segment) -> tuple[str, PlacedCodes]:
        if segment.text.startswith("See"):
            return "strlen(), siehe <Handbuch>", PlacedCodes(((16, 26), (16, 26), (15, 16), (0, 8)))
        return "Ü\u00a0\"&'", PlacedCodes(((0, 0),) * len(segment.markup.codes))

    translated = written(HtmlReader(), PAGE, translate).decode()
    assert "<p><code>strlen()</code>, siehe<br>\n<a " in translated
    assert 'title="Ü&nbsp;&quot;&amp;\'"><em>&lt;Handbuch&gt;</em></a>' in translated
    assert "alt='Ü&nbsp;\"&amp;&#39;'" in translated
    assert "<title>Ü&nbsp;\"&amp;'</title>" in translated
    assert '<input type=submit value="Send">' in translated
    assert 'document.write("<b>no</b>")' in translated


def test_bytes_outside_texts_do_not_change() -> None:
    assert written(HtmlReader(), PAGE, identity) == PAGE
    for noise in ("<b>&amp;-->", "\"'</p>", "</title></textarea>", "ß日本"):
        check_html(PAGE, noise, Random(0))


@given(soups(), NOISE, st.integers(0, 99))
@example(b"<body><table translate=no><tr title='A b'>", "", 0)
@settings(max_examples=150)
def test_random_tag_soup(document: bytes, noise: str, seed: int) -> None:
    check_html(document, noise, Random(seed))


@given(trees(), NOISE, st.integers(0, 99))
@settings(max_examples=100)
def test_random_pages_without_errors(document: bytes, noise: str, seed: int) -> None:
    check_html(document, noise, Random(seed), is_tree=True)


def tokens(text: str, chunk: int) -> list[tuple[str, ...]]:
    """The tokens of a page that is read in chunks; adjacent texts are joined."""
    source = HtmlTokens()
    chunks = (text[begin : begin + chunk] for begin in range(0, len(text), chunk))
    every = [token for part in chunks for token in source.feed(part)] + source.close()
    return [
        (kind, "".join(token.raw for token in same), *rest)
        for (kind, *rest), same in groupby(every, lambda token: (token.kind, token.name))
    ]


@given(st.lists(soups(), max_size=4), st.integers(1, 200))
@settings(max_examples=50)
def test_a_tokenizer_that_often_begins_again_returns_the_same(
    parts: list[bytes], chunk: int
) -> None:
    text = b"".join(parts).decode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(html_tokens, "_MOST_KEPT_CHARACTERS", 0)
        often = tokens(text, chunk)
    assert often == tokens(text, len(text) + 1)


@given(st.sampled_from((b"", b"\xff\xfe", b"<meta charset=gbk>")), st.binary(max_size=60))
def test_random_bytes(head: bytes, document: bytes) -> None:
    check_document(HtmlReader, head + document, Random(0))


@pytest.mark.skipif(not _SHARED.is_dir(), reason="the real documents are not beside the project")
def test_inputs_of_tokenizer_tests() -> None:
    seen = 0
    for text in inputs(_SHARED):
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
    encoding = "cp1252" if "iso8859" in path.name else "utf-8"
    before, after = (
        html_tree(document, encoding) for document in (page, written(HtmlReader(), page, swapped))
    )
    assert ordered(after, str.lower) == ordered(before, str.lower)


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
    translated = written(HtmlReader(), document, lambda _: ("日ö", PlacedCodes()))
    lacking = "utf" not in encoding
    assert ("&#26085;ö" if lacking else "日ö").encode(encoding) in translated


def test_bytes_of_another_encoding_are_kept() -> None:
    document = b"<p title='\xff'>a \xff b</p>\xfe"
    assert texts(HtmlReader(), document) == ["\ufffd".join(("a ", " b"))]
    assert written(HtmlReader(), document, identity) == document


def test_texts_are_returned_before_the_end_is_read() -> None:
    reader = HtmlReader()
    assert any(isinstance(part, Segment) for part in reader.feed(PAGE + b"<p>more" * 300))


@pytest.mark.parametrize("open_tag", ["<b>", "<div>", "<span translate=no>", "<object>"])
def test_deeply_nested_elements(open_tag: str) -> None:
    document = (open_tag * 5000 + "text").encode()
    assert written(HtmlReader(), document, identity) == document


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<p translate=no>a<div>B</div>", ["B"]),
        ("<p translate=no><b>a<div>B</div>", ["B"]),
        ("<p translate=no>a<x-y>b</x-y>c</p>D", ["D"]),
        ("<div translate=no><table><td></div>a</table></div>B", ["B"]),
        ("<span translate=no>a<div>b</span>c</div></span>D", ["D"]),
        ("<i translate=no>a<p>b</i>C</p>D", ["C", "D"]),
        ("<p><b translate=no>a</p><p>b</b>C", ["C"]),
        ("<table translate=no>A<tr><td>b</table>C", ["A", "C"]),
        ("<ul><li translate=no>a<ul><li>b</ul><li>C", ["C"]),
        ("<table><tr translate=no><td>a<tr><td>B", ["B"]),
        ("<b translate=no>a<i translate=yes>B</i>c</b>D", ["B", "D"]),
        ("<p>Press <kbd>x</p><p>C", ["Press", "C"]),
        ("<svg><g>a<p>B", ["B"]),
        ("<svg><desc>A<![CDATA[ > </svg><p>a ]]></desc></svg>B", ["B"]),
        ("<xmp>a &amp; <b></xmp>B", ["B"]),
        ("<a href=1>A<a href=2>B</a>C", ["A", "B", "C"]),
        ("<p><a>A</p><a>B</a>C", ["A", "B", "C"]),
        ("a\0b", ["ab"]),
        ("<p>a&#13;b", ["a\rb"]),
        ("<a class=notranslate><code>a<a>b</a></code>C", ["C"]),
        ("a<a>b<html>c<a>d</a>e", ["b", "c", "d", "e"]),
        ("<svg><desc><![CDATA[></g]]><b>a</b></desc></svg>B", ["B"]),
        ("<a>A<math><a></a><b>B<a>C</a>D", ["A", "B", "C", "D"]),
        ("<svg><a>a</svg>B", ["B"]),
        ("A<svg><svg><code><b title='b'>c", ["A"]),
        ("<svg><text>A<g>B</svg>C<p>D", ["A", "B", "C", "D"]),
        ("<svg><text>A<a>B<p>C", ["A", "B", "C"]),
        ("<svg translate=no><text>a</text></svg><svg><text translate=no>b</text></svg>C", ["C"]),
        ("<math><mtext>a</mtext><title>b</title></math>C", ["C"]),
        ("<svg><style>a</style><text>B<script>c</script>D</text></svg>", ["B D"]),
        ("<img alt='a\r\nb'>C", ["C"]),
        ("<code><a></code><code><a>a</code>B", ["B"]),
        ("<pre>a\rb</pre>", ["a\nb"]),
    ],
)
def test_translatable_texts_are_found(page: str, expected: list[str]) -> None:
    """Elements have the boundaries that browsers find, whether they are closed or not."""
    assert texts(HtmlReader(), f"<body>{page}".encode())[-len(expected) :] == expected
    check_html(f"<body>{page}".encode(), "<b>", Random(0))


def test_labels_of_pictures_are_texts() -> None:
    """As in a file of SVG; each line at a position of its own is a text."""
    page = (
        b"<p>Press <svg class=i><title>Open the door</title><path d='M0'/></svg> now.</p>"
        b"<svg viewBox='0 0 9 9'><g><text x=1>A <tspan fill=red>red</tspan> car</text></g>"
        b"<text><tspan x=0 dy='1em'>First &amp; last</tspan><tspan x=0 dy='1em'>Line</tspan></text>"
        b"<desc>A list</desc></svg>"
    )
    segments = [part for part in read(HtmlReader(), page) if isinstance(part, Segment)]
    labels = [label for segment in segments for label in (segment, *segment.attributes)]
    assert [label.text for label in labels] == [
        *("Press now.", "Open the door", "A red car", "First & last", "Line", "A list")
    ]
    upper = written(HtmlReader(), page, lambda part: (part.text.upper(), identity(part)[1]))
    assert b"<title>OPEN THE DOOR</title>" in upper
    assert b"<text x=1>A <tspan fill=red>RED</tspan> CAR</text>" in upper
    assert b"<tspan x=0 dy='1em'>FIRST &amp; LAST</tspan><tspan x=0 dy='1em'>LINE</tspan>" in upper


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ('<img b=c"alt="x y">', None),
        ("<img b=c\u00a0alt='x y'>", None),
        ("<img =alt='x y'>", None),
        ("<img \"alt='x y'>", None),
        ("<img alt=x>", '<img alt="a onerror=&quot;b">'),
        ("<img/ALT='x'/alt='y'>", "<img/ALT='a onerror=\"b'/alt='y'>"),
        ("<img alt\n=\n'x&copy=y'>", "<img alt\n=\n'a onerror=\"b'>"),
    ],
)
def test_attributes_are_parsed_as_in_browsers(tag: str, expected: str | None) -> None:
    """A translation cannot end an attribute or add another one."""
    translated = written(HtmlReader(), tag.encode(), lambda _: ('a onerror="b', PlacedCodes()))
    assert translated.decode() == (expected or tag)


def test_ambiguous_references_in_attributes_are_text() -> None:
    (tag,) = read(HtmlReader(), b"x<img title='a&copy=b &copy; &notit; &#65'>y")[2:3]
    assert isinstance(tag, Segment)
    assert tag.attributes[0].text == "a&copy=b \u00a9 &notit; A"


@pytest.mark.parametrize("digits", [8, 9, 4300, 4301, 20_000])
def test_references_of_any_length_are_read(digits: int) -> None:
    for number, character in (("65".zfill(digits), "A"), ("9" * digits, "\ufffd")):
        page = f"<p title='a&#{number};b'>c&#{number};d".encode()
        assert texts(HtmlReader(), page) == [f"a{character}b", f"c{character}d"]


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<!-- <meta charset=koi8-r> --><p>\u00e9".encode(), "\u00e9"),
        (b"<meta name=a content='charset=koi8-r'><p>\xc3\xa9", "\u00e9"),
        (b"<script>" + b" " * 2000 + b"</script><meta charset=latin1><p>\xe9", "\u00e9"),
        (b"<p>" + b"<br>" * 500 + b"<meta charset=latin1>\xc3\xa9", "\u00e9"),
        (b"\xef\xbb\xbf<meta charset=koi8-r><p>\xc3\xa9", "\u00e9"),
        (b"<meta charset=utf-7><p>+ADw-b", "+ADw-b"),
        (b"<meta charset=unicode_escape><p>\\u003cb", "\\u003cb"),
        (b"<meta charset=utf-16><p>\xc3\xa9", "\u00e9"),
        (b"<meta charset=shift_jis><p>a\x87\x90\x81\xe0", "a\ufffd\ufffd\u2252"),
        ("\ufeff<p>a".encode("utf-16-le") + b"\x00\xd8b\x00\x41", "a\ufffdb"),
        (b"\xef\xbb\xbfA", "A"),
        (b"<p>a\xe2\x80 b\xff\xff c", "a\ufffd b\ufffd\ufffd c"),
        (b"<meta charset=shift_jis>a\xfa\x8b\x87\xef", "a\ufffd\ufffd\ufffd"),
    ],
)
def test_the_encoding_is_detected_as_in_browsers(page: bytes, expected: str) -> None:
    assert texts(HtmlReader(), page)[-1:] == [expected]
    check_document(HtmlReader, page, Random(0))


def test_an_unsupported_encoding_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^encoding 'iso2022_jp' is not supported: convert it"):
        read(HtmlReader(), b"<meta charset=iso-2022-jp>")


@pytest.mark.parametrize("translation", ["", " \n", "\u00a0"])
def test_a_blank_translation_keeps_the_text(translation: str) -> None:
    page = b"<p>One <b title='Two'>three</b> four"
    assert written(HtmlReader(), page, lambda _one: (translation, PlacedCodes())) == page


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ((), "a b c<i></i><b><u></u></b>"),
        (((0, 1),), "<i>a</i> b c<b><u></u></b>"),
        (((0, 1), (0, 1), (0, 1), (2, 3)), "<i>a</i><b><u></u></b> b c"),
        (((2, 9), (0, 3), (0, 9)), "<b><u>a b</u></b><i> c</i>"),
        (((-5, 1), (3, 2), (2, 1)), "<i>a</i> b<b><u></u></b> c"),
    ],
)
def test_codes_that_cannot_be_placed_are_moved(
    codes: tuple[tuple[int, int], ...], expected: str
) -> None:
    """Each code occurs once, within its parent, and the whole text is kept."""
    page = b"<p>x <i>y</i> <b>v <u>w</u></b> z"
    translated = written(HtmlReader(), page, lambda _: ("a b c", PlacedCodes(codes)))
    assert translated.decode() == f"<p>{expected}"


def test_a_translation_adds_no_space_at_the_ends() -> None:
    translated = written(
        HtmlReader(), b"<p>a<b> b</b></p>", lambda _: (" x y ", PlacedCodes(((2, 5),)))
    )
    assert translated == b"<p>x<b> y</b></p>"


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (
            "<nav><a>Home</a><a>New <b>books</b></a> <a>Help</a></nav>",
            ["Home", "New books", "Help"],
        ),
        ("<p><a><img src=x>Home</a> <span><a>New</a> <a>Help</a></span>", ["Home", "New", "Help"]),
        ("<p><button>Yes</button> <button>No</button>", ["Yes", "No"]),
        ("<x-l><x-i>One</x-i><x-i>Two</x-i></x-l>", ["One", "Two"]),
        ("<p><x-i>One</x-i> <x-i>more</x-i>", ["One more"]),
        ("<p>See <a>Home</a> <a>Help</a>", ["See Home Help"]),
        ("<p><a>Home</a> and <a>Help</a> <a>us</a>", ["Home and Help us"]),
        ("<p><a>Home</a>, <a>Help</a>", ["Home, Help"]),
        ("<p><a translate=no>Home</a> <a>Help</a>", ["Home Help"]),
    ],
)
def test_links_without_words_between_are_separate_texts(page: str, expected: list[str]) -> None:
    assert texts(HtmlReader(), page.encode()) == expected
    check_html(page.encode(), "<b>", Random(0))


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<i class='a material-icons'>home</i> Go home", "Go home"),
        ("Press <mat-icon>menu</mat-icon> here", "Press here"),
        ("<map><area alt='The sun'></map>", "The sun"),
    ],
)
def test_icons_and_areas_of_pictures(page: str, expected: str) -> None:
    [part] = [part for part in read(HtmlReader(), page.encode()) if isinstance(part, Segment)]
    assert part.text == expected
    check_html(page.encode(), "<b>", Random(0))


def test_a_translated_option_keeps_its_value() -> None:
    page = '<select><option>Red "x"<OPTION value=b> Blue<option selected> Big </option></select>'
    translated = written(HtmlReader(), page.encode(), swapped).decode()
    assert translated == (
        '<select><option value="Red &quot;x&quot;">rED "X"<OPTION value=b> bLUE'
        '<option value="Big" selected> bIG </option></select>'
    )
    check_html(page.encode(), "<b>", Random(0))


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("Open it<br>Close it", "Open it\u2028Close it"),
        ("Open it <br/>\n <BR>Close it", "Open it\u2028\u2028Close it"),
        ("<b>Open <i>it<br></i>Close</b> it", "Open it\u2028Close it"),
        ("Open<span><br></span>it", "Open\u2028it"),
        ("<pre>Open<br>it\nall</pre>", "Open\u2028it\nall"),
        ("<br>Open it<br>", "Open it"),
    ],
)
def test_a_line_break_ends_a_line(page: str, expected: str) -> None:
    assert texts(HtmlReader(), page.encode()) == [expected]
    check_html(page.encode(), "<b>", Random(0))


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("Open it<img src=a>Close it", "Open it Close it"),
        ("Open it.<input>Close it", "Open it. Close it"),
        ("Open it<i><u></u></i>Close it", "Open it Close it"),
        ("Open <img src=a> it", "Open it"),
        ("Open <img src=a>, it", "Open, it"),
        ("Open (<img src=a> it)", "Open (it)"),
        ("Open <img src=a><img src=b> it", "Open it"),
        ("Open <img src=a>it", "Open it"),
        ("<p>Donau<wbr>dampf<!-- c -->schiff", "Donaudampfschiff"),
        ("<p>Donau&shy;dampf\u00adschiff", "Donaudampfschiff"),
        ("The price<sup>1</sup> is <a href=x>high</a>.<a href=y><sup>12</sup></a> So", None),
        ("The price<sup>b</sup> is high.<sup><a href=x>ii</a></sup> <i>So</i>", None),
        ("the XXI<sup>e</sup>, the 2<sup>nd</sup> M<sup>me</sup>", "the XXIe, the 2nd Mme"),
        ("the car<sup>a</sup>s and car<i>s</i>", "the caras and cars"),
        ("5 km<sup>2</sup> of H<sub>2</sub>O", "5 km2 of H2O"),
    ],
)
def test_an_element_without_text_keeps_the_words_apart(page: str, expected: str | None) -> None:
    assert texts(HtmlReader(), page.encode()) == [expected or "The price is high. So"]
    check_html(page.encode(), "<b>", Random(0))


@pytest.mark.parametrize(
    ("page", "translation", "code", "expected"),
    [
        ("Hello <i></i> friend", "Hallo Freund", (5, 6), "Hallo <i></i> Freund"),
        ("Hello <i></i> friend", "Freund, hallo", (6, 6), "Freund <i></i>, hallo"),
        ("Hello <i></i>, friend", "Hallo, Freund", (5, 5), "Hallo <i></i>, Freund"),
        ("Hello <i></i>, friend", "Hallo Freund", (5, 5), "Hallo <i></i> Freund"),
        ("It has <i></i>kg now", "Jetzt hat es kg", (13, 13), "Jetzt hat es <i></i>kg"),
        ("door<i></i>window", "Tür Fenster", (3, 4), "Tür<i></i>Fenster"),
        ("Hello\n<i></i>  friend", "Hallo Freund", (5, 6), "Hallo\n<i></i>  Freund"),
        ("Open it<br>\nnow", "Auf\u2028jetzt", (3, 4), "Auf<br>\njetzt"),
        ("Open it<br>now", "Auf\u2028jetzt", (0, 0), "<br>Auf jetzt"),
    ],
)
def test_white_space_beside_an_element_is_as_in_the_source(
    page: str, translation: str, code: tuple[int, int], expected: str
) -> None:
    def translate(_segment: Segment) -> tuple[str, PlacedCodes]:
        return translation, PlacedCodes((code,))

    assert written(HtmlReader(), page.encode(), translate).decode() == expected


def test_unknown_elements_and_buttons_are_inline() -> None:
    page = b"<p>Press <ui>Go</ui>, (<x-a>now</x-a>) or <button>Stop</button>.</p>"
    assert texts(HtmlReader(), page) == ["Press Go, (now) or Stop."]
    page = b"<my-card><h1>Title</h1><p>Text</p></my-card>"
    assert texts(HtmlReader(), page) == ["Title", "Text"]


def test_tags_of_template_engines_are_not_escaped() -> None:
    page = "<p title='Hi <%= a %>'>Hi <%= b ? c : d %>, 1 < 2 &lt;%= x %&gt; it<% end %></p>"

    def translate(segment: Segment) -> tuple[str, PlacedCodes]:
        text = segment.text.swapcase()
        for begin, end in segment.markup.keep:
            text = text[:begin] + segment.text[begin:end] + text[end:]
        return text, PlacedCodes(tuple(code[:2] for code in segment.markup.codes))

    assert written(HtmlReader(), page.encode(), translate).decode() == (
        "<p title='hI <%= a %>'>hI <%= b ? c : d %>, 1 &lt; 2 &lt;%= X %&gt; IT<% end %></p>"
    )
    check_html(page.encode(), "<b>", Random(0))
