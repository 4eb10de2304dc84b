"""XML as tokens with the bytes they are written in; joined, these bytes are the document.

Expat reads the document and refuses what is not well-formed. Nothing is fetched and no entity is
expanded in text: a reference to an entity is a token of its own.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from xml.parsers import expat

from dragoman_client.markup.encodings import is_single_byte

MOST_TOKEN_BYTES = 1 << 23
"""A longer tag, comment or CDATA section is refused, because it is held in memory."""

_TOO_LONG = f"a tag, comment or CDATA section of more than {MOST_TOKEN_BYTES} bytes"

Kind = Literal["start", "end", "text", "cdata", "entity", "comment", "instruction", "other"]

_UNICODE = frozenset(("utf-8", "utf-16", "utf-16-le", "utf-16-be"))
_PIECE_BYTES = 1 << 16
_REFERENCE = re.compile("&(?!#)")
_WRAPPER, _WRAPPER_END = b"<_>", b"</_>"
"""Stand around a fragment, because expat reads whole documents only."""


@dataclass(slots=True)
class XmlToken:
    """A piece of a document.

    Attributes:
        kind: `text` is character data with the references that stand for a character; `cdata` is a
            CDATA section; `entity` is a reference to another entity; `other` is the rest, such as
            the document type.
        name: of an element, an entity, or the target of an instruction.
        attributes: of a start tag, the defaults of the document type included.
        text: that text and CDATA stand for, with line feeds as line ends; content of a comment or
            an instruction; of an entity, if the document itself declares it.
        raw: the bytes it is written in. The end of an empty-element tag has none.
    """

    kind: Kind
    name: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    text: str = ""
    raw: bytes = b""


class XmlTokens:
    """Reads a document in chunks.

    Long text may be parted: neighbours of the kind `text` belong together.

    Attributes:
        encoding: of the document, as Python names it; known when the first token is.
    """

    def __init__(self, encoding: str | None = None, *, is_fragment: bool = False) -> None:
        """Prepare a parser.

        Args:
            encoding: that is known from elsewhere; None: the document says it.
            is_fragment: what is read, in UTF-8, need not be one element.

        Raises:
            ValueError: no such encoding.
        """
        self.encoding = "utf-8"
        if encoding is not None:
            self.encoding = encoding = _python_name(encoding)
        self._has_known_encoding = encoding is not None or is_fragment
        self._parser = expat.ParserCreate(encoding)
        self._unparsed = bytearray()
        """Read, but not given to expat."""
        self._held = bytearray()
        """Given to expat, from the pending token on."""
        self._held_from = 0
        """Offset of the first byte of it."""
        self._pending: XmlToken | None = None
        """The last token; it ends where the next one begins."""
        self._texts: list[str] = []
        """Parts of its text, as long as more may follow."""
        self._is_open = False
        """Whether text that follows belongs to the pending token."""
        self._ready: list[XmlToken] = []
        self._entities: dict[str, str] = {}
        self._depth = 0
        self._is_in_cdata = False
        self._wrapper = _WRAPPER if is_fragment else b""
        self._parser.Parse(self._wrapper, False)
        self._depth = len(self._wrapper) and 1
        self._connect()

    def feed(self, chunk: bytes) -> list[XmlToken]:
        """Read on.

        Returns:
            The tokens whose end is known now.

        Raises:
            ValueError: the document is not well-formed, or declares an entity that is refused; the
                message says where.
        """
        for begin in range(0, len(chunk), _PIECE_BYTES):
            self._unparsed += chunk[begin : begin + _PIECE_BYTES]
            # Expat reads an unfinished token anew with each piece: larger ones keep that linear.
            if len(self._unparsed) >= len(self._held):
                self._parse()
        return self._taken()

    def close(self) -> list[XmlToken]:
        """The tokens that are left.

        Raises:
            ValueError: as `feed`, or the document is not whole.
        """
        end = _WRAPPER_END if self._wrapper else b""
        self._parse()
        self._parse(end, is_last=True)
        self._finish(self._held_from + len(self._held) - len(end))
        return self._taken()

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
        # A short text goes on behind the border of a chunk, so that none is found in parts.
        self._is_open = self._is_in_cdata or (self._is_open and len(self._held) < _PIECE_BYTES)

    def _refusal(self, message: str) -> ValueError:
        parser = self._parser
        return self._error(message, parser.CurrentLineNumber, parser.CurrentColumnNumber)

    def _error(self, message: str, line: int, column: int) -> ValueError:
        if line == 1:
            column -= len(self._wrapper)
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
        parser.DefaultHandler = self._default  # with it, expat expands no entity in text

    def _begin(self, token: XmlToken) -> None:
        """A token begins where expat is, and the pending one ends there."""
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

    def _declaration(self, version: str, encoding: str | None, standalone: int) -> None:
        self._inside(XmlToken("other"))
        if encoding and not self._has_known_encoding:
            self.encoding = _utf_16(self._held) or _python_name(encoding)

    def _declare_entity(
        self,
        name: str,
        is_parameter: bool,
        value: str | None,
        base: str | None,
        system: str | None,
        public: str | None,
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
        """A token, unless it stands outside the root element."""
        if self._depth:
            self._begin(token)
        elif self._pending is None or self._pending.kind != "other":
            self._begin(XmlToken("other"))


def _python_name(encoding: str) -> str:
    """Raises: ValueError: no encoding of that name that expat can read."""
    try:
        name = codecs.lookup(encoding).name
        if name in _UNICODE or is_single_byte(name):
            return name
    except LookupError:
        pass
    raise ValueError(f"encoding {encoding!r} is not supported: convert the document to UTF-8")


def _utf_16(begin: bytes | bytearray) -> str | None:
    """The form of UTF-16 that a document begins in; None: it does not."""
    for name in ("utf-16-le", "utf-16-be"):
        if begin.startswith(("\ufeff".encode(name), "<".encode(name))):
            return name
    return None
