"""Makes segments from XML tokens with known roles."""

from __future__ import annotations

import html.entities
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dragoman_documents.core.blocks import segments
from dragoman_documents.core.gaps import OpaqueKind
from dragoman_documents.core.mnemonics import with_mnemonic
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
from dragoman_documents.core.segments import Raw, Segment, Spelling
from dragoman_documents.xml import xml_spelling
from dragoman_documents.xml.its_rules import local_name
from dragoman_documents.xml.outline import Item
from dragoman_documents.xml.xml_profiles import (
    LINE_BREAK_TAG,
    LINE_BREAKS,
    Role,
    XmlProfile,
)
from dragoman_documents.xml.xml_tokens import XmlToken

MOST_NESTED_BYTES = 1 << 20
"""A nested element longer than this splits the text around it."""
_MOST_NESTED = 8
"""Maximum depth of texts within texts."""

_ENTITY = re.compile(r"&(?!#|(?:lt|gt|amp|quot|apos);)")
_TAG = re.compile(r"<(/?)([a-zA-Z][\w:-]*+)[^<>]*+>")
_ESCAPED_TAG = re.compile(r"&lt;(/?)([a-zA-Z][\w:-]*+)(?:(?!&[lg]t;)[^<>])*+(?:&gt;|>)")
_QUOTE = re.compile(r"""\\(?:&\w++;|.)|("|&quot;)""", re.DOTALL)
"""An escaped character, or a quotation mark."""
_WITHIN_TEXT: tuple[Role, ...] = ("inline", "keep", "opaque", "hidden", "break", "nested")
_CDATA, _CDATA_END = "<![CDATA[", "]]>"


@dataclass
class _Text:
    """An incomplete text.

    Attributes:
        out: list that receives its segments.
        run: its pieces so far.
        preserves: whether its spaces are significant.
        tag: for a nested text, the tag before it.
        size: for a nested text, the size of its content in bytes.
    """

    out: list[Raw | Segment]
    run: Run = field(default_factory=Run)
    preserves: bool = False
    tag: tuple[bytes | Segment, ...] = ()
    size: int = 0


@dataclass
class _Held:
    """An untranslated element that moves with the text around it, as far as it has been read.

    Attributes:
        parts: its bytes, and the texts of its attributes.
        shows: whether its text is part of its sentence.
        kind: what it does to the words beside it.
        is_by_attribute: whether it is kept because of an attribute, which an inner element may
            override.
        pair: the pair that it belongs to.
        texts: the texts in it.
        depth: depth of open elements, including itself.
        size: its size in bytes.
        subflow: reads an inner element with its own text.
        subflow_depth: depth of that element.
    """

    parts: list[bytes | Segment]
    shows: bool
    kind: OpaqueKind = "object"
    is_by_attribute: bool = False
    pair: tuple[str, bool] | None = None
    texts: list[str] = field(default_factory=list)
    depth: int = 1
    size: int = 0
    subflow: XmlSegmenter | None = None
    subflow_depth: int = 0

    def takes(self, item: Item) -> bool:
        """Whether an item belongs to the element."""
        is_text = self.is_by_attribute and item.token.kind == "start" and item.is_translated
        return self.size <= MOST_TEXT_CHARACTERS and not is_text

    def end_subflow(self) -> None:
        """Finish an inner element with its own text."""
        if self.subflow is not None:
            self.parts += map(_as_bytes, self.subflow.finish())
            self.subflow = None


class _Context(NamedTuple):
    """Properties of an element's content."""

    role: Role
    is_translated: bool
    preserves: bool


