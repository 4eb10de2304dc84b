"""The escaping of text in XML: in elements, attributes and CDATA sections."""

from __future__ import annotations

import codecs
import html.entities
import re
from collections.abc import Callable

from dragoman_documents.core.segments import Spelling

ATTRIBUTE = re.compile(r"""(?<!\s)\s++([^\s=/>]++)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)')""")
"""An attribute of a tag; search from the beginning of the tag, since values may look like one."""
_REFERENCE = re.compile(r"&(?:#(\d+)|#x([0-9A-Fa-f]+)|(\w+));")
_SPACES = re.compile(r"[ \t\r\n]+")
_LINE_END = re.compile(r"\r\n?")
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no document may contain, not even as a reference."""

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
    """Returns the spelling of character data in an element.

    Args:
        encoding: encoding of the document.
        collapses: whether consecutive spaces and line ends are one space.
        decode: removes the format's own escapes.
        encode: the reverse of `decode`.
    """
    spaces = _one_space if collapses else _line_feeds

    def read(written: str) -> str:
        return decode(_REFERENCE.sub(_referenced, spaces(written)))

    def write(text: str) -> bytes:
        escaped = _allowed(encode(text)).translate(_IN_TEXT)
        return _without_returns(escaped).encode(encoding, "xmlcharrefreplace")

    return Spelling(encoding, read, write)


def in_attribute(encoding: str, quote: str) -> Spelling:
    """Returns the spelling of an attribute value in the given quotes."""
    table = {**_IN_ATTRIBUTE, ord(quote): "&quot;" if quote == '"' else "&#39;"}

    def read(written: str) -> str:
        return _REFERENCE.sub(_referenced, re.sub(r"\r\n|[\t\r\n]", " ", written))

    def write(text: str) -> bytes:
        return _allowed(text).translate(table).encode(encoding, "xmlcharrefreplace")

    return Spelling(encoding, read, write)


def in_cdata(
    encoding: str, *, collapses: bool = False, decode: Change = str, encode: Change = str
) -> Spelling:
    """Returns the spelling of a CDATA section; see `in_text`.

    Text that a section cannot contain is written between two sections.
    """
    spaces = _one_space if collapses else _line_feeds

    def read(written: str) -> str:
        return decode(spaces(written))

    def write(text: str) -> bytes:
        parted = _allowed(encode(text)).replace("]]>", "]]]]><![CDATA[>")
        return _without_returns(parted, "]]>&#13;<![CDATA[").encode(encoding, _CDATA_ERRORS)

    return Spelling(encoding, read, write)


def _without_returns(text: str, reference: str = "&#13;") -> str:
    """Writes carriage returns as references that a reader would take for line ends."""
    return re.sub(r"\r(?!\n)", reference, text)


def _referenced(match: re.Match[str]) -> str:
    decimal, hexadecimal, name = match.groups()
    if name:  # including HTML's entities, which many document types declare
        return html.entities.html5.get(f"{name};", match[0])
    return chr(int(decimal.lstrip("0") or "0") if decimal else int(hexadecimal, 16))


def _one_space(written: str) -> str:
    return _SPACES.sub(" ", written)


def _line_feeds(written: str) -> str:
    return _LINE_END.sub("\n", written)


def _allowed(text: str) -> str:
    return _FORBIDDEN.sub("", text)


def _outside_cdata(error: UnicodeError) -> tuple[str, int]:
    """Writes characters that the encoding lacks as references outside the section."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    references = "".join(f"&#{ord(character)};" for character in lacking)
    return f"]]>{references}<![CDATA[", error.end


codecs.register_error(_CDATA_ERRORS, _outside_cdata)
