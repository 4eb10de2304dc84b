"""Reads HTML as segments and the bytes between them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from dragoman_documents.core.blocks import segments
from dragoman_documents.core.gaps import OpaqueKind
from dragoman_documents.core.languages import DocumentLanguages
from dragoman_documents.core.pieces import (
    MOST_KEPT_CHARACTERS,
    MOST_TEXT_CHARACTERS,
    Closing,
    Opaque,
    Opening,
    Piece,
    Run,
    Words,
)
from dragoman_documents.core.segments import Raw, Segment, SegmentKind, Spelling
from dragoman_documents.html import html_profile, html_spelling
from dragoman_documents.html.html_elements import Element, OpenElements
from dragoman_documents.html.html_encoding import (
    EncodingSearch,
    PageDecoder,
    errors_of,
    python_name,
)
from dragoman_documents.html.html_tokens import HtmlToken, HtmlTokens
from dragoman_documents.xml.xml_profiles import XHTML

_FOREIGN = ("svg", "math")
_KINDS: Mapping[str, OpaqueKind] = {"br": "break", "wbr": "hidden"}
_PRESERVING = ("pre", "textarea", "listing")
_TEMPLATE = re.compile(r"(<%[^<>]*%>)")
"""A tag of ERB, EJS or JSP."""
_CDATA, _CDATA_END = "<![CDATA[", "]]>"


@dataclass
class _Held:
    """An untranslated element that moves with the text around it, as far as it has been read.

    Attributes:
        element: the element.
        is_shown: whether its text is part of its sentence.
        parts: its bytes, and the texts of its attributes and labels.
        texts: the texts in it.
        size: its size in characters.
        inner: the open elements in it.
        labels: how many of them are apart.
        label: the pieces of an open label of a picture, which is a text of its own.
    """

    element: Element
    is_shown: bool
    parts: list[bytes | Segment]
    texts: list[str] = field(default_factory=list)
    size: int = 0
    inner: list[Element] = field(default_factory=list)
    labels: int = 0
    label: Run = field(default_factory=Run)

    @property
    def last(self) -> Element:
        """The element opened last."""
        return self.inner[-1] if self.inner else self.element

    @property
    def has_labels(self) -> bool:
        """Whether it is a picture with texts to translate."""
        element = self.element
        return element.name == "svg" and element.says is not False and not element.says_foreign

    def takes(self, token: HtmlToken) -> bool:
        """Whether a token belongs to the element; False if it is too long or badly nested."""
        if self.size > MOST_TEXT_CHARACTERS:
            return False
        if token.kind == "start":
            return self._takes_element(token)
        return token.kind != "end" or token.name == self.last.name

    def _takes_element(self, token: HtmlToken) -> bool:
        name = token.name
        values = html_profile.values(html_profile.attributes(token.raw))
        if self.is_shown and html_profile.says_translated(values):
            return False
        if self.element.name in _FOREIGN:
            return name not in html_profile.NOT_IN_FOREIGN
        if name in ("a", "nobr") and any(
            element.name == name for element in (self.element, *self.inner)
        ):
            return False
        return name in html_profile.VOID or html_profile.role(name) not in ("block", "skip")

    def add(
        self, token: HtmlToken, raw: bytes, spelling: Spelling, languages: DocumentLanguages
    ) -> None:
        """Add a token for which `takes` is true."""
        self.size += len(token.raw)
        if token.kind == "text":
            self.texts.append(token.raw)
        is_tag = self._opens(token, languages) or token.kind == "end"
        is_edge = is_tag and self.last.is_apart
        if is_edge or not self.labels:
            self.end_label(spelling)
            self.parts.append(raw)
        elif token.kind == "text" and self.last.is_translated:
            self.label.add_words(token.raw)
        else:
            kinds = {"start": Opening, "end": Closing}
            piece = kinds[token.kind] if is_tag else Opaque
            self.label.add(piece((raw,)), len(token.raw))
        if token.kind == "end" and self.inner:
            self.labels -= self.inner.pop().is_apart

    def _opens(self, token: HtmlToken, languages: DocumentLanguages) -> bool:
        """Open the element of a start tag, if it has an end tag."""
        name, is_foreign = token.name, self.element.name in _FOREIGN
        is_empty = name in html_profile.VOID or (token.is_void and is_foreign)
        if token.kind != "start" or is_empty:
            return False
        values = html_profile.values(html_profile.attributes(token.raw))
        is_other = languages.is_foreign(XHTML.language_of(values))
        is_skipped = html_profile.role(name) == "skip"
        element = Element(name, html_profile.says_translated(values), is_other, is_skipped)
        element.inherit(self.inner[-1] if self.inner else Element(""))
        element.is_apart = self.has_labels and html_profile.is_label(name, values)
        self.inner.append(element)
        self.labels += element.is_apart
        return True

    def end_label(self, spelling: Spelling) -> None:
        """Write the texts of a label."""
        self.parts += map(_content, segments(self.label.take(), spelling))


def _content(part: Raw | Segment) -> bytes | Segment:
    return part.content if isinstance(part, Raw) else part


@dataclass(frozen=True)
class _OptionText(Segment):
    """The text of an option, which is also the value that a form sends: the value stays.

    Attributes:
        tag: the start tag, and white space behind it.
    """

    tag: bytes = b""

    def _written(
        self,
        translation: str,
        spans: Sequence[tuple[int, int]],
        children: Sequence[Sequence[int]],
        attributes: Sequence[bytes],
    ) -> Iterator[bytes]:
        spelling = self.spelling
        name, tag = "<option", self.tag.decode(spelling.encoding, spelling.errors)
        yield spelling.raw(f"{tag[: len(name)]} value=")
        yield html_spelling.in_attribute(spelling.encoding, "").write(self.text)
        yield spelling.raw(tag[len(name) :])
        yield from super()._written(translation, spans, children, attributes)


def _option(tag: bytes, parts: list[Raw | Segment]) -> list[Raw | Segment]:
    """Returns the parts of an option."""
    texts = [part for part in parts if isinstance(part, Segment)]
    if len(texts) != 1:
        return [Raw(tag), *parts]
    text, index = texts[0], parts.index(texts[0])
    tag += b"".join(part.content for part in parts[:index] if isinstance(part, Raw))
    values = {member.name: getattr(text, member.name) for member in fields(Segment)}
    values["original"] = tag + text.original
    return [_OptionText(**values, tag=tag), *parts[index + 1 :]]


class HtmlReader:
    """Reads a document in chunks; the concatenated output is the input, byte for byte.

    Attributes:
        warnings: none; see `XmlReader.warnings`.
    """

    warnings: Sequence[str] = ()

    def __init__(self, *, encoding: str | None = None, source_language: str | None = None) -> None:
        """Start before the first chunk.

        Args:
            encoding: encoding of the document; None: the declared one, or UTF-8.
            source_language: language of the document, if known; text in another language,
                according to `lang`, is not translated.

        Raises:
            ValueError: the encoding is not known.
        """
        self._given = None if encoding is None else python_name(encoding)
        self._search = EncodingSearch()
        self._head = b""
        """The input before the encoding is known."""
        self._decoder: PageDecoder | None = None
        self._tokens = HtmlTokens()
        self._source_language = source_language
        self._segmenter = _Segmenter("utf-8", source_language)

    def feed(self, chunk: bytes) -> list[Raw | Segment]:
        """Read the next chunk.

        Raises:
            ValueError: a token is too long, or the encoding is not supported.
        """
        if self._decoder is not None:
            return self._read(self._decoder, chunk)
        self._head += chunk
        encoding = self._search.feed(chunk)
        return self._begin(self._given or encoding) if encoding else []

    def close(self) -> list[Raw | Segment]:
        """Returns the remaining parts; raises like `feed`."""
        parts = [] if self._decoder else self._begin(self._given or self._search.close())
        assert self._decoder is not None
        parts += self._segmenter.add(self._tokens.close())
        return [*parts, *self._segmenter.finish(), Raw(self._decoder.unread)]

    def _begin(self, encoding: str) -> list[Raw | Segment]:
        self._decoder = PageDecoder(encoding)
        self._segmenter = _Segmenter(encoding, self._source_language)
        mark = "\ufeff".encode(encoding, "ignore")
        begin = mark if self._head.startswith(mark) else b""
        parts = self._read(self._decoder, self._head[len(begin) :])
        self._head = b""
        return [Raw(begin), *parts]

    def _read(self, decoder: PageDecoder, chunk: bytes) -> list[Raw | Segment]:
        return self._segmenter.add(self._tokens.feed(decoder.decode(chunk)))


class _Segmenter:
    """Makes segments from tokens."""

    def __init__(self, encoding: str, source_language: str | None) -> None:
        self._encoding, self._errors = encoding, errors_of(encoding)
        self._source_language = source_language
        self._languages = DocumentLanguages(source_language)
        self._text = {
            collapses: html_spelling.in_text(encoding, collapses=collapses)
            for collapses in (False, True)
        }
        self._title = html_spelling.in_text(encoding, collapses=True, is_title=True)
        self._out: list[Raw | Segment] = []
        self._elements = OpenElements()
        self._run = Run()
        self._first = 0
        """Index of the first open element that began in the run."""
        self._is_settled = True
        """Whether the run opens only the elements of its own tags."""
        self._links = 0
        """Number of links and buttons in the run."""
        self._is_only_links = True
        """Whether the run has no words outside links, buttons and unknown elements, like a menu."""
        self._is_behind_unknown = False
        """Whether the last token is the end tag of an unknown element."""
        self._held: _Held | None = None
        self._option = b""
        """The start tag of an option without a value, if nothing behind it is written yet."""
        self._cdata = ""
        """The last characters read of a CDATA section, which the tokenizer splits into tokens."""

    def add(self, tokens: list[HtmlToken]) -> list[Raw | Segment]:
        """Read tokens and return the complete parts."""
        for token in tokens:
            if self._held is not None and not self._holds(token, self._held):
                self._let_go(self._held)
            if self._held is not None:
                self._hold(token, self._held)
            elif self._cdata:
                self._border([self._raw(token.raw)])
            else:
                self._add(token)
            self._follow_cdata(token)
        out, self._out = self._out, []
        return out

    def finish(self) -> list[Raw | Segment]:
        """Returns the remaining parts."""
        if self._held is not None:
            self._let_go(self._held)
        self._flush()
        out, self._out = self._out, []
        return out

    def _follow_cdata(self, token: HtmlToken) -> None:
        is_foreign = self._held is not None and self._held.element.name in _FOREIGN
        if self._cdata:
            self._cdata += token.raw
        elif token.raw.startswith(_CDATA) and (
            is_foreign or any(map(self._elements.has, _FOREIGN))
        ):
            self._cdata = token.raw
        is_over = _CDATA_END in self._cdata
        self._cdata = "" if is_over else self._cdata[-len(_CDATA_END) :]

    def _add(self, token: HtmlToken) -> None:
        if token.kind == "text":
            self._add_words(token)
        elif token.kind == "start":
            self._start(token)
        elif token.kind == "end":
            self._end(token)
        elif self._run and self._is_settled and self._elements.is_settled:
            self._add_piece(Opaque((self._raw(token.raw),), kind="hidden"), token)
        else:
            self._border([self._raw(token.raw)])

    def _start(self, token: HtmlToken) -> None:
        name, role = token.name, html_profile.role(token.name)
        attributes = html_profile.attributes(token.raw)
        values = html_profile.values(attributes)
        if role == "inline" and html_profile.is_icon(name, values):
            role = "opaque"
        parts_text = role in ("block", "skip") or self._elements.closes(name)
        if parts_text:
            self._flush()
        was_settled = self._elements.is_settled
        self._elements.close_before(name)
        self._first = min(self._first, len(self._elements))
        if self._elements.settles(name):
            self._settle()
            self._is_settled &= was_settled
        around = self._elements.around
        element = self._element(name, values)
        tag = replace(element)
        tag.inherit(self._elements.parent_of(name))
        parts = self._parts(token, attributes if tag.is_translated else {}, values)
        element.is_skipped = role in ("opaque", "skip")
        if role == "keep" and element.says is None:
            element.says = False
        can_move = around.is_translated and not parts_text
        if not (can_move and self._move(token, role, element, parts)):
            raw = self._raw(token.raw)
            if name == "option" and "value" not in values:
                self._option = raw  # a title stays in the source's language
            else:
                self._border(parts)
            if name not in html_profile.VOID and not (token.is_void and around.is_skipped):
                self._open(element)

    def _element(self, name: str, values: Mapping[str, str]) -> Element:
        """Make an element from a start tag's name and attributes."""
        language = XHTML.language_of(values)
        if name == "html":
            self._languages = DocumentLanguages(self._source_language, language)
        return Element(
            name,
            html_profile.says_translated(values),
            self._languages.is_foreign(language),
            preserves=name in _PRESERVING,
            is_apart=name in html_profile.LINKS or html_profile.is_unknown(name),
        )

    def _move(
        self, token: HtmlToken, role: str, element: Element, parts: list[bytes | Segment]
    ) -> bool:
        """Add an element to the text around it, if it can move with it."""
        name = token.name
        is_free = self._is_settled and self._elements.is_settled
        if not (is_free or self._elements.settles(name)):
            return False
        if name in html_profile.VOID or (token.is_void and name in _FOREIGN):
            kind = _KINDS.get(name, "object")
            self._add_piece(Opaque(tuple(parts), kind=kind), token)
        elif role == "opaque":
            self._held = _Held(element, False, parts)
        elif element.says is False or element.says_foreign:
            element.says = False
            self._held = _Held(element, True, parts)
        elif self._elements.is_full:
            return False
        else:
            is_link = name in html_profile.LINKS
            is_next = self._is_behind_unknown and html_profile.is_unknown(name)
            if self._is_only_links and (is_next or (is_link and self._links)):
                self._flush()
            self._links += is_link
            self._add_piece(Opening(tuple(parts)), token)
            self._elements.open(element)
        return True

    def _open(self, element: Element) -> None:
        self._elements.open(element)
        self._first = len(self._elements)

    def _end(self, token: HtmlToken) -> None:
        if len(self._elements) > self._first and self._elements.last.name == token.name:
            self._elements.close(token.name)
            self._add_piece(Closing((self._raw(token.raw),)), token)
            self._is_behind_unknown = html_profile.is_unknown(token.name)
            return
        self._border([self._raw(token.raw)])
        self._elements.close(token.name)
        self._first = len(self._elements)

    def _holds(self, token: HtmlToken, held: _Held) -> bool:
        """Whether a token is part of the held element."""
        if self._cdata:
            return True
        is_start = token.kind == "start" and held.element.name not in _FOREIGN
        return held.takes(token) and not (is_start and self._elements.closes(token.name))

    def _hold(self, token: HtmlToken, held: _Held) -> None:
        if self._cdata:
            token = HtmlToken("other", token.raw)
        is_end = token.kind == "end" and not held.inner
        held.add(token, self._raw(token.raw), self._text[True], self._languages)
        if is_end:
            self._held = None
            text = self._text[True].read("".join(held.texts)).strip() if held.is_shown else ""
            shown = text if len(text) <= MOST_KEPT_CHARACTERS else ""
            self._is_only_links &= not shown
            self._run.add(Opaque(tuple(held.parts), shown), held.size)
            self._part()

    def _let_go(self, held: _Held) -> None:
        """Stop holding an element; it does not move."""
        self._held = None
        held.end_label(self._text[True])
        self._border(held.parts)
        self._open(held.element)
        for element in held.inner:
            self._open(Element(element.name, False))

    def _add_words(self, token: HtmlToken) -> None:
        is_space = token.raw.isspace()
        if not is_space or self._elements.is_in_body:
            self._settle()
        if self._elements.around.is_translated:
            self._is_only_links &= is_space or self._elements.around.is_apart
            self._is_behind_unknown = False
            self._run.add_words(token.raw)
            self._part()
        else:
            self._border([self._raw(token.raw)])

    def _settle(self) -> None:
        """Handle the beginning of text, which may reopen elements."""
        if not self._elements.is_settled:
            self._is_settled = False
            self._elements.settle()
            self._first = len(self._elements)

    def _add_piece(self, piece: Piece, token: HtmlToken) -> None:
        self._is_behind_unknown = False
        self._run.add(piece, len(token.raw))
        self._part()

    def _part(self) -> None:
        """Split a text that is too long."""
        while self._run.is_long:
            self._write(self._run.part())
            self._first = len(self._elements)

    def _border(self, parts: list[bytes | Segment]) -> None:
        self._flush()
        self._out += (part if isinstance(part, Segment) else Raw(part) for part in parts)

    def _flush(self) -> None:
        self._write(self._run.take())
        self._first = len(self._elements)
        self._is_settled = True
        self._links, self._is_only_links = 0, True
        self._is_behind_unknown = False

    def _write(self, pieces: list[Piece]) -> None:
        """Write a complete text; the end tags of elements still open will split texts."""
        option, self._option = self._option, b""
        if not pieces:
            self._out += [Raw(option)] if option else []
            return
        last = self._elements.last
        kind: SegmentKind = "title" if last.name in html_profile.TITLES else "text"
        spelling = self._title if last.name == "title" else self._text[not last.preserves]
        texts = segments(self._with_templates(pieces), spelling, kind=kind)
        self._out += _option(option, [*texts]) if option else [*texts]

    def _parts(
        self,
        token: HtmlToken,
        attributes: dict[str, tuple[str, int, int, str]],
        values: dict[str, str],
    ) -> list[bytes | Segment]:
        """Returns a tag, with those attribute values as segments that are texts."""
        parts: list[bytes | Segment] = []
        at = 0
        for name, (value, begin, end, quote) in attributes.items():
            if not value or not html_profile.is_text(token.name, name, values):
                continue
            parts.append(self._raw(token.raw[at:begin]))
            spelling = html_spelling.in_attribute(self._encoding, quote)
            words = self._with_templates([Words(value)])
            of_value = segments(words, spelling, kind="attribute")
            parts += map(_content, of_value)
            at = end
        return [*parts, self._raw(token.raw[at:])]

    def _with_templates(self, pieces: Sequence[Piece]) -> list[Piece]:
        """Pieces in which the tags of a template engine, text to a browser, are not escaped."""
        parts: list[Piece] = []
        for piece in pieces:
            if not (isinstance(piece, Words) and "<%" in piece.written):
                parts.append(piece)
                continue
            for index, written in enumerate(_TEMPLATE.split(piece.written)):
                if index % 2:
                    parts.append(Opaque((self._raw(written),), written))
                elif written:
                    parts.append(Words(written))
        return parts

    def _raw(self, written: str) -> bytes:
        return written.encode(self._encoding, self._errors)