class XmlSegmenter:
    """Makes segments from items."""

    def __init__(self, profile: XmlProfile, encoding: str) -> None:
        """Start before the first item.

        Args:
            profile: profile of the document.
            encoding: encoding of the document.
        """
        self._profile, self._encoding = profile, encoding
        self._open = [_Text([])]
        """The open texts, outermost first."""
        self._around = [_Context("block", True, profile.preserves)]
        self._held: _Held | None = None
        self._text = {collapses: self._spelling(False, collapses) for collapses in (False, True)}
        self._cdata = {collapses: self._spelling(True, collapses) for collapses in (False, True)}

    def add(self, item: Item) -> None:
        """Read the next item."""
        token = item.token
        if self._held is not None and not self._held.takes(item):
            self._let_go(self._held)
        if self._held is not None:
            self._hold(item, self._held)
        elif token.kind == "start":
            self._start(item)
        elif token.kind == "end":
            self._end(token)
        elif token.kind == "comment":
            self._add(Opaque((token.raw,), kind="hidden"), token)
        elif token.kind == "instruction":
            self._add(Opaque((token.raw,), kind=_kind(token.name)), token)
        elif token.kind == "other" or not item.is_translated:
            self._border((token.raw,))
        else:
            self._add_text(item)
        self._open[-1].size += len(token.raw)
        if len(self._open) > 1 and self._open[-1].size > MOST_NESTED_BYTES:
            self._unnest()

    def take(self) -> list[Raw | Segment]:
        """Remove and return the complete parts."""
        out, self._open[0].out = self._open[0].out, []
        return out

    def finish(self) -> list[Raw | Segment]:
        """Returns the remaining parts."""
        self._flush()
        return self.take()

    def _start(self, item: Item) -> None:
        token, role, around = item.token, item.role, self._around[-1]
        is_kept = role == "inline" and around.is_translated and not item.is_translated
        if is_kept:
            role = "keep"
        elif role in _WITHIN_TEXT and not item.is_translated:
            role = "block"
        elif role == "nested" and len(self._open) > _MOST_NESTED:
            role = "opaque"
        parts = self._parts(item)
        if role in ("keep", "opaque"):
            self._held = _Held(parts, role == "keep", "object", is_kept, self._pair(token))
        elif role in ("hidden", "break"):
            self._held = _Held(parts, False, role, pair=self._pair(token))
        elif role == "inline" and self._text_of(token).endswith("/>"):
            is_hidden = local_name(token.name).lower() == "wbr"
            self._held = _Held(parts, False, "hidden" if is_hidden else "object")
        elif role == "inline":
            spelling = self._text[not item.preserves]
            changes = item.preserves != around.preserves
            self._add(Opening(tuple(parts), spelling if changes else None), token)
        elif role == "nested":
            self._open.append(_Text([], preserves=item.preserves, tag=tuple(parts)))
        else:
            self._border(tuple(parts))
        if self._held is None:
            is_translated = item.is_translated and role != "skip"
            self._around.append(_Context(role, is_translated, item.preserves))

    def _end(self, token: XmlToken) -> None:
        role = self._around.pop().role
        if role == "inline":
            self._add(Closing((token.raw,)), token)
        elif role == "nested":
            self._flush()
            nested = self._open.pop()
            inner = map(_as_bytes, nested.out)
            self._open[-1].size += nested.size
            self._add(Opaque((*nested.tag, *inner, token.raw), kind="hidden"), token)
        else:
            self._border((token.raw,))

    def _hold(self, item: Item, held: _Held) -> None:
        token = item.token
        held.size += len(token.raw)
        held.depth += (token.kind == "start") - (token.kind == "end")
        if held.subflow is not None:
            if held.depth >= held.subflow_depth:
                held.subflow.add(item._replace(is_translated=True))
                return
            held.end_subflow()
        held.parts.append(token.raw)
        if token.kind == "start" and local_name(token.name) in self._profile.subflows:
            held.subflow = XmlSegmenter(self._profile, self._encoding)
            held.subflow_depth = held.depth
        if token.kind in ("text", "cdata"):
            held.texts.append(token.text)
        elif token.kind == "entity":
            held.texts.append(token.text or token.name)
        if not held.depth:
            self._held = None
            text = " ".join("".join(held.texts).split())
            shown = text if held.shows and len(text) <= MOST_KEPT_CHARACTERS else ""
            kind = "break" if LINE_BREAK_TAG.fullmatch(text) and not shown else held.kind
            self._add(Opaque(tuple(held.parts), shown, held.pair, kind), token)

    def _let_go(self, held: _Held) -> None:
        """Stop holding an element; it does not move."""
        self._held = None
        held.end_subflow()
        self._border(tuple(held.parts))
        self._around += [_Context("block", False, self._around[-1].preserves)] * held.depth

    def _unnest(self) -> None:
        """Let nested texts split the texts around them."""
        outer, *nested = self._open
        for text in nested:
            self._write(outer, outer.run.take())
            outer.out += map(_as_part, text.tag)
            outer.out += text.out
            outer.run, outer.preserves = text.run, text.preserves
        self._open = [outer]
        self._around = [
            context._replace(role="block") if context.role == "nested" else context
            for context in self._around
        ]

    def _add(self, piece: Piece, token: XmlToken) -> None:
        self._run.add(piece, len(token.raw))
        self._part()

    def _add_text(self, item: Item) -> None:
        token = item.token
        written = self._text_of(token)
        if token.kind == "cdata":
            self._add_cdata(written[len(_CDATA) : -len(_CDATA_END)])
        elif token.kind == "text" or (not token.text and f"{token.name};" in html.entities.html5):
            self._run.add_words(written)
            self._part()
        else:
            shown = token.name if not token.text or "<" in token.text else token.text
            self._add(Opaque((token.raw,), shown[:MOST_KEPT_CHARACTERS]), token)

    def _add_cdata(self, written: str) -> None:
        begin, end = self._raw(_CDATA), self._raw(_CDATA_END)
        spelling = self._cdata[not self._around[-1].preserves]
        if len(written) <= MOST_TEXT_CHARACTERS:
            run = self._run
            run.add(Opening((begin,), spelling), len(_CDATA))
            for piece in self._without_tags(written, _TAG):
                run.add(piece, 0)
            run.add(Closing((end,)), len(written))
            self._part()
            return
        self._border((begin,))
        words = Run()
        words.add_words(written)
        while words:
            pieces = words.part() if words.is_long else words.take()
            self._open[-1].out += segments(pieces, spelling, keep=self._profile.keep)
        self._border((end,))

    def _without_tags(self, written: str, tags: re.Pattern[str]) -> Iterator[Piece]:
        """Yield the words and the HTML tags in them."""
        begin = 0
        for tag in tags.finditer(written) if self._profile.has_tags_as_text else ():
            if begin < tag.start():
                yield Words(written[begin : tag.start()])
            name = tag[2].lower()
            yield Opaque((self._raw(tag[0]),), pair=(name, not tag[1]), kind=_kind(name))
            begin = tag.end()
        if begin < len(written):
            yield Words(written[begin:])

    def _without_quotes(self, pieces: Sequence[Piece]) -> Iterator[Piece]:
        """Yields the pieces, with unescaped quotation marks as pairs of tags."""
        is_first = True
        for piece in pieces:
            if not isinstance(piece, Words):
                yield piece
                continue
            begin = 0
            for match in _QUOTE.finditer(piece.written):
                if match[1] is None:
                    continue
                if begin < match.start():
                    yield Words(piece.written[begin : match.start()])
                yield Opaque(
                    (self._raw(match[1]),),
                    pair=('"', is_first),
                    kind="hidden",
                    spelling=self._text[False],
                )
                is_first, begin = not is_first, match.end()
            if begin < len(piece.written):
                yield Words(piece.written[begin:])

    @property
    def _run(self) -> Run:
        """The run of the innermost text."""
        text = self._open[-1]
        if not text.run:
            text.preserves = self._around[-1].preserves
        return text.run

    def _part(self) -> None:
        """Split a text that is too long."""
        text = self._open[-1]
        while text.run.is_long:
            self._write(text, text.run.part())

    def _border(self, parts: tuple[bytes | Segment, ...]) -> None:
        self._flush()
        self._open[-1].out += map(_as_part, parts)

    def _flush(self) -> None:
        text = self._open[-1]
        self._write(text, text.run.take())

    def _write(self, text: _Text, pieces: list[Piece]) -> None:
        new_pieces: list[Piece] = []
        is_in_cdata = False
        for piece in pieces:
            if isinstance(piece, (Opening, Closing)):
                is_in_cdata = piece.parts == (self._raw(_CDATA),)
            if isinstance(piece, Words) and not is_in_cdata:
                for part in self._without_tags(piece.written, _ESCAPED_TAG):
                    words = part.written if isinstance(part, Words) else ""
                    marks = self._profile.mnemonics if words else ()
                    new_pieces += with_mnemonic(words, marks, self._raw) if marks else [part]
            else:
                new_pieces.append(piece)
        if self._profile.has_quotes:
            new_pieces = list(self._without_quotes(new_pieces))
        if new_pieces:
            spelling = self._text[not text.preserves]
            text.out += segments(new_pieces, spelling, keep=self._profile.keep)

    def _parts(self, item: Item) -> list[bytes | Segment]:
        """Returns a tag, with those attribute values as segments that are texts."""
        if not item.texts:
            return [item.token.raw]
        return attribute_parts(item.token.raw, self._encoding, item.texts)

    def _pair(self, token: XmlToken) -> tuple[str, bool] | None:
        """Returns the pair that an element belongs to, by its attributes."""
        pair = self._profile.pairs.get(local_name(token.name))
        return None if pair is None else pair.pair(token.attributes)

    def _spelling(self, is_cdata: bool, collapses: bool) -> Spelling:
        make = xml_spelling.in_cdata if is_cdata else xml_spelling.in_text
        decode, encode = self._profile.decode, self._profile.encode
        return make(self._encoding, collapses=collapses, decode=decode, encode=encode)

    def _text_of(self, token: XmlToken) -> str:
        return token.raw.decode(self._encoding)

    def _raw(self, written: str) -> bytes:
        return written.encode(self._encoding)


