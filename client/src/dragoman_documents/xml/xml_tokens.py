"""Splits XML into tokens with their bytes; concatenated, these bytes are the document.

Expat parses the document and refuses one that is not well-formed. Nothing is fetched, and no entity
is expanded in text: a reference to an entity is a separate token.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from xml.parsers import expat

from dragoman_documents.core.encodings import codec_name, is_single_byte

MOST_TOKEN_BYTES = 1 << 23
"""A longer tag, comment or CDATA section is refused, because it is kept in memory."""

_TOO_LONG = f"a tag, comment or CDATA section of more than {MOST_TOKEN_BYTES} bytes"

Kind = Literal["start", "end", "text", "cdata", "entity", "comment", "instruction", "other"]

_UNICODE = frozenset(("utf-8", "utf-16", "utf-16-le", "utf-16-be"))
_PIECE_BYTES = 1 << 16
_REFERENCE = re.compile("&(?!#)")
_WRAPPER, _WRAPPER_END = b"<_>", b"</_>"
"""Tags around a fragment, because expat only parses whole documents."""
_DECLARATION = re.compile(rb"(?:\xef\xbb\xbf)?\s*<\?xml\s[^>]*\?>")
_TYPE = re.compile(rb"(?:\s|<!--.*?-->|<\?.*?\?>)*+<!DOCTYPE[^\[>]*+(?:\[.*?\]\s*)?>", re.DOTALL)
"""Both may precede a fragment; its tags are inserted after them."""


@dataclass(slots=True)
class XmlToken:
    """A token of a document.

    Attributes:
        kind: `text` is character data with its character references; `cdata` is a CDATA section;
            `entity` is a reference to another entity; `other` is the rest, such as the document
            type.
        name: name of an element or entity, or the target of an instruction.
        attributes: attributes of a start tag, including the defaults of the document type.
        text: unescaped content of text and CDATA, with line feeds as line ends; content of a
            comment or an instruction; text of an entity, if the document itself declares it.
        raw: the bytes of the token. The end of an empty-element tag has none.
    """

    kind: Kind
    name: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    text: str = ""
    raw: bytes = b""


class XmlTokens:
    """Reads a document in chunks.

    Long text may be split: adjacent tokens of the kind `text` belong together.

    Attributes:
        encoding: Python's name of the document's encoding; known with the first token.
    """

    def __init__(self, encoding: str | None = None, *, is_fragment: bool = False) -> None:
        """Prepare a parser.

        Args:
            encoding: encoding of the document; None: the declared one.
            is_fragment: whether the input is a fragment, in UTF-8, that need not be one element.

        Raises:
            ValueError: the encoding is not known.
        """
        self.encoding = "utf-8"
        if encoding is not None:
            self.encoding = encoding = _python_name(encoding)
        self._has_known_encoding = encoding is not None or is_fragment
        self._parser = expat.ParserCreate(encoding)
        self._unparsed = bytearray()
        """Input not yet passed to expat."""
        self._held = bytearray()
        """Input passed to expat, from the pending token on."""
        self._held_from = 0
        """Offset of its first byte."""
        self._pending: XmlToken | None = None
        """The last token; it ends where the next one begins."""
        self._texts: list[str] = []
        """Parts of its text, while more may follow."""
        self._is_open = False
        """Whether following text belongs to the pending token."""
        self._ready: list[XmlToken] = []
        self._entities: dict[str, str] = {}
        self._depth = 0
        self._is_in_cdata = False
        self._fragment = bytearray() if is_fragment else None
        """The fragment so far; it is parsed at its end."""
        self._declaration_bytes = b""
        self._wrapper = b""
        self._connect()

    def feed(self, chunk: bytes) -> list[XmlToken]:
        """Read the next chunk.

        Returns:
            The tokens whose end is now known.

        Raises:
            ValueError: the document is not well-formed, or declares an entity that is refused; the
                message says where.
        """
        if self._fragment is not None:
            self._fragment += chunk
            return []
        for begin in range(0, len(chunk), _PIECE_BYTES):
            self._unparsed += chunk[begin : begin + _PIECE_BYTES]
            # Expat rescans an unfinished token for each piece; growing pieces keep this linear.
            if len(self._unparsed) >= len(self._held):
                self._parse()
        return self._taken()

    def close(self) -> list[XmlToken]:
        """Returns the remaining tokens.

        Raises:
            ValueError: see `feed`; also if the document is incomplete.
        """
        tokens: list[XmlToken] = []
        fragment, self._fragment = self._fragment, None
        if fragment is not None:
            tokens = self.feed(self._wrapped(bytes(fragment)))
        end = _WRAPPER_END if self._wrapper else b""
        self._parse()
        self._parse(end, is_last=True)
        self._finish(self._held_from + len(self._held) - len(end))
        return tokens + self._taken()

    def _wrapped(self, fragment: bytes) -> bytes:
        """Parse what precedes a fragment, and the tag around it; returns the rest."""
        begin = 0
        if match := _DECLARATION.match(fragment):  # not parsed: it may name another encoding
            begin = match.end()
            self._declaration_bytes = match[0]
            self._ready.append(XmlToken("other", raw=match[0]))
        if match := _TYPE.match(fragment, begin):
            begin = match.end()
            self._unparsed += match[0]
            self._parse()
        self._parser.StartElementHandler = self._parser.DefaultHandler = None
        self._parser.Parse(_WRAPPER, False)
        self._wrapper, self._depth = _WRAPPER, 1
        self._connect()
        return fragment[begin:]

    def _taken(self) -> list[XmlToken]:
        ready, self._ready = self._ready, []
        return ready

    def _parse(self, end: bytes = b"", is_last: bool = False) -> None:
        chunk = bytes(self._unparsed) + end
        self._unparsed.clear()
        self._held += chunk
        try:
            self._parser.Parse(chunk, is_last)
        except expat.ExpatError as error:
            raise self._error(expat.ErrorString(error.code), error.lineno, error.offset) from None
        except ValueError as error:
            raise self._refusal(str(error)) from None
        if len(self._held) > MOST_TOKEN_BYTES:
            raise self._refusal(_TOO_LONG)
        # A short text continues across the chunk boundary, so that it is one token.
        self._is_open = self._is_in_cdata or (self._is_open and len(self._held) < _PIECE_BYTES)

    def _refusal(self, message: str) -> ValueError:
        parser = self._parser
        return self._error(message, parser.CurrentLineNumber, parser.CurrentColumnNumber)

    def _error(self, message: str, line: int, column: int) -> ValueError:
        if line == 1:
            column += len(self._declaration_bytes.rpartition(b"\n")[2]) - len(self._wrapper)
        line += self._declaration_bytes.count(b"\n")
        return ValueError(f"line {line}, column {column + 1}: {message}")

    def _connect(self) -> None:
        parser = self._parser
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.StartCdataSectionHandler = self._start_cdata
        parser.EndCdataSectionHandler = self._end_cdata
        parser.CommentHandler = self._comment
        parser.ProcessingInstructionHandler = self._instruction
        parser.XmlDeclHandler = self._declaration
        parser.EntityDeclHandler = self._declare_entity
        parser.DefaultHandler = self._default  # with it, expat does not expand entities in text

    def _begin(self, token: XmlToken) -> None:
        """Begin a token at expat's position; the pending one ends there."""
        self._finish(self._parser.CurrentByteIndex - len(self._wrapper))
        self._pending = token
        self._is_open = False

    def _finish(self, end: int) -> None:
        size = end - self._held_from
        token = self._pending
        if token is None:
            self.encoding = _utf_16(self._held) or self.encoding
            if not size:
                return
            token = XmlToken("other")  # a byte order mark
        if self._texts:
            token.text = "".join(self._texts)
            self._texts.clear()
        token.raw = bytes(self._held[:size])
        if size > MOST_TOKEN_BYTES and token.kind != "text":
            raise ValueError(_TOO_LONG)
        del self._held[:size]
        self._held_from = end
        self._pending = None
        self._ready.append(token)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        self._begin(XmlToken("start", name, attributes))

    def _end(self, name: str) -> None:
        self._depth -= 1
        if self._wrapper and not self._depth:
            return
        self._begin(XmlToken("end", name))

    def _text(self, text: str) -> None:
        if not self._is_open:
            self._begin(XmlToken("text"))
            self._is_open = True
        self._texts.append(text)

    def _start_cdata(self) -> None:
        self._begin(XmlToken("cdata"))
        self._is_open = self._is_in_cdata = True

    def _end_cdata(self) -> None:
        self._is_open = self._is_in_cdata = False

    def _comment(self, text: str) -> None:
        self._inside(XmlToken("comment", text=text))

    def _instruction(self, name: str, text: str) -> None:
        self._inside(XmlToken("instruction", name, text=text))

    def _declaration(self, _version: str, encoding: str | None, _standalone: int) -> None:
        self._inside(XmlToken("other"))
        if encoding and not self._has_known_encoding:
            self.encoding = _utf_16(self._held) or _python_name(encoding)

    def _declare_entity(
        self,
        name: str,
        is_parameter: bool,
        value: str | None,
        _base: str | None,
        _system: str | None,
        _public: str | None,
        notation: str | None,
    ) -> None:
        if value is None and notation is None:
            raise ValueError(f"entity {name} is in another file, and none is fetched: remove it")
        if value is not None and _REFERENCE.search(value):
            raise ValueError(f"entity {name} is made of other entities: write its text in full")
        if value is not None and not is_parameter:
            self._entities.setdefault(name, value)

    def _default(self, written: str) -> None:
        name = written[1:-1]
        self._inside(XmlToken("entity", name, text=self._entities.get(name, "")))

    def _inside(self, token: XmlToken) -> None:
        """Begin a token, or outside the root element one of the kind `other`."""
        if self._depth:
            self._begin(token)
        elif self._pending is None or self._pending.kind != "other":
            self._begin(XmlToken("other"))


def _python_name(encoding: str) -> str:
    """Raises `ValueError` if expat does not support an encoding with that name."""
    name = codec_name(encoding)
    if name is not None and (name in _UNICODE or is_single_byte(name)):
        return name
    raise ValueError(f"encoding {encoding[:40]!r} is not supported: convert the document to UTF-8")


def _utf_16(begin: bytes | bytearray) -> str | None:
    """Returns the byte order of a document that begins in UTF-16, as an encoding, or None."""
    for name in ("utf-16-le", "utf-16-be"):
        if begin.startswith(("\ufeff".encode(name), "<".encode(name))):
            return name
    return None
