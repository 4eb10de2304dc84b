"""The escaping of text in HTML: in elements and in attributes."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from html.entities import html5

from dragoman_documents.core.segments import Spelling
from dragoman_documents.html.html_encoding import errors_of

_SPACES = re.compile(r"[ \t\n\f\r]+")
_REFERENCE = re.compile(r"&(?:#[0-9]+;?|#[xX][0-9a-fA-F]+;?|([a-zA-Z][a-zA-Z0-9]*;?)(=?))")
_LONG_NUMBER = re.compile("(?<=&#)[0-9]{9,}+")
_LINE_END = re.compile(r"\r\n?")
_ESCAPED = re.compile("[\udc80-\udcff]+")
_UNWRITABLE = re.compile("[\0\ud800-\udfff]")
_IN_TEXT = {
    ord("&"): "&amp;",
    ord("<"): "&lt;",
    ord(">"): "&gt;",
    0xA0: "&nbsp;",
    0xFEFF: "&#xFEFF;",  # at the beginning of a page it would be a byte order mark
}


def in_text(encoding: str, *, collapses: bool, is_title: bool = False) -> Spelling:
    """Returns the spelling of text in an element.

    Args:
        encoding: encoding of the document.
        collapses: whether consecutive spaces and line ends are one space.
        is_title: whether it is the page's title, where browsers show NUL characters; elsewhere
            they ignore them.
    """

    def read(written: str) -> str:
        # Spaces are collapsed first: a reference to white space is not collapsed.
        text = _SPACES.sub(" ", written) if collapses else _LINE_END.sub("\n", written)
        return _readable(_unescaped(text if is_title else text.replace("\0", "")))

    def write(text: str) -> bytes:
        return _written(text, _IN_TEXT).encode(encoding, "xmlcharrefreplace")

    return Spelling(encoding, read, write, errors_of(encoding))


def in_attribute(encoding: str, quote: str) -> Spelling:
    """Returns the spelling of an attribute value.

    Args:
        encoding: encoding of the document.
        quote: the quote around the value; if empty, quotes are added when writing.
    """
    table = {**_IN_TEXT, ord(quote or '"'): "&#39;" if quote == "'" else "&quot;"}
    added = "" if quote else '"'

    def read(written: str) -> str:
        return _readable(_REFERENCE.sub(_referenced, _LINE_END.sub("\n", written)))

    def write(text: str) -> bytes:
        return f"{added}{_written(text, table)}{added}".encode(encoding, "xmlcharrefreplace")

    return Spelling(encoding, read, write, errors_of(encoding))


def _written(text: str, table: Mapping[int, str]) -> str:
    """Escapes text; a lone carriage return would be read as a line end."""
    return re.sub(r"\r(?!\n)", "&#13;", _readable(text).translate(table))


def _referenced(match: re.Match[str]) -> str:
    """Resolves a reference in an attribute; `&copy=` in URLs is not one."""
    name, equals = match.groups()
    is_known = name is None or (name in html5 and (name.endswith(";") or not equals))
    return _unescaped(match[0]) if is_known else match[0]


def _unescaped(text: str) -> str:
    """Resolves all references. Python does not read numbers of more than 4,300 digits."""
    # Eight digits are still no character.
    return html.unescape(_LONG_NUMBER.sub(lambda number: number[0].lstrip("0")[:8] or "0", text))


def _readable(text: str) -> str:
    """Replaces NUL and bytes that are not valid in the document's encoding."""
    return _UNWRITABLE.sub("\ufffd", _ESCAPED.sub(_replaced, text))


def _replaced(match: re.Match[str]) -> str:
    """Returns what browsers show for bytes that are not valid in the encoding."""
    return match[0].encode("ascii", "surrogateescape").decode("utf-8", "replace")
