"""How text is written in HTML: in elements and in attributes."""

from __future__ import annotations

import html
import re

from dragoman_client.markup.segments import Spelling

_SPACES = re.compile(r"[ \t\n\f\r]+")
_UNWRITABLE = re.compile("[\0\ud800-\udfff]")
_IN_TEXT = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", 0xA0: "&nbsp;"}
_IN_ATTRIBUTE = {**_IN_TEXT, ord("\r"): "&#13;"}


def in_text(encoding: str, *, collapses: bool) -> Spelling:
    """Of text in an element.

    Args:
        encoding: of the document.
        collapses: spaces and line ends in a row are one space.
    """

    def read(written: str) -> str:
        # A reference stands for its character, which is no white space of the document's.
        text = _SPACES.sub(" ", written) if collapses else written.replace("\r\n", "\n")
        return _readable(html.unescape(text))

    def write(text: str) -> bytes:
        escaped = _readable(text).translate(_IN_TEXT)
        return re.sub(r"\r(?!\n)", "&#13;", escaped).encode(encoding, "xmlcharrefreplace")

    return Spelling(encoding, read, write)


def in_attribute(encoding: str, quote: str) -> Spelling:
    """Of an attribute's value between quotes of one kind."""
    table = {**_IN_ATTRIBUTE, ord(quote): "&quot;" if quote == '"' else "&#39;"}

    def read(written: str) -> str:
        return _readable(html.unescape(written.replace("\r\n", "\n")))

    def write(text: str) -> bytes:
        return _readable(text).translate(table).encode(encoding, "xmlcharrefreplace")

    return Spelling(encoding, read, write)


def _readable(text: str) -> str:
    """Text without what no document can have: NUL, and bytes that are not of its encoding."""
    return _UNWRITABLE.sub("\ufffd", text)
