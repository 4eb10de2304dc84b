"""XML documents for tests: templates of formats, and random content."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape, quoteattr

from hypothesis import strategies as st

_NAMES = ("a", "b", "para", "x:y", "i", "br")
_STATES = ("", "", "", ' translate="no"', ' translate="yes"', ' xml:space="preserve"')
_FORMATS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "docbook": (
        '<!DOCTYPE article [<!ENTITY e "E f"><!ATTLIST para role CDATA "x">]>'
        "<article><title>T</title><para>{}</para><para>{}</para></article>",
        ("link", "emphasis", "function", "footnote", "para", "screen", "indexterm", "x:y"),
    ),
    "dita": ("<topic><p>{}</p><p>{}</p></topic>", ("b", "xref", "fn", "codeph", "image", "p")),
    "android": (
        "<resources><string name='a'>{}</string><plurals name='b'><item quantity='one'>{}</item>"
        "</plurals><string name='c' translatable='false'>Not this</string></resources>",
        ("b", "x:g", "i", "annotation"),
    ),
    "resx": (
        "<root><resheader name='m'><value>text/microsoft-resx</value></resheader>"
        "<data name='a'><value>{}</value></data><data name='b'><value>{}</value></data></root>",
        ("b",),
    ),
    "svg": (
        "<svg xmlns='http://www.w3.org/2000/svg'><text>{}</text><g><title>{}</title></g></svg>",
        ("tspan", "a", "textPath"),
    ),
    "xhtml": (
        "<html xmlns='http://www.w3.org/1999/xhtml'><body><p>{}</p><div>{}</div></body></html>",
        ("b", "a", "code", "div", "p", "span", "script", "svg", "br"),
    ),
}
_BILINGUAL: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "xliff-1": (
        "<xliff version='1.2' xmlns='urn:oasis:names:tc:xliff:document:1.2'><file><body>"
        "<trans-unit id='1'><source>{}</source></trans-unit><trans-unit id='2'>\n"
        "<source xml:space='preserve'>{}</source>\n<target state=\"new\" a=' state=\"x\"'/>"
        "</trans-unit></body></file></xliff>",
        ("g", "x", "bx", "ex", "bpt", "ept", "ph", "mrk"),
    ),
    "xliff-2": (
        "<q:xliff version='2.0' xmlns:q='urn:oasis:names:tc:xliff:document:2.0' srcLang='en' "
        "trgLang='de'><q:file><q:unit><q:segment><q:source xmlns:z='z'>{}</q:source></q:segment>"
        "<q:segment><q:source>{}</q:source></q:segment></q:unit></q:file></q:xliff>",
        ("q:pc", "q:ph", "q:sc", "q:ec", "q:sm", "q:em", "q:mrk"),
    ),
    "ts": (
        "<TS version='2.1' language='de'><context><message><source>{}</source><translation "
        "type='unfinished'></translation></message><message numerus='yes'><source>{}</source>"
        "<translation type='unfinished'><numerusform/><numerusform></numerusform></translation>"
        "</message></context></TS>",
        ("byte",),
    ),
    "tmx": (
        "<tmx version='1.4'><header srclang='en'/><body><tu><tuv xml:lang='en'><seg>{}</seg></tuv>"
        "</tu><tu><tuv xml:lang='en'><seg>{}</seg></tuv></tu></body></tmx>",
        ("hi", "bpt", "ept", "ph"),
    ),
}
_WORDS = ("Word ", " and more", "%1$s ", "{x} ", "&lt;b>", "&lt;/b&gt; ", "\\n", "\\'")
_ENCODINGS = ("utf-8", "utf-8", "utf-8", "utf-16", "iso-8859-1", "windows-1251", "us-ascii")
_TEXTS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\ufffe\uffff")
    | st.sampled_from(" \n\t<&]>\"'"),
    max_size=12,
)


@st.composite
def _pieces(draw: st.DrawFn, depth: int = 3, names: Sequence[str] = _NAMES) -> str:
    """Random content of an element."""
    kinds = ["text", "reference", "cdata", "comment", "instruction", "empty"]
    written = []
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from([*kinds, "element", "element"] if depth else kinds))
        if kind == "text":
            written.append(escape(draw(_TEXTS)))
        elif kind == "reference":
            written.append(draw(st.sampled_from(["&amp;", "&#65;", "&#x1F600;", "&quot;", "\r\n"])))
        elif kind == "cdata":
            written.append(f"<![CDATA[{draw(_TEXTS).replace(']]>', '')}]]>")
        elif kind == "comment":
            written.append(draw(st.sampled_from(["<!---->", "<!-- <b>&amp; -->"])))
        elif kind == "instruction":
            written.append("<?p x > y?>")
        else:
            name = draw(st.sampled_from(names))
            attribute = f" k={quoteattr(draw(_TEXTS))}" if draw(st.booleans()) else ""
            if names is not _NAMES:
                attribute += draw(st.sampled_from(_STATES)) + f' id="{draw(st.integers(1, 3))}"'
            if kind == "empty":
                written.append(f"<{name}{attribute}/>")
            else:
                written.append(f"<{name}{attribute} >{draw(_pieces(depth - 1, names))}</{name}\n>")
    return "".join(written)


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """A random well-formed document."""
    declaration = draw(st.sampled_from(["", '<?xml version="1.0"?>\n', "\ufeff"]))
    return f'{declaration}<root xmlns:x="u">{draw(_pieces())}</root>\n'.encode()


@st.composite
def _documents_of(draw: st.DrawFn, formats: Mapping[str, tuple[str, tuple[str, ...]]]) -> bytes:
    form, names = formats[draw(st.sampled_from(sorted(formats)))]
    whole = form.format(*(draw(_texts(names)) for _ in range(2)))
    whole = re.sub(r"<([\w:]+)", r'<\1 xmlns:x="u"', whole, count=1)
    encoding = draw(st.sampled_from(_ENCODINGS))
    declaration = f'<?xml version="1.0" encoding="{encoding}"?>\n' if encoding != "utf-8" else ""
    return (declaration + whole).encode(encoding, "xmlcharrefreplace")


@st.composite
def _texts(draw: st.DrawFn, names: Sequence[str]) -> str:
    """Random words, and elements of a format."""
    word = st.sampled_from(
        ("Word ", " and more", "%1$s ", "{x} ", "&lt;b>", "&lt;/b&gt; ", "\\n", "\\'")
    )
    parts = draw(st.lists(word | _pieces(2, names), max_size=5))
    return "".join(parts)


def monolingual() -> st.SearchStrategy[bytes]:
    """Documents of formats in which a translation replaces its source."""
    return _documents_of(_FORMATS)


def bilingual() -> st.SearchStrategy[bytes]:
    """Documents of formats in which a translation is written beside its source."""
    return _documents_of(_BILINGUAL)
