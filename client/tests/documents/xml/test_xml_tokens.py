"""XML tokens: their bytes are those of the document, their contents are those expat finds."""

from __future__ import annotations

import time
from xml.etree import ElementTree

import pytest
from dragoman_documents.xml.xml_tokens import MOST_TOKEN_BYTES, XmlToken, XmlTokens
from hypothesis import given
from hypothesis import strategies as st
from xml_documents import documents


def tokens_of(
    document: bytes, chunk_bytes: int = 1 << 20, encoding: str | None = None, **form: bool
) -> list[XmlToken]:
    """The tokens of a document that is read in chunks."""
    source = XmlTokens(encoding, **form)
    tokens = []
    for begin in range(0, len(document), chunk_bytes):
        tokens += source.feed(document[begin : begin + chunk_bytes])
    return tokens + source.close()


def whole(tokens: list[XmlToken]) -> list[tuple[object, ...]]:
    """The tokens, with adjacent texts joined."""
    joined: list[tuple[object, ...]] = []
    for token in tokens:
        written = (token.kind, token.name, token.attributes, token.text, token.raw)
        if token.kind == "text" and joined and joined[-1][0] == "text":
            _, _, _, text, raw = joined.pop()
            written = ("text", "", {}, f"{text}{token.text}", raw + token.raw)  # type: ignore[operator]
        joined.append(written)
    return joined


def test_every_kind_of_token_has_its_bytes() -> None:
    """Kinds include references, CDATA, comments, instructions and empty-element tags."""
    document = (
        b'<?xml version="1.0"?>\n<!DOCTYPE a SYSTEM "a.dtd" [<!-- <b> --><!ENTITY x "y">]>\n'
        b'<a k="&lt;">1 &amp; &#50;\r\n<b/>&x;&other;<![CDATA[c &amp; ]]>d<?e f?><!--g--></a>\n'
        b"<!--h-->"
    )
    tokens = [(t.kind, t.name or t.text, t.raw) for t in tokens_of(document)]
    assert tokens[0][0] == tokens[-1][0] == "other"
    inner = [token for token in tokens if token[0] != "other"]
    assert inner == [
        ("start", "a", b'<a k="&lt;">'),
        ("text", "1 & 2\n", b"1 &amp; &#50;\r\n"),
        ("start", "b", b"<b/>"),
        ("end", "b", b""),
        ("entity", "x", b"&x;"),
        ("entity", "other", b"&other;"),
        ("cdata", "c &amp; ", b"<![CDATA[c &amp; ]]>"),
        ("text", "d", b"d"),
        ("instruction", "e", b"<?e f?>"),
        ("comment", "g", b"<!--g-->"),
        ("end", "a", b"</a>"),
    ]


@given(document=documents(), chunk_bytes=st.integers(1, 50))
def test_tokens_do_not_depend_on_the_size_of_chunks(document: bytes, chunk_bytes: int) -> None:
    """The bytes of all tokens are those of the document."""
    tokens = tokens_of(document)
    assert b"".join(token.raw for token in tokens) == document
    assert whole(tokens_of(document, chunk_bytes)) == whole(tokens)


@given(document=documents())
def test_texts_and_attributes_are_those_of_elementtree(document: bytes) -> None:
    tree = ElementTree.fromstring(document)
    tokens = tokens_of(document)
    assert "".join(t.text for t in tokens if t.kind in ("text", "cdata")) == "".join(
        tree.itertext()
    )
    attributes = [token.attributes for token in tokens if token.kind == "start"]
    assert attributes[1:] == [element.attrib for element in tree.iter()][1:]


@pytest.mark.parametrize(
    ("python", "declared"),
    [
        ("utf-8", None),
        ("utf-8-sig", "utf-8"),
        ("utf-16", "utf-16"),
        ("utf-16-le", None),
        ("utf-16-be", "UTF-16"),
        ("iso8859-1", "ISO-8859-1"),
        ("cp1252", "windows-1252"),
    ],
)
@pytest.mark.parametrize("chunk_bytes", [1, 1000])
def test_encodings(python: str, declared: str | None, chunk_bytes: int) -> None:
    """Offsets count bytes in every encoding, and the name of the encoding is known."""
    declaration = f'<?xml version="1.0" encoding="{declared}"?>' if declared else ""
    document = f"{declaration}<a>é<b>ü</b></a>".encode(python)
    source = XmlTokens()
    tokens = []
    for begin in range(0, len(document), chunk_bytes):
        tokens += source.feed(document[begin : begin + chunk_bytes])
    tokens += source.close()
    assert b"".join(token.raw for token in tokens) == document
    assert [t.text for t in tokens if t.kind == "text"] == ["é", "ü"]
    assert "é<b>".encode(source.encoding) in document


