"""HTML as segments in place."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from dragoman_client.markup import html_profile, html_spelling
from dragoman_client.markup.html_tokens import HtmlToken, HtmlTokens
from dragoman_client.markup.languages import DocumentLanguages
from dragoman_client.markup.segments import (
    Closing,
    Opaque,
    Opening,
    Piece,
    Raw,
    Segment,
    SegmentKind,
    Words,
    has_text,
    segments,
)
from dragoman_client.markup.xml_profiles import XHTML

MOST_RUN_CHARACTERS = 50_000
"""A text that is longer is parted where it is: the server takes twice as many in a text."""
_MOST_OPEN = 512
"""Elements in each other that a text may have; what is deeper parts texts, as in browsers."""
_MOST_KEPT = 1000
"""Characters of what is kept that its sentence is translated with."""
_HEAD_BYTES = 1024
"""In which a document says its encoding, as browsers look for it."""
_CHARSET = re.compile(rb"""<meta[^>]*?charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_AS_WINDOWS_1252 = frozenset(("iso8859-1", "ascii"))
"""What browsers read as Windows-1252."""


@dataclass
class _Element:
    """A block around the text.

    Attributes:
        name: of its tag.
        may_translate: what `translate` says, of it or around it.
        is_foreign: whether it is in another language than the document.
        preserves: whether white space counts.
    """

    name: str
    may_translate: bool = True
    is_foreign: bool = False
    preserves: bool = False

    @property
    def is_translated(self) -> bool:
        """Whether its text is translated."""
        return self.may_translate and not self.is_foreign


@dataclass
class _Held:
    """An element that is moved, or left, as it is."""

    name: str
    role: str
    parts: list[bytes | Segment] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    depth: int = 1
    size: int = 0
    inner: list[str] = field(default_factory=list)
    """Elements in it that are open."""

    def can_move_with(self, token: HtmlToken) -> bool:
        """Whether it can still be moved: it is closed in itself, and has no block."""
        is_empty = token.is_void and self.name in ("svg", "math")
        if token.kind == "start" and token.name not in html_profile.VOID and not is_empty:
            self.inner.append(token.name)
            return html_profile.role(token.name) != "block" or self.name in ("svg", "math")
        if token.kind == "end":
            return bool(self.inner) and self.inner.pop() == token.name
        return True


class HtmlReader:
    """Reads a document in chunks; what comes out, joined, are the bytes that went in."""

    def __init__(self, *, encoding: str | None = None, source_language: str | None = None) -> None:
        """Prepare.

        Args:
            encoding: that is known from elsewhere; None: the document says it, or UTF-8.
            source_language: of the document, if it is known; what is in another one, by `lang`,
                stays as it is.

        Raises:
            ValueError: no such encoding.
        """
        self._given = None if encoding is None else _python_name(encoding)
        self._head = b""
        self._decoder: codecs.IncrementalDecoder | None = None
        self._tokens = HtmlTokens()
        self._source_language = source_language
        self._segmenter = _Segmenter("utf-8", source_language)

    def feed(self, chunk: bytes) -> list[Raw | Segment]:
        """Read on.

        Raises:
            ValueError: a tag or comment is too long.
        """
        if self._decoder is None:
            self._head += chunk
            if len(self._head) < _HEAD_BYTES:
                return []
            chunk = self._begin()
        assert self._decoder is not None
        return self._segmenter.add(self._tokens.feed(self._decoder.decode(chunk)))

    def close(self) -> list[Raw | Segment]:
        """What is left; raises as `feed`."""
        last = self._begin() if self._decoder is None else b""
        assert self._decoder is not None
        tokens = self._tokens.feed(self._decoder.decode(last, final=True))
        return self._segmenter.add(tokens + self._tokens.close()) + self._segmenter.finish()

    def _begin(self) -> bytes:
        head, self._head = self._head, b""
        encoding = self._given or _encoding(head)
        self._decoder = codecs.getincrementaldecoder(encoding)("surrogateescape")
        self._segmenter = _Segmenter(encoding, self._source_language)
        return head


