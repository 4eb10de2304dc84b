"""XML documents for tests, written out and random."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from hypothesis import strategies as st

_NAMES = st.sampled_from(["a", "b", "para", "x:y", "i", "br"])
_TEXTS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\ufffe\uffff")
    | st.sampled_from(" \n\t<&]>\"'"),
    max_size=12,
)


@st.composite
def _pieces(draw: st.DrawFn, depth: int = 3) -> str:
    """Content of an element."""
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
            name = draw(_NAMES)
            attribute = f" k={quoteattr(draw(_TEXTS))}" if draw(st.booleans()) else ""
            if kind == "empty":
                written.append(f"<{name}{attribute}/>")
            else:
                written.append(f"<{name}{attribute} >{draw(_pieces(depth - 1))}</{name}\n>")
    return "".join(written)


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """A well-formed document."""
    declaration = draw(st.sampled_from(["", '<?xml version="1.0"?>\n', "\ufeff"]))
    return f'{declaration}<root xmlns:x="u">{draw(_pieces())}</root>\n'.encode()