def test_a_given_encoding_takes_precedence() -> None:
    """An encoding may be given by the header of a message, for example."""
    document = '<?xml version="1.0" encoding="utf-8"?><a>é</a>'.encode("latin-1")
    assert tokens_of(document, encoding="ISO-8859-1")[2].text == "é"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (b"<a>\n<b></a>", "line 2, column 6: mismatched tag"),
        (b"<a>x</a>y", "line 1, column 9: junk after document element"),
        (b"<a", "line 1, column 1: unclosed token"),
        (b"", "line 1, column 1: no element found"),
        (b"<a>x &b; y</a>", "line 1, column 6: undefined entity"),
        (
            b'<!DOCTYPE a [<!ENTITY b "x">\n<!ENTITY c "&b;&b;&b;">]><a>&c;</a>',
            "line 2, column 12: entity c is made of other entities: write its text in full",
        ),
        (
            b'<!DOCTYPE a [\n<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>',
            "line 2, column 39: entity b is in another file, and none is fetched: remove it",
        ),
        (
            b'<?xml version="1.0" encoding="euc-jp"?><a/>',
            "line 1, column 31: encoding 'euc-jp' is not supported: convert the document to UTF-8",
        ),
        (
            b'<?xml version="1.0" encoding="none"?><a/>',
            "line 1, column 31: encoding 'none' is not supported: convert the document to UTF-8",
        ),
    ],
)
def test_invalid_documents_are_refused(document: bytes, message: str) -> None:
    """The message is one line, which names the position."""
    with pytest.raises(ValueError) as error:  # noqa: PT011  the whole message is compared
        tokens_of(document)
    assert str(error.value) == message


@pytest.mark.parametrize("chunk_bytes", [1 << 14, 1 << 20, 1 << 26])
def test_a_huge_attribute_is_refused_early(chunk_bytes: int) -> None:
    """A huge attribute is neither buffered nor read repeatedly."""
    begun = time.monotonic()
    with pytest.raises(ValueError, match="more than 8388608 bytes"):
        tokens_of(b'<a b="' + b"x" * (6 * MOST_TOKEN_BYTES) + b'"/>', chunk_bytes)
    assert time.monotonic() - begun < 5


def test_deep_nesting_causes_no_recursion() -> None:
    """Python allows a recursion of a thousand."""
    document = b"<a>" * 20_000 + b"x" + b"</a>" * 20_000
    assert len(tokens_of(document, 1 << 16)) == 40_001


@pytest.mark.parametrize(
    ("fragment", "kinds"),
    [(b"", []), (b"a <b>c</b> d", ["text", "start", "text", "end", "text"]), (b"<!--a-->", None)],
)
def test_fragments(fragment: bytes, kinds: list[str] | None) -> None:
    """A text with elements is not a document, but can be read."""
    tokens = tokens_of(fragment, is_fragment=True)
    assert b"".join(token.raw for token in tokens) == fragment
    assert [token.kind for token in tokens] == (["comment"] if kinds is None else kinds)


@pytest.mark.parametrize(
    ("fragment", "message"),
    [
        (b"a</_>", "line 1, column 7: "),
        (b"</_><_>", "line 1, column 5: "),
        (b"a\n</b>", "line 2, column 3: mismatched tag"),
        (b"a <b>", "line 1, column 8: mismatched tag"),
    ],
)
def test_fragments_cannot_close_outer_elements(fragment: bytes, message: str) -> None:
    """Positions in the message are relative to the fragment."""
    with pytest.raises(ValueError) as error:  # noqa: PT011  its begin is compared
        tokens_of(fragment, is_fragment=True)
    assert str(error.value).startswith(message)
