"""Detects the encoding of a page like browsers do, and decodes it without losing a byte.

Source: https://html.spec.whatwg.org/multipage/parsing.html#determining-the-character-encoding
"""

from __future__ import annotations

import codecs
import re
from typing import Final

from dragoman_documents.core.encodings import codec_name, is_single_byte
from dragoman_documents.html import html_profile
from dragoman_documents.html.html_tokens import HtmlToken, HtmlTokens

_LEAST_BYTES: Final = 1024
"""At least this much of a page is searched, and then the rest of its head."""
_MOST_BYTES: Final = 1 << 16
_DEFAULT: Final = "utf-8"
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CHARSET: Final = re.compile(
    r"""charset[ \t\n\f\r]*=[ \t\n\f\r]*(?:"([^"]*)"|'([^']*)'|([^ \t\n\f\r;"']+))""", re.IGNORECASE
)
_READ_AS: Final = {
    "ascii": "cp1252",
    "big5": "big5hkscs",
    "euc_kr": "cp949",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "iso8859-1": "cp1252",
    "iso8859-11": "cp874",
    "iso8859-9": "cp1254",
    "shift_jis": "cp932",
    "tis-620": "cp874",
    "utf-16": "utf-16-le",
}
"""The encodings that browsers use instead of ones with fewer characters."""
_UNICODE: Final = frozenset(("utf-8", "utf-16-le", "utf-16-be"))
_MULTIBYTE: Final = frozenset(("big5hkscs", "cp932", "cp949", "euc_jp", "gb18030"))


def python_name(label: str) -> str:
    """Returns Python's name of the encoding that browsers use for a label.

    Raises:
        ValueError: the label is unknown, or text in the encoding cannot be replaced.
    """
    codec = _looked_up(label)
    name = _READ_AS.get(codec, codec)
    if name in _UNICODE or name in _MULTIBYTE or is_single_byte(name):
        return name
    raise ValueError(f"encoding {label!r} is not supported: convert it to UTF-8")


def errors_of(encoding: str) -> str:
    """Returns the error handler that reads and writes invalid bytes of an encoding."""
    return "surrogatepass" if encoding.startswith("utf-16") else "surrogateescape"


class EncodingSearch:
    """Finds the encoding of a page."""

    def __init__(self) -> None:
        """Start before the first byte."""
        self._tokens = HtmlTokens()
        self._begin = b""
        self._read = self._position = 0
        self._is_in_head = True

    def feed(self, chunk: bytes) -> str | None:
        """Read the next chunk.

        Returns:
            The encoding; None: it depends on the following bytes.

        Raises:
            ValueError: the page declares an encoding that is not supported.
        """
        self._begin += chunk[: _MOST_BYTES - len(self._begin)]
        if len(self._begin) < len(codecs.BOM_UTF8):
            return None
        encoding = next((name for mark, name in _MARKS if self._begin.startswith(mark)), None)
        return encoding or self._declared()

    def _declared(self) -> str | None:
        unread, self._read = self._begin[self._read :], len(self._begin)
        for token in self._tokens.feed(unread.decode("latin-1")):
            if self._position >= _LEAST_BYTES and not self._is_in_head:
                return _DEFAULT
            if token.name == "meta" and (encoding := _encoding_of(token)):
                return encoding
            self._position += len(token.raw)
            self._is_in_head &= token.kind != "start" or token.name in html_profile.IN_HEAD
        return _DEFAULT if self._read == _MOST_BYTES else None

    def close(self) -> str:
        """Returns the encoding of a page that ends here; raises like `feed`."""
        return self.feed(b"\n" * len(codecs.BOM_UTF8)) or _DEFAULT


class PageDecoder:
    """Decodes chunks so that encoding the text again gives the same bytes."""

    def __init__(self, encoding: str) -> None:
        """Begin before the first byte.

        Args:
            encoding: encoding of the page, from `python_name`.
        """
        self._encoding, self._errors = encoding, errors_of(encoding)
        self._decoder = codecs.getincrementaldecoder(encoding)(self._errors)

    @property
    def unread(self) -> bytes:
        """The first bytes of an incomplete character."""
        return self._decoder.getstate()[0]

    def decode(self, chunk: bytes) -> str:
        """Returns the complete characters."""
        if self._encoding not in _MULTIBYTE:
            return self._decoder.decode(chunk)
        before = self.unread
        text = self._decoder.decode(chunk)
        read = (before + chunk).removesuffix(self.unread)
        return text if text.encode(self._encoding, self._errors) == read else self._exact(read)

    def _exact(self, read: bytes) -> str:
        """Decodes, but keeps bytes whose characters would be encoded differently."""
        decoder = codecs.getincrementaldecoder(self._encoding)(self._errors)
        decoded, pending = [], b""
        for index in range(len(read)):
            pending += read[index : index + 1]
            if text := decoder.decode(read[index : index + 1]):
                held = decoder.getstate()[0]
                pending = pending.removesuffix(held)
                is_exact = text.encode(self._encoding, self._errors) == pending
                decoded.append(text if is_exact else pending.decode("ascii", self._errors))
                pending = held
        # Bytes that this decoder holds count as read; the other decoder continues after them.
        return "".join((*decoded, pending.decode("ascii", self._errors)))


def _looked_up(label: str) -> str:
    return codec_name(label.strip(" \t\n\f\r")) or ""


def _encoding_of(meta: HtmlToken) -> str | None:
    """Returns the encoding that a tag declares, if browsers know it."""
    attributes = html_profile.attributes(meta.raw)
    label = attributes["charset"][0] if "charset" in attributes else None
    if label is None and "content" in attributes:
        is_type = attributes.get("http-equiv", ("",))[0].lower() == "content-type"
        said = _CHARSET.search(attributes["content"][0]) if is_type else None
        label = said and next(filter(None, said.groups()), None)
    name = _looked_up(label or "")
    if name.startswith("iso2022"):  # browsers support it, but its bytes are ambiguous
        return python_name(name)
    try:
        encoding = python_name(label or "")
    except ValueError:
        return None
    # In UTF-16 the tag itself would be unreadable.
    return _DEFAULT if encoding.startswith("utf-16") else encoding