def attribute_parts(tag: bytes, encoding: str, names: Collection[str]) -> list[bytes | Segment]:
    """Returns a tag, with the values of some of its attributes as segments.

    Args:
        tag: bytes of the tag.
        encoding: encoding of the document.
        names: names of the attributes, with their prefixes.
    """
    written = tag.decode(encoding)
    parts: list[bytes | Segment] = []
    begin = 0
    for match in xml_spelling.ATTRIBUTE.finditer(written):
        group = 3 if match[2] is None else 2
        value = match[group]
        if match[1] not in names or _ENTITY.search(value):
            continue
        spelling = xml_spelling.in_attribute(encoding, written[match.end() - 1])
        parts.append(written[begin : match.start(group)].encode(encoding))
        parts += map(_as_bytes, segments([Words(value)], spelling, kind="attribute"))
        begin = match.end(group)
    return [*parts, written[begin:].encode(encoding)]


def _kind(name: str) -> OpaqueKind:
    """What an instruction, or a tag in escaped text, does to the words beside it."""
    if name in LINE_BREAKS:
        return "break"
    return "hidden" if name == "wbr" else "object"


def _as_bytes(part: Raw | Segment) -> bytes | Segment:
    return part.content if isinstance(part, Raw) else part


def _as_part(part: bytes | Segment) -> Raw | Segment:
    return part if isinstance(part, Segment) else Raw(part)