class _Segmenter:
    """Makes segments of tokens."""

    def __init__(self, encoding: str, source_language: str | None) -> None:
        self._encoding = encoding
        self._source_language = source_language
        self._languages = DocumentLanguages(source_language)
        self._text = {
            collapses: html_spelling.in_text(encoding, collapses=collapses)
            for collapses in (False, True)
        }
        self._out: list[Raw | Segment] = []
        self._pieces: list[Piece] = []
        self._size = 0
        self._open: list[_Element] = []
        """Inline elements of the text, whose ends have not come."""
        self._links = 0
        """Of the text so far."""
        self._is_only_links = True
        """Whether the text so far has no words outside of links, as a menu has none."""
        self._around: list[_Element] = []
        self._held: _Held | None = None

    def add(self, tokens: list[HtmlToken]) -> list[Raw | Segment]:
        """Read on; what is complete."""
        for token in tokens:
            if self._held is not None:
                self._hold(token, self._held)
            elif token.kind == "text":
                self._add_words(token)
            elif token.kind == "start":
                self._start(token)
            elif token.kind == "end":
                self._end(token)
            elif token.raw.startswith(("<!--", "<?")) and self._is_translated:
                self._add(Opaque((self._raw(token.raw),)), token)
            else:
                self._border(token.raw)
        out, self._out = self._out, []
        return out

    def finish(self) -> list[Raw | Segment]:
        """All that is left."""
        if self._held is not None:
            held, self._held = self._held, None
            self._flush()
            self._put(held.parts)
        self._flush()
        out, self._out = self._out, []
        return out

    @property
    def _is_translated(self) -> bool:
        return all(one.is_translated for one in (self._open or self._around)[-1:])

    @property
    def _preserves(self) -> bool:
        return any(one.preserves for one in self._around[-1:])

    def _start(self, token: HtmlToken) -> None:
        while self._around and html_profile.ends(token.name, self._around[-1].name):
            if html_profile.role(token.name) != "block":
                break
            self._flush()
            self._around.pop()
        found = html_profile.attributes(token.raw)
        values = {name: value for name, (value, *_) in found.items()}
        around = self._is_translated
        element = self._element(token.name, values)
        is_translated = element.is_translated
        parts = self._parts(token, found, values, is_translated)
        role, name = html_profile.role(token.name), token.name
        if name in html_profile.VOID:
            if name in html_profile.INLINE_VOID and around:
                self._add(Opaque(tuple(parts)), token)
            else:
                self._flush()
                self._put(parts)
        elif role == "inline" and around and not is_translated:
            self._held = _Held(name, "keep", parts)
        elif role in ("keep", "opaque", "skip"):
            self._held = _Held(name, role if around or role == "skip" else "skip", parts)
            if token.is_void and name in ("svg", "math"):
                self._release()
        elif role == "inline" and around and self._can_open(name):
            if name == "a" and self._links and self._is_only_links:
                self._flush()
            self._links += name == "a"
            self._add(Opening(tuple(parts)), token)
            self._open.append(element)
        else:
            self._flush()
            self._put(parts)
            if role != "inline" or is_translated != around:
                self._around.append(element)

    def _can_open(self, name: str) -> bool:
        if name in html_profile.NEVER_NESTED and any(one.name == name for one in self._open):
            return False
        return len(self._open) < _MOST_OPEN

    def _element(self, name: str, values: Mapping[str, str]) -> _Element:
        """What holds in an element, by its attributes and what is around it."""
        around = (self._open or self._around or [_Element("")])[-1]
        language = XHTML.language_of(values)
        if name == "html":
            self._languages = DocumentLanguages(self._source_language, language)
        may_translate = html_profile.may_translate(values, around.may_translate)
        is_foreign = self._languages.is_foreign(language, around.is_foreign)
        preserves = self._preserves or name in ("pre", "textarea", "listing")
        return _Element(name, may_translate, is_foreign, preserves)

    def _end(self, token: HtmlToken) -> None:
        if self._open and self._open[-1].name == token.name:
            self._open.pop()
            self._add(Closing((self._raw(token.raw),)), token)
            return
        self._border(token.raw)
        # As browsers do, nearly: an end tag closes all that is open within its element.
        for index in range(len(self._around) - 1, max(-1, len(self._around) - 1 - _MOST_OPEN), -1):
            if self._around[index].name == token.name:
                del self._around[index:]
                break

    def _hold(self, token: HtmlToken, held: _Held) -> None:
        held.parts.append(self._raw(token.raw))
        held.size += len(token.raw)
        if token.kind == "text" and held.role == "keep":
            held.texts.append(token.raw)
        if token.name == held.name:
            held.depth += (token.kind == "start" and not token.is_void) - (token.kind == "end")
        if not held.depth:
            self._release()
        elif held.role != "skip" and not held.can_move_with(token):
            held.role = "skip"
        elif held.size > MOST_RUN_CHARACTERS:
            self._flush()
            self._put(held.parts)
            held.parts, held.size, held.role = [], 0, "skip"

    def _release(self) -> None:
        held, self._held = self._held, None
        assert held is not None
        if held.role == "skip":
            self._flush()
            self._put(held.parts)
            return
        text = self._text[True].read("".join(held.texts)).strip()
        shown = text if len(text) <= _MOST_KEPT else ""
        self._add(Opaque(tuple(held.parts), shown), None)
        self._size += held.size

    def _add_words(self, token: HtmlToken) -> None:
        if not self._is_translated:
            self._border(token.raw)
            return
        written = token.raw
        if self._pieces and isinstance(last := self._pieces[-1], Words):
            self._pieces.pop()
            written = last.written + written
        self._add(Words(written), token)

    def _add(self, piece: Piece, token: HtmlToken | None) -> None:
        self._pieces.append(piece)
        if has_text(piece) and all(one.name != "a" for one in self._open):
            self._is_only_links = False
        self._size += len(token.raw) if token else 0
        if self._size > MOST_RUN_CHARACTERS:
            self._flush()

    def _border(self, raw: str) -> None:
        self._flush()
        self._out.append(Raw(self._raw(raw)))

    def _put(self, parts: list[bytes | Segment]) -> None:
        self._out += (part if isinstance(part, Segment) else Raw(part) for part in parts)

    def _flush(self) -> None:
        if self._pieces:
            kind: SegmentKind = "text"
            if self._around and self._around[-1].name in html_profile.TITLES:
                kind = "title"
            spelling = self._text[not self._preserves]
            self._out += segments(self._pieces, spelling, kind=kind)
        self._pieces, self._size = [], 0
        self._links, self._is_only_links = 0, True
        # What is still open ends later: its end tag parts texts, as its start tag does.
        self._around += self._open
        self._open = []

    def _parts(
        self,
        token: HtmlToken,
        found: dict[str, tuple[str, int, int, str]],
        values: dict[str, str],
        is_translated: bool,
    ) -> list[bytes | Segment]:
        """A tag, with the values of its attributes that are texts."""
        parts: list[bytes | Segment] = []
        at = 0
        if not is_translated:
            return [self._raw(token.raw)]
        for name, (value, begin, end, quote) in sorted(found.items(), key=lambda one: one[1][1]):
            if not quote or not html_profile.is_text(token.name, name, values):
                continue
            parts.append(self._raw(token.raw[at:begin]))
            spelling = html_spelling.in_attribute(self._encoding, quote)
            of_value = segments([Words(value)], spelling, kind="attribute")
            parts += (one.content if isinstance(one, Raw) else one for one in of_value)
            at = end
        return [*parts, self._raw(token.raw[at:])]

    def _raw(self, written: str) -> bytes:
        return written.encode(self._encoding, "surrogateescape")


def _encoding(head: bytes) -> str:
    """The encoding of a document by its first bytes: a mark, what it says, or UTF-8."""
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name
    if said := _CHARSET.search(head[:_HEAD_BYTES]):
        try:
            name = _python_name(said[1].decode("ascii"))
        except ValueError:
            return "utf-8"
        return "utf-8" if name.startswith("utf-16") else name  # it could not be read else
    return "utf-8"


def _python_name(encoding: str) -> str:
    """Raises: ValueError: no encoding of that name."""
    try:
        name = codecs.lookup(encoding).name
        "".encode(name)
    except (LookupError, UnicodeError):
        raise ValueError(f"encoding {encoding!r} is not supported: convert it to UTF-8") from None
    if name == "utf-16":
        return "utf-16-le"
    return "cp1252" if name in _AS_WINDOWS_1252 else name
