"""HTML for tests: soup of tags and texts, as no one writes it, and real pages that are damaged."""

from __future__ import annotations

from hypothesis import strategies as st

_INLINE = ("a", "b", "i", "span", "code", "nobr", "kbd", "font", "u", "label", "ruby", "rt", "x-y")
_BLOCKS = (
    *("p", "div", "ul", "li", "dl", "dt", "dd", "h1", "h2", "pre", "table", "tr", "td", "th"),
    *("tbody", "caption", "colgroup", "tfoot", "button", "form", "section", "object"),
    *("title", "textarea", "video", "svg", "math", "template"),
)
_ATTRIBUTES = (
    *("", "", "", ' href="x?a=1&copy=2"', " title='A b'", ' title="One &amp; c"', " translate=no"),
    *(' translate="yes"', ' class="x notranslate"', ' k=c"title="a b"', ' "title="a b"'),
    *(" title=unquoted", " TITLE='a' title='b'", "/title='a b'/", " translate", " = title='q'"),
)
_VOID = ("br", "img alt='A cat'", "input", "input type=button value='Go on'", "wbr", "hr", "input type=hidden")
_TEXTS = (
    *("text ", "One. ", "A &amp; b", "&nbsp;", "&lt;x&gt;", "\r\n", " ", "a&copy=b", "&notit;", "é"),
    *("日本 ", "<", "&", "\0", "\f", "\ufeff", "&#0;", "x&#13;y", "&#xD800;x", "]]>", "</>", "-->"),
)
_OTHER = (
    *("<html>", "<head>", "<body>", "</html>", "</head>", "</body>", "<!-- c -->", "<!-->", "<!--->", "<? p ?>", "<!DOCTYPE html>", "</br>", "</p>", "<![CDATA[a > b]]>"),
    *("<script>if(a<b)</script>", "<style>b > i {}</style>", "<xmp><b> &amp; c</xmp>"),
    *("<iframe src=x>y</iframe>", "<svg><title>t</title><g/></svg>", "<textarea>t</textarea>"),
    *("<svg><desc><![CDATA[ > </svg><p>d ]]></desc></svg>", "<math><mi>x</mi></math>", "<b/>"),
    *("<select><optgroup label='A b'><option>C d<option>E</select>", "<select><option>F <input> g"),
)
_NAMES = st.sampled_from(_INLINE + _INLINE + _BLOCKS)


@st.composite
def soups(draw: st.DrawFn, most: int = 20) -> bytes:
    """Tags, texts and other things one after the other."""
    start = st.tuples(_NAMES, st.sampled_from(_ATTRIBUTES)).map("<{0[0]}{0[1]}>".format)
    void = st.tuples(st.sampled_from(_VOID)).map("<{0[0]}>".format)
    end = _NAMES.map("</{}>".format)
    piece = st.one_of(start, end, start, end, void, st.sampled_from(_TEXTS), st.sampled_from(_TEXTS), st.sampled_from(_OTHER))
    before = draw(st.sampled_from(("<body>", "<!DOCTYPE html><body>", "<!DOCTYPE html><title>T</title>", "")))
    return (before + "".join(draw(st.lists(piece, max_size=most)))).encode()


@st.composite
def trees(draw: st.DrawFn) -> bytes:
    """A page whose elements are closed where they belong."""
    return f"<!DOCTYPE html><body>{draw(_flow())}</body>".encode()


_STATES = st.sampled_from(("", "", "", ' translate="no"', " translate=yes", " class=notranslate"))


@st.composite
def _flow(draw: st.DrawFn, depth: int = 3) -> str:
    """Blocks with text and elements in them."""
    found = []
    for _ in range(draw(st.integers(0, 3))):
        name = draw(st.sampled_from(("div", "p", "ul", "table", "h2", "x-z", "button")))
        inner = draw(_phrasing())
        if depth and name == "div":
            inner = draw(_flow(depth - 1))
        elif name == "ul":
            inner = "".join(f"<li{draw(_STATES)}>{draw(_phrasing())}" for _ in range(2))
        elif name == "table":
            inner = "".join(f"<tr><td{draw(_STATES)}>{draw(_phrasing())}" for _ in range(2))
        found.append(f"<{name}{draw(_STATES)} title='A b'>{inner}</{name}>")
    return "".join(found)


@st.composite
def _phrasing(draw: st.DrawFn, depth: int = 3) -> str:
    found = []
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(("text", "text", "br", "img", "comment", "element")))
        if kind == "element" and depth:
            name = draw(st.sampled_from(("b", "i", "span", "code", "kbd", "em", "q")))
            inner = draw(_phrasing(depth - 1))
            found.append(f"<{name}{draw(_STATES)}>{inner}</{name}>")
        else:
            found.append({"br": "<br>", "img": "<img alt='A b'>", "comment": "<!-- C d -->"}.get(kind, "Text and more. "))
    return "".join(found)
