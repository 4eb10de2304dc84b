"""Texts of XML from tokens whose roles are known."""

from __future__ import annotations

import html.entities
import re
from dataclasses import dataclass, field

from dragoman_client.markup import xml_spelling
from dragoman_client.markup.its_rules import local_name
from dragoman_client.markup.outline import Item
from dragoman_client.markup.segments import (
    Closing,
    Opaque,
    Opening,
    Piece,
    Raw,
    Segment,
    Spelling,
    Words,
    segments,
)
from dragoman_client.markup.xml_profiles import Role, XmlProfile
from dragoman_client.markup.xml_tokens import XmlToken

MOST_RUN_BYTES = 1 << 20
"""A text that is longer is parted where it is."""
_MOST_NESTED = 8
"""Texts within texts."""
_MOST_KEPT = 1000
"""Characters of what is kept that its sentence is translated with."""

_ATTRIBUTE = re.compile(r"""([^\s=/>]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_ENTITY = re.compile(r"&(?!#|(?:lt|gt|amp|quot|apos);)")
_TAG = re.compile(r"<(/?)([a-zA-Z][\w:-]*)[^<>]*>")
_ESCAPED_TAG = re.compile(r"&lt;(/?)([a-zA-Z][\w:-]*)(?:(?!&[lg]t;)[^<>])*(?:&gt;|>)")
_CDATA, _CDATA_END = "<![CDATA[", "]]>"


@dataclass
class _Run:
    """Pieces of a text that is not complete.

    Attributes:
        out: where its segments go.
        pieces: so far.
        size: of their bytes.
        preserves: whether spaces count in it.
        tag: of a nested one, the tag before it.
    """

    out: list[Raw | Segment]
    pieces: list[Piece] = field(default_factory=list)
    size: int = 0
    preserves: bool = False
    tag: tuple[bytes | Segment, ...] = ()


@dataclass
class _Held:
    """An element that is moved as it is, as far as it is read.

    Attributes:
        parts: of it.
        shows: whether its text is shown to the model.
        pair: that it is one of.
        texts: in it.
        depth: elements in it that are open, and itself.
        subflow: reads an element in it that has a text of its own.
        subflow_depth: of that element.
    """

    parts: list[bytes | Segment]
    shows: bool
    pair: tuple[str, bool] | None = None
    texts: list[str] = field(default_factory=list)
    depth: int = 1
    subflow: XmlSegmenter | None = None
    subflow_depth: int = 0


class XmlSegmenter:
    """Makes segments of items."""

    def __init__(self, profile: XmlProfile, encoding: str) -> None:
        """Begin.

        Args:
            profile: of the document.
            encoding: likewise.
        """
        self._profile, self._encoding = profile, encoding
        self._runs = [_Run([])]
        self._roles: list[tuple[Role, bool]] = [("block", True)]
        """Of the elements around, and whether their text is translated."""
        self._held: _Held | None = None
        self._text = {collapses: self._spelling(False, collapses) for collapses in (False, True)}
        self._cdata = {collapses: self._spelling(True, collapses) for collapses in (False, True)}

    def add(self, item: Item) -> None:
        """Read on."""
        token = item.token
        if self._held is not None:
            self._hold(item, self._held)
        elif token.kind == "start":
            self._start(item)
        elif token.kind == "end":
            self._end(token)
        elif token.kind in ("comment", "instruction"):
            self._add(Opaque((token.raw,)), token)
        elif token.kind == "other" or not item.is_translated:
            self._border((token.raw,))
        else:
            self._add_text(item)

    def take(self) -> list[Raw | Segment]:
        """What is complete."""
        out, self._runs[0].out = self._runs[0].out, []
        return out

    def finish(self) -> list[Raw | Segment]:
        """All that is left."""
        self._flush()
        return self.take()

    def _start(self, item: Item) -> None:
        token, role = item.token, item.role
        was_translated = self._roles[-1][1]
        if role == "inline" and was_translated and not item.is_translated:
            role = "keep"
        elif role in ("inline", "keep", "opaque", "nested") and not item.is_translated:
            role = "block"
        elif role == "nested" and len(self._runs) > _MOST_NESTED:
            role = "opaque"
        parts = self._parts(item)
        if role in ("keep", "opaque"):
            self._held = _Held(parts, role == "keep", self._pair(token))
        elif role == "inline" and self._text_of(token).endswith("/>"):
            self._held = _Held(parts, False)
        else:
            self._roles.append((role, item.is_translated and role != "skip"))
            if role == "inline":
                self._add(Opening(tuple(parts)), token)
            elif role == "nested":
                self._runs.append(_Run([], preserves=item.preserves, tag=tuple(parts)))
            else:
                self._border(tuple(parts))
        self._runs[-1].preserves = item.preserves

    def _end(self, token: XmlToken) -> None:
        role, _ = self._roles.pop()
        if role == "inline":
            self._add(Closing((token.raw,)), token)
        elif role == "nested":
            self._flush()
            run = self._runs.pop()
            inner = (one.content if isinstance(one, Raw) else one for one in run.out)
            self._add(Opaque((*run.tag, *inner, token.raw)), token)
        else:
            self._border((token.raw,))

    def _hold(self, item: Item, held: _Held) -> None:
        token = item.token
        held.depth += (token.kind == "start") - (token.kind == "end")
        if held.subflow is not None:
            if held.depth >= held.subflow_depth:
                held.subflow.add(item._replace(is_translated=True))
                return
            found = held.subflow.finish()
            held.parts += (one.content if isinstance(one, Raw) else one for one in found)
            held.subflow = None
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
            text = " ".join("".join(held.texts).split()) if held.shows else ""
            shown = text if len(text) <= _MOST_KEPT else ""
            self._add(Opaque(tuple(held.parts), shown, held.pair), token)

    def _add(self, piece: Piece, token: XmlToken) -> None:
        run = self._runs[-1]
        run.pieces.append(piece)
        run.size += len(token.raw)
        if run.size > MOST_RUN_BYTES:
            self._flush()

    def _add_text(self, item: Item) -> None:
        token = item.token
        self._runs[-1].preserves = item.preserves
        written = self._text_of(token)
        if token.kind == "cdata":
            spelling = self._cdata[not item.preserves]
            self._add(Opening((self._raw(_CDATA),), spelling), token)
            self._add_words(written[len(_CDATA) : -len(_CDATA_END)], _TAG, token)
            self._add(Closing((self._raw(_CDATA_END),)), token)
        elif token.kind == "text":
            self._add_words(written, _ESCAPED_TAG, token)
        elif token.text or f"{token.name};" not in html.entities.html5:
            self._add(Opaque((token.raw,), (token.text or token.name)[:_MOST_KEPT]), token)
        else:
            self._add_words(written, None, token)

    def _add_words(self, written: str, tags: re.Pattern[str] | None, token: XmlToken) -> None:
        """Words, and the tags of HTML in them."""
        begin = 0
        found_tags = tags.finditer(written) if tags and self._profile.has_tags_as_text else ()
        for found in found_tags:
            self._join_words(written[begin : found.start()], token)
            pair = (found[2].lower(), not found[1])
            self._add(Opaque((self._raw(found[0]),), pair=pair), token)
            begin = found.end()
        self._join_words(written[begin:], token)

    def _join_words(self, written: str, token: XmlToken) -> None:
        pieces = self._runs[-1].pieces
        if pieces and isinstance(last := pieces[-1], Words):
            pieces.pop()
            written = last.written + written
        if written:
            self._add(Words(written), token)

    def _border(self, parts: tuple[bytes | Segment, ...]) -> None:
        self._flush()
        for part in parts:
            self._runs[-1].out.append(part if isinstance(part, Segment) else Raw(part))

    def _flush(self) -> None:
        run = self._runs[-1]
        if run.pieces:
            spelling = self._text[not run.preserves]
            run.out += segments(run.pieces, spelling, keep=self._profile.keep)
        run.pieces, run.size = [], 0

    def _parts(self, item: Item) -> list[bytes | Segment]:
        """A tag, with the values of its attributes that are texts."""
        token = item.token
        if not item.texts:
            return [token.raw]
        written = self._text_of(token)
        parts: list[bytes | Segment] = []
        begin = 0
        for found in _ATTRIBUTE.finditer(written):
            group = 3 if found[2] is None else 2
            value = found[group]
            if found[1] not in item.texts or _ENTITY.search(value):
                continue
            spelling = xml_spelling.in_attribute(self._encoding, written[found.end() - 1])
            parts.append(self._raw(written[begin : found.start(group)]))
            found_segments = segments([Words(value)], spelling, kind="attribute")
            parts += (one.content if isinstance(one, Raw) else one for one in found_segments)
            begin = found.end(group)
        return [*parts, self._raw(written[begin:])]

    def _pair(self, token: XmlToken) -> tuple[str, bool] | None:
        """The pair that an element is one of, by its attributes."""
        pair = self._profile.pairs.get(local_name(token.name))
        if pair is None:
            return None
        name = next((token.attributes[one] for one in pair.ids if one in token.attributes), None)
        return None if name is None else (f"{pair.kind} {name}", pair.is_first)

    def _spelling(self, is_cdata: bool, collapses: bool) -> Spelling:
        make = xml_spelling.in_cdata if is_cdata else xml_spelling.in_text
        decode, encode = self._profile.decode, self._profile.encode
        return make(self._encoding, collapses=collapses, decode=decode, encode=encode)

    def _text_of(self, token: XmlToken) -> str:
        return token.raw.decode(self._encoding)

    def _raw(self, written: str) -> bytes:
        return written.encode(self._encoding)
