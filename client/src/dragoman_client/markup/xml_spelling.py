"""How text is written in XML: in elements, attributes and CDATA sections."""

from __future__ import annotations

import codecs
import html.entities
import re
from collections.abc import Callable

from dragoman_client.markup.segments import Spelling

ATTRIBUTE = re.compile(r"""\s+([^\s=/>]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
"""An attribute of a tag; found from the tag's begin on, because a value may look like another."""
_REFERENCE = re.compile(r"&(?:#(\d+)|#x([0-9A-Fa-f]+)|(\w+));")
_SPACES = re.compile(r"[ \t\r\n]+")
_LINE_END = re.compile(r"\r\n?")
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What no document may contain, not even by reference."""

_IN_TEXT = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;"}
_IN_ATTRIBUTE = {
    **_IN_TEXT,
    ord("\t"): "&#9;",
    ord("\n"): "&#10;",
    ord("\r"): "&#13;",
}
_CDATA_ERRORS = "dragoman-cdata"

Change = Callable[[str], str]


def in_text(
    encoding: str, *, collapses: bool = False, decode: Change = str, encode: Change = str
) -> Spelling:
    """Of character data in an element.

    Args:
        encoding: of the document.
        collapses: spaces and line ends in a row are one space.
        decode: what a format makes of the text.
        encode: the reverse.
    """
    spaces = _one_space if collapses else _line_feeds

    def read(written: str) -> str:
        return decode(_REFERENCE.sub(_referenced, spaces(written)))

    def write(text: str) -> bytes:
        escaped = _allowed(encode(text)).translate(_IN_TEXT)
        return _without_returns(escaped).encode(encoding, "xmlcharrefreplace")

    return Spelling(encoding, read, write)


def in_attribute(encoding: str, quote: str) -> Spelling:
    """Of an attribute's value between quotes of one kind."""
    table = {**_IN_ATTRIBUTE, ord(quote): "&quot;" if quote == '"' else "&#39;"}

    def read(written: str) -> str:
        return _REFERENCE.sub(_referenced, re.sub(r"\r\n|[\t\r\n]", " ", written))

    def write(text: str) -> bytes:
        return _allowed(text).translate(table).encode(encoding, "xmlcharrefreplace")

    return Spelling(encoding, read, write)


def in_cdata(
    encoding: str, *, collapses: bool = False, decode: Change = str, encode: Change = str
) -> Spelling:
    """Of a CDATA section; see `in_text`. What it cannot hold stands between two of them."""
    spaces = _one_space if collapses else _line_feeds

    def read(written: str) -> str:
        return decode(spaces(written))

    def write(text: str) -> bytes:
        parted = _allowed(encode(text)).replace("]]>", "]]]]><![CDATA[>")
        return _without_returns(parted, "]]>&#13;<![CDATA[").encode(encoding, _CDATA_ERRORS)

    return Spelling(encoding, read, write)


def _without_returns(text: str, reference: str = "&#13;") -> str:
    """A carriage return that a reader would take for a line end is written as a reference."""
    return re.sub(r"\r(?!\n)", reference, text)


def _referenced(found: re.Match[str]) -> str:
    decimal, hexadecimal, name = found.groups()
    if name:  # also those of HTML, which many document types declare
        return html.entities.html5.get(f"{name};", found[0])
    return chr(int(decimal) if decimal else int(hexadecimal, 16))


def _one_space(written: str) -> str:
    return _SPACES.sub(" ", written)


def _line_feeds(written: str) -> str:
    return _LINE_END.sub("\n", written)


def _allowed(text: str) -> str:
    return _FORBIDDEN.sub("", text)


def _outside_cdata(error: UnicodeError) -> tuple[str, int]:
    """References, outside of the section, to characters that the encoding lacks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    references = "".join(f"&#{ord(character)};" for character in lacking)
    return f"]]>{references}<![CDATA[", error.end


codecs.register_error(_CDATA_ERRORS, _outside_cdata)
