"""Readers of documents need little memory for any input."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from dragoman_documents.core.pieces import MOST_TEXT_CHARACTERS
from dragoman_documents.core.segments import Segment
from dragoman_documents.html.html_reader import HtmlReader
from dragoman_documents.xml.xml_reader import XmlReader
from translated_documents import Reader, identity, read, written

_LONG = 50 << 20
_BOMB = b"".join(
    b'<!ENTITY e%d "%s">' % (index, b"&e%d;" % (index - 1) * 10 if index else b"ha")
    for index in range(20)
)


def translated(kind: str, size: int) -> dict[str, int]:
    """Measurements of a document's translation in a separate process."""
    program = Path(__file__).parents[2] / "page_memory.py"
    command = [sys.executable, str(program), kind, str(size)]
    done = subprocess.run(command, capture_output=True, check=True, timeout=120)
    measured: dict[str, int] = json.loads(done.stdout)
    return measured


@pytest.mark.parametrize(("kind", "small_mib"), [("html", 1), ("xml", 3)])
def test_memory_does_not_grow_with_a_document(kind: str, small_mib: int) -> None:
    """The first bytes are written before half of the document is read."""
    small, large = translated(kind, small_mib << 20), translated(kind, small_mib + 3 << 20)
    assert large["written"] == large["read"] > small["read"] + (2 << 20)
    assert large["grown_kib"] < small["grown_kib"] + (5 << 9) < 12 << 10
    assert large["read_before_first"] < large["read"] / 2


@pytest.mark.parametrize("name", ["a", "para", "emphasis", "footnote", "screen"])
def test_deep_nesting_causes_no_recursion(name: str) -> None:
    """Python allows a recursion of a thousand."""
    begin, end = f"<{name}>".encode(), f"</{name}>".encode()
    document = b"<article>" + begin * 5000 + b"Text" + end * 5000 + b"</article>"
    assert written(XmlReader(), document, identity) == document


@pytest.mark.parametrize(
    ("make", "message"),
    [
        # Made in the test: every process that collects tests would otherwise hold them.
        (
            lambda: b"<p>a</p><a title='" + b"x" * _LONG,
            "a tag, comment, script or text without a tag of",
        ),
        (
            lambda: b"<p>" + b"x" * _LONG,
            "a tag, comment, script or text without a tag of more than",
        ),
        (
            lambda: b"<?xml version='1.0'?><a b='" + b"x" * _LONG + b"'/>",
            "a tag, comment or CDATA section",
        ),
        (
            lambda: b"<!DOCTYPE a [" + _BOMB + b"]><a>&e19;</a>",
            "entity e1 is made of other entities",
        ),
        (
            lambda: (
                b'<!DOCTYPE a [<!ENTITY b "'
                + b"x" * (1 << 20)
                + b'">]><a b="'
                + b"&b;" * 1000
                + b'"/>'
            ),
            "amplification factor",
        ),
        (lambda: b'<!DOCTYPE a [<!ENTITY % b SYSTEM "b">%b;]><a/>', "entity b is in another file"),
    ],
    ids=["attribute", "text", "XML attribute", "bomb", "bomb in an attribute", "external"],
)
def test_input_that_needs_too_much_memory_is_refused(
    make: Callable[[], bytes], message: str
) -> None:
    """The message is one line."""
    document = make()
    reader = XmlReader() if document.startswith((b"<?xml", b"<!DOCTYPE")) else HtmlReader()
    with pytest.raises(ValueError, match=message) as caught:
        read(reader, document)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("open_reader", "begin", "end"),
    [
        (XmlReader, b"<r>", b"</r>"),
        (HtmlReader, b"<p>", b""),
        (XmlReader, b"<r><![CDATA[", b"]]></r>"),
    ],
)
@pytest.mark.parametrize("text", [b"x", b"a &amp; b; ", b"&lt;a"])
def test_a_long_text_is_split_independently_of_chunks(
    open_reader: Callable[[], Reader], begin: bytes, end: bytes, text: bytes
) -> None:
    """A long text is split at the same positions for every size of chunks, not in a reference."""
    document = begin + text * (2 * MOST_TEXT_CHARACTERS // len(text)) + end
    parts = [part.text for part in read(open_reader(), document) if isinstance(part, Segment)]
    assert max(map(len, parts)) <= MOST_TEXT_CHARACTERS
    assert written(open_reader(), document, identity) == document
    for chunk in (1000, 77_777, len(document)):
        again = read(open_reader(), document, chunk)
        assert [part.text for part in again if isinstance(part, Segment)] == parts
