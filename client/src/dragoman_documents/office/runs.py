"""Reads XML whose paragraphs consist of runs, such as DOCX, as segments.

A text in a document is cut into runs: by bold type, but also by spell checkers, revisions and the
position of the cursor. Here a paragraph is one text, and its most common run is the run of all
words of the translation that no code covers.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from html import unescape
from itertools import islice
from typing import Final

from dragoman_documents.core.blocks import segments
from dragoman_documents.core.gaps import OpaqueKind
from dragoman_documents.core.pieces import Closing, Opaque, Opening, Piece, Words
from dragoman_documents.core.segments import Raw, Segment, Spelling
from dragoman_documents.office.atoms import Atom, Item, Look, Odd, Part, atoms_of, full
from dragoman_documents.office.run_profiles import RunProfile
from dragoman_documents.xml import xml_spelling
from dragoman_documents.xml.its_rules import local_name
from dragoman_documents.xml.xml_segmenter import attribute_parts
from dragoman_documents.xml.xml_tokens import XmlToken, XmlTokens

MOST_PARAGRAPH_BYTES: Final = 1 << 20
"""A longer paragraph is translated run by run."""
_WORD: Final = re.compile(r"[^\W\d_]{2}")
"""In an attribute; a single letter may be the sign of a list, in a font of symbols."""
_MOST_NESTED = 8
"""Maximum depth of paragraphs within paragraphs, as in text boxes."""


@dataclass(frozen=True)
class RunsSegment(Segment):
    """A paragraph.

    Attributes:
        before: what stands before its text, such as its properties.
        after: what stands behind it.
    """

    before: tuple[Part, ...] = ()
    after: tuple[Part, ...] = ()

    @property
    def attributes(self) -> tuple[Segment, ...]:
        """The texts in its objects, such as those of text boxes, in order."""
        inner = super().attributes
        return (*_segments_of(self.before), *inner, *_segments_of(self.after))

    def _written(
        self,
        translation: str,
        spans: Sequence[tuple[int, int]],
        children: Sequence[Sequence[int]],
        attributes: Sequence[bytes],
    ) -> Iterator[bytes]:
        written = iter(attributes)
        yield from _filled(self.before, written)
        inner = [*islice(written, len(super().attributes))]
        yield from super()._written(translation, spans, children, inner)
        yield from _filled(self.after, written)


def _segments_of(parts: Sequence[Part]) -> list[Segment]:
    return [part for part in parts if isinstance(part, Segment)]


def _filled(parts: Sequence[Part], written: Iterator[bytes]) -> Iterator[bytes]:
    return (next(written) if isinstance(part, Segment) else part for part in parts)


class RunSpelling(Spelling):
    """The spelling of text within its own elements: a run, or its text."""

    def raw(self, written: str) -> bytes:
        """Returns white space in elements."""
        return self.write(written) if written else b""


@dataclass(slots=True)
class _Open:
    """A paragraph that has not ended.

    Attributes:
        depth: depth of its element.
        items: its content.
        size: its size in bytes.
    """

    depth: int
    items: list[Item] = field(default_factory=list)
    size: int = 0


class RunReader:
    """Reads a document in chunks; see `dragoman_client.files.document_translation.Reader`."""

    warnings: Sequence[str] = ()

    def __init__(
        self, profile: RunProfile, relabel: Callable[[bytes], bytes] = lambda tags: tags
    ) -> None:
        """Start before the first chunk.

        Args:
            profile: the format.
            relabel: changes the language in the tags of a run whose text is translated.
        """
        self._profile, self._relabel = profile, relabel
        self._tokens = XmlTokens()
        self._path: list[str] = []
        self._opaque = 0
        """How many of the open elements are opaque."""
        self._open: list[_Open] = []
        self._out: list[Raw | Segment] = []

    def feed(self, chunk: bytes) -> list[Raw | Segment]:
        """Read the next chunk.

        Raises:
            ValueError: the document is not well-formed, or refused; the message says where.
        """
        return self._read(self._tokens.feed(chunk))

    def close(self) -> list[Raw | Segment]:
        """Returns the remaining parts; raises like `feed`."""
        return self._read(self._tokens.close())

    def _read(self, tokens: Sequence[XmlToken]) -> list[Raw | Segment]:
        for token in tokens:
            self._add(token)
        out, self._out = self._out, []
        return out

    def _add(self, token: XmlToken) -> None:
        if token.kind == "start":
            self._start(token)
        elif token.kind == "end":
            self._opaque -= self._path.pop() in self._profile.opaque
            if self._open and len(self._path) < self._open[-1].depth:
                opened = self._open.pop()
                for part in self._parts_of(opened.items):
                    self._put(Item((part,)))
            self._put(Item((token.raw,), token))
        else:
            self._put(Item((token.raw,), token, self._is_text(token)))

    def _start(self, token: XmlToken) -> None:
        name = local_name(token.name)
        self._path.append(name)
        self._opaque += name in self._profile.opaque
        self._put(Item(self._tag(token), token))
        is_paragraph = name in self._profile.paragraphs and not self._opaque
        if is_paragraph and len(self._open) < _MOST_NESTED:
            self._open.append(_Open(len(self._path)))

    def _put(self, item: Item) -> None:
        if not self._open:
            self._out += self._loose(item)
            return
        self._open[-1].items.append(item)
        self._open[-1].size += sum(map(_size, item.parts))
        if self._open[-1].size > MOST_PARAGRAPH_BYTES:
            opened, self._open = self._open, []
            for paragraph in opened:
                for item in paragraph.items:
                    self._out += self._loose(item)

    def _is_text(self, token: XmlToken) -> bool:
        profile, path = self._profile, self._path
        if token.kind != "text" or self._opaque or len(path) < 2:
            return False
        if path[-1] == profile.text:
            return path[-2] == profile.run or path[-2] in profile.paragraphs
        return not profile.direct.get(path[-1], frozenset()).isdisjoint(path)

    def _loose(self, item: Item) -> Iterator[Raw | Segment]:
        """Yields a token that is not part of a paragraph's text."""
        if item.is_text and item.token is not None:
            words = Words(item.token.raw.decode(self._tokens.encoding))
            yield from segments([words], self._plain())
            return
        for part in item.parts:
            yield part if isinstance(part, Segment) else Raw(part)

    def _plain(self) -> Spelling:
        profile = self._profile
        return xml_spelling.in_text(
            self._tokens.encoding, decode=profile.decode, encode=profile.encode
        )

    def _tag(self, token: XmlToken) -> tuple[Part, ...]:
        """Returns a start tag, with those of its attributes as segments that are texts."""
        name = local_name(token.name)
        known = self._profile.attributes.get(name, frozenset()) & token.attributes.keys()
        names = {key for key in known if _WORD.search(token.attributes[key])}
        if names and not self._opaque:
            return tuple(attribute_parts(token.raw, self._tokens.encoding, names))
        return (token.raw,)

    def _parts_of(self, items: list[Item]) -> list[Part]:
        """Returns the content of a paragraph."""
        if any(item.is_text for item in items):
            try:
                segment = self._segment(items)
            except Odd:
                parts = (part for item in items for part in self._loose(item))
                return [part.content if isinstance(part, Raw) else part for part in parts]
            if segment is not None:
                return [segment]
        return [part for item in items for part in item.parts]

    def _segment(self, items: list[Item]) -> Segment | None:
        """Make a text of a paragraph; None: it has no letters."""
        atoms = atoms_of(self._profile, items, self._look)
        if all(atom.kind != "text" for atom in atoms):
            return None
        first = next(index for index, item in enumerate(items) if item.is_text)
        element = items[first - 1].token
        if element is None or element.kind != "start":
            raise Odd
        name = element.name
        pieces, base = self._pieces(atoms, name)
        inner = {id(part) for atom in atoms for part in atom.parts}
        before: list[Part] = []
        after: list[Part] = []
        segment: Segment | None = None
        for part in segments(pieces, base):
            if isinstance(part, Segment) and id(part) not in inner:
                if segment is not None:
                    raise Odd
                segment = part
            else:
                content = part.content if isinstance(part, Raw) else part
                (before if segment is None else after).append(content)
        if segment is None:
            return None
        original = b"".join(
            part.original if isinstance(part, Segment) else part
            for item in items
            for part in item.parts
        )
        values = {
            member.name: getattr(segment, member.name) for member in dataclasses.fields(Segment)
        }
        values["original"] = original
        return RunsSegment(**values, before=tuple(before), after=tuple(after))

    def _look(self, start: XmlToken, properties: Sequence[XmlToken], end: bytes) -> Look:
        depth = 0
        key: list[object] = []
        begin = [start.raw]
        for token in properties:
            name = local_name(token.name)
            begin.append(token.raw)
            if token.kind == "start" and (depth or name in self._profile.ignored):
                depth += 1
            elif token.kind == "end" and depth:
                depth -= 1
            elif token.kind in ("start", "end") and not depth:
                ignored = self._profile.ignored
                values = {n: v for n, v in token.attributes.items() if n not in ignored}
                if values or name != self._profile.properties:
                    key.append((token.kind, token.name, *sorted(values.items())))
        return Look(tuple(key), self._relabel(b"".join(begin)), end)

    def _pieces(self, atoms: list[Atom], name: str) -> tuple[list[Piece], Spelling]:
        """Returns the pieces of a paragraph, and the spelling of text outside of codes."""
        bases = _bases(atoms)
        inner = self._spelling(None, name)
        spelling = {look: self._spelling(look, name) for look in bases}
        pieces: list[Piece] = []
        group: list[Atom] = []
        scopes = iter(bases)
        entered = [next(scopes)]

        def flush() -> None:
            if any(atom.kind == "text" and not atom.written.isspace() for atom in group):
                look = group[0].look
                assert look is not None
                pieces.append(Opening((look.begin,), inner))
                pieces.extend(map(_inner_piece, group))
                pieces.append(Closing((look.end,)))
            else:
                pieces.extend(map(_outer_piece, group))
            group.clear()

        for atom in atoms:
            base = entered[-1]
            if atom.look is not None and atom.look.key != base.key:
                if group and group[0].look is not None and group[0].look.key != atom.look.key:
                    flush()
                group.append(atom)
                continue
            flush()
            if atom.kind == "text":
                pieces.append(Words(atom.written))
            elif atom.kind == "open":
                entered.append(next(scopes))
                pieces.append(Opening(atom.parts, spelling[entered[-1]]))
            elif atom.kind == "close":
                entered.pop()
                parts = tuple(part for part in atom.parts if isinstance(part, bytes))
                if len(parts) < len(atom.parts):  # a text after all runs
                    raise Odd
                pieces.append(Closing(parts))
            else:
                pieces.append(_outer_piece(atom))
        flush()
        return _joined(pieces), spelling[bases[0]]

    def _spelling(self, look: Look | None, name: str) -> Spelling:
        """Returns the spelling of text in a run, or in the text of one."""
        plain, encoding = self._plain(), self._tokens.encoding
        begin, end = (look.begin, look.end) if look else (b"", b"")
        preserving = ' xml:space="preserve"' if self._profile.has_space else ""

        def write(text: str) -> bytes:
            if not text:
                return b""
            space = preserving if text != text.strip() else ""
            tag, closing = f"<{name}{space}>".encode(encoding), f"</{name}>".encode(encoding)
            return begin + tag + plain.write(text) + closing + end

        return RunSpelling(encoding, plain.read, write)


