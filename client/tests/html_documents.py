"""HTML for tests: random sequences of tags and texts, and damaged real pages."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from hypothesis import strategies as st

_INLINE = ("a", "b", "i", "span", "code", "nobr", "kbd", "font", "u", "label", "ruby", "rt", "x-y")
_BLOCKS = (
    *("p", "div", "ul", "li", "dl", "dt", "dd", "h1", "h2", "pre", "table", "tr", "td", "th"),
    *("tbody", "caption", "colgroup", "tfoot", "button", "form", "section", "object"),
    *("title", "textarea", "video", "svg", "math", "template"),
)
_ATTRIBUTES = (
    *("", "", "", ' href="x?a=1&copy=2"', " title='A b'", ' title="One &amp; c"', " translate=no"),
    *(' class="x notranslate"', ' k=c"title="a b"', ' "title="a b"'),
    *(" title=unquoted", " TITLE='a' title='b'", "/title='a b'/", " = title='q'"),
)
_VOID = (
    *("br", "img alt='A cat'", "input", "input type=button value='Go on'"),
    *("wbr", "hr", "input type=hidden"),
)
_TEXTS = (
    *("text ", "One. ", "A &amp; b", "&nbsp;", "&lt;x&gt;"),
    *("\r\n", " ", "a&copy=b", "&notit;", "é"),
    *("日本 ", "<", "&", "\0", "\f", "\ufeff", "&#0;", "&#xD800;x", "]]>", "</>", "-->"),
)
_OTHER = (
    *("<html>", "<head>", "<body>", "</html>", "</head>", "</body>", "<!-- c -->", "<!-->"),
    *("<!--->", "<? p ?>", "<!DOCTYPE html>", "</br>", "</p>", "<![CDATA[a > b]]>"),
    *("<script>if(a<b)</script>", "<style>b > i {}</style>", "<xmp><b> &amp; c</xmp>"),
    *("<iframe src=x>y</iframe>", "<svg><title>t</title><g/></svg>", "<textarea>t</textarea>"),
    *("<svg><desc><![CDATA[ > </svg><p>d ]]></desc></svg>", "<math><mi>x</mi></math>", "<b/>"),
    *("<select><optgroup label='A b'><option>C d<option>E</select>", "<select><option>F <input> g"),
)
_BEGINS = ("<body>", "<!DOCTYPE html><body>", "<!DOCTYPE html><title>T</title>", "")
_PART_BYTES = 3000
_NAMES = st.sampled_from(_INLINE + _INLINE + _BLOCKS)


def _pieces() -> st.SearchStrategy[str]:
    start = st.tuples(_NAMES, st.sampled_from(_ATTRIBUTES)).map("<{0[0]}{0[1]}>".format)
    void = st.sampled_from(_VOID).map("<{}>".format)
    end = _NAMES.map("</{}>".format)
    text = st.sampled_from(_TEXTS)
    return st.one_of(start, end, start, end, void, text, text, st.sampled_from(_OTHER))


@st.composite
def soups(draw: st.DrawFn, most: int = 20) -> bytes:
    """A random sequence of tags, texts and other markup."""
    pieces = draw(st.lists(_pieces(), max_size=most))
    return (draw(st.sampled_from(_BEGINS)) + "".join(pieces)).encode()


@st.composite
def trees(draw: st.DrawFn) -> bytes:
    """A page with correctly nested elements."""
    return f"<!DOCTYPE html><body>{draw(_flow())}</body>".encode()


_STATES = st.sampled_from(("", "", "", ' translate="no"', " translate=yes", " class=notranslate"))


@st.composite
def _flow(draw: st.DrawFn, depth: int = 3) -> str:
    """Block elements with text and inline elements in them."""
    elements = []
    for _ in range(draw(st.integers(0, 3))):
        name = draw(st.sampled_from(("div", "p", "ul", "table", "h2", "x-z", "button")))
        inner = draw(_phrasing())
        if depth and name == "div":
            inner = draw(_flow(depth - 1))
        elif name == "ul":
            inner = "".join(f"<li{draw(_STATES)}>{draw(_phrasing())}" for _ in range(2))
        elif name == "table":
            inner = "".join(f"<tr><td{draw(_STATES)}>{draw(_phrasing())}" for _ in range(2))
        elements.append(f"<{name}{draw(_STATES)} title='A b'>{inner}</{name}>")
    return "".join(elements)


@st.composite
def _phrasing(draw: st.DrawFn, depth: int = 3) -> str:
    parts = []
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(("text", "text", "br", "img", "comment", "element")))
        if kind == "element" and depth:
            name = draw(st.sampled_from(("b", "i", "span", "code", "kbd", "em", "q")))
            inner = draw(_phrasing(depth - 1))
            parts.append(f"<{name}{draw(_STATES)}>{inner}</{name}>")
        else:
            parts.append(
                {"br": "<br>", "img": "<img alt='A b'>", "comment": "<!-- C d -->"}.get(
                    kind, "Text and more. "
                )
            )
    return "".join(parts)


def pages(folder: Path) -> list[bytes]:
    """Real pages in UTF-8, with `noscript` renamed: html5lib parses it as if scripts were off."""
    paths = (path for path in sorted(folder.glob("*")) if "iso8859" not in path.name)
    return [path.read_bytes().replace(b"noscript", b"x-script") for path in paths]


@st.composite
def damaged(draw: st.DrawFn, documents: Sequence[bytes]) -> bytes:
    """A part of a real document with random deletions, repetitions and replacements."""
    document = draw(st.sampled_from(documents))
    begin = draw(st.integers(0, max(0, len(document) - _PART_BYTES)))
    part = document[begin : begin + _PART_BYTES] if draw(st.integers(0, 9)) else document[: 1 << 15]
    for _ in range(draw(st.integers(0, 4))):
        at, size = draw(st.integers(0, len(part))), draw(st.integers(0, 30))
        piece = draw(
            st.one_of(st.just(b""), st.just(part[at : at + size] * 2), _pieces().map(str.encode))
        )
        part = part[:at] + piece + part[at + size :]
    return part


def inputs(folder: Path) -> Iterator[str]:
    """The inputs of html5lib's tokenizer tests, which are stored with the real documents."""
    for path in sorted((folder / "html5lib-tokenizer").glob("*.test*")):
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        for cases in json.loads(content).values():
            for case in cases:
                text = case["input"]
                if case.get("doubleEscaped"):
                    text = text.encode("latin-1", "backslashreplace").decode("unicode_escape")
                yield text