def _inner_piece(atom: Atom) -> Piece:
    return Words(atom.written) if atom.kind == "text" else Opaque(atom.parts, kind=atom.shows)


def _outer_piece(atom: Atom) -> Piece:
    kind: OpaqueKind = "object" if atom.kind == "text" else atom.shows
    return Opaque(full(atom), unescape(atom.written).strip(), kind=kind)


def _size(part: Part) -> int:
    return len(part.original if isinstance(part, Segment) else part)


def _joined(pieces: list[Piece]) -> list[Piece]:
    """Returns the pieces, with adjacent words joined."""
    joined: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, Words) and joined and isinstance(joined[-1], Words):
            joined[-1] = Words(joined[-1].written + piece.written)
        else:
            joined.append(piece)
    return joined


def _bases(atoms: list[Atom]) -> list[Look]:
    """Returns the most common run of the paragraph, and of each element in it, in order."""
    looks: list[dict[tuple[object, ...], Look]] = [{}]
    sizes: list[Counter[tuple[object, ...]]] = [Counter()]
    entered = [0]
    for atom in atoms:
        if atom.kind == "open":
            entered.append(len(looks))
            looks.append({})
            sizes.append(Counter())
        elif atom.kind == "close":
            entered.pop()
        elif atom.kind == "text" and atom.look is not None:
            looks[entered[-1]].setdefault(atom.look.key, atom.look)
            sizes[entered[-1]][atom.look.key] += len(atom.written)
    every, every_look = sum(sizes, Counter()), {k: v for by_key in looks for k, v in by_key.items()}
    return [
        (by_key or every_look)[(size or every).most_common(1)[0][0]]
        for by_key, size in zip(looks, sizes, strict=True)
    ]
