"""The content of a paragraph: texts, objects and tags, with the fields and ranges among them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import accumulate
from typing import Literal, NamedTuple

from dragoman_documents.core.gaps import OpaqueKind
from dragoman_documents.core.segments import Segment
from dragoman_documents.office.run_profiles import Range, RunProfile
from dragoman_documents.xml.its_rules import local_name
from dragoman_documents.xml.xml_tokens import XmlToken

Part = bytes | Segment

_COMPUTED = re.compile(
    rb"""(?:instrText\b[^>]{0,99}+>|instr=["'])\s*+(?:NUMPAGES|PAGE|PAGEREF|SECTIONPAGES|SECTION|SEQ|NOTEREF|"""
    rb"(?:CREATE|SAVE|PRINT)?DATE|TIME|EDITTIME|AUTHOR|LASTSAVEDBY|FILENAME|NUMWORDS|LISTNUM)\b"
)
"""The code of a field whose result is not language."""


class Odd(Exception):
    """A paragraph cannot be rewritten as a whole; each of its runs is translated alone."""


class Look(NamedTuple):
    """Properties of a run.

    Attributes:
        key: what two runs of a text have in common.
        begin: bytes of the run before its text.
        end: bytes after it.
    """

    key: tuple[object, ...]
    begin: bytes
    end: bytes


@dataclass(slots=True)
class Atom:
    """A text, an object, or a tag in a paragraph.

    Attributes:
        kind: what it is.
        parts: bytes of the object or tag, and texts in them.
        written: the text, escaped.
        look: properties of the run that it is in; None: it is in no run.
        shows: what the object does to the words beside it.
        step: part of a field: `begin`, `separate` or `end`.
        range: range that it begins or ends, with its id.
        is_field: whether the tag is of a field.
    """

    kind: Literal["text", "object", "open", "close"]
    parts: tuple[Part, ...] = ()
    written: str = ""
    look: Look | None = None
    shows: OpaqueKind = "hidden"
    step: str = ""
    range: tuple[Range, str] | None = None
    is_field: bool = False


class Item(NamedTuple):
    """A token of a paragraph, or a paragraph in it.

    Attributes:
        parts: its bytes, and the texts in them.
        token: the token; None: a paragraph.
        is_text: whether it is text to translate.
    """

    parts: tuple[Part, ...]
    token: XmlToken | None = None
    is_text: bool = False


OpenLook = Callable[[XmlToken, Sequence[XmlToken], bytes], Look]
"""Returns the properties of a run from its start tag, its properties, and its end tag."""


def atoms_of(profile: RunProfile, items: list[Item], look: OpenLook) -> list[Atom]:
    """Returns the content of a paragraph.

    Args:
        profile: the format.
        items: tokens of the paragraph.
        look: makes properties of runs.

    Raises:
        Odd: the paragraph has a structure that is not known.
    """
    return _without_spaces(_with_ranges(_with_fields([*_Atoms(profile, items, look)])))


def full(atom: Atom) -> tuple[Part, ...]:
    """Returns all of an atom, in a run of its own if it is in one."""
    return atom.parts if atom.look is None else (atom.look.begin, *atom.parts, atom.look.end)


class _Atoms:
    """The content of a paragraph; iterating raises `Odd` for a structure that is not known."""

    def __init__(self, profile: RunProfile, items: list[Item], look: OpenLook) -> None:
        self._profile, self._items, self._look = profile, items, look
        self._position = 0

    def __iter__(self) -> Iterator[Atom]:
        profile = self._profile
        ends: list[int] = []
        while self._position < len(self._items):
            item = self._items[self._position]
            token = item.token
            if token is None:
                raise Odd
            name = local_name(token.name)
            if token.kind == "end":
                yield Atom("close", self._through(ends.pop()))
            elif token.kind != "start":
                if token.kind != "text" or token.text.strip():
                    raise Odd
                self._position += 1
            elif name == profile.run:
                yield from self._run()
            elif name == profile.text:
                yield from self._text(Look((), b"", b""))
            elif name in profile.wrappers and not _is_computed(item.parts):
                self._position += 1
                ends.append(1)
                yield Atom("open", (*item.parts, *self._head()))
            elif name in profile.shells:
                parts = self._until(profile.shells[name])
                ends.append(2)
                yield Atom("open", parts)
            elif name in profile.dropped:
                self._subtree()
            else:
                yield self._object(None)

    def _head(self) -> Iterator[Part]:
        """Yield the elements that must stay at the beginning of a wrapper."""
        while (
            (token := self._items[self._position].token) is not None
            and token.kind == "start"
            and local_name(token.name) in self._profile.heads
        ):
            yield from self._subtree()

    def _through(self, count: int) -> tuple[Part, ...]:
        """Returns everything through the next `count` end tags of the level."""
        parts: list[Part] = []
        while count:
            item = self._items[self._position]
            if item.token is not None and item.token.kind == "end":
                parts += item.parts
                self._position += 1
                count -= 1
            else:
                parts += self._subtree()
        return tuple(parts)

    def _until(self, inner: str) -> tuple[Part, ...]:
        """Returns everything through the start tag of an element in this one."""
        parts: list[Part] = [*self._items[self._position].parts]
        self._position += 1
        while True:
            item = self._items[self._position]
            if item.token is None or item.token.kind == "end":
                raise Odd
            if item.token.kind == "start" and local_name(item.token.name) == inner:
                self._position += 1
                return (*parts, *item.parts)
            parts += self._subtree()

    def _subtree(self) -> list[Part]:
        """Returns an element with its content, or another token."""
        parts: list[Part] = []
        depth = 0
        while True:
            item = self._items[self._position]
            self._position += 1
            parts += item.parts
            if item.token is not None:
                depth += (item.token.kind == "start") - (item.token.kind == "end")
            if depth <= 0:
                return parts

    def _run(self) -> Iterator[Atom]:
        begin = self._position
        token = self._items[begin].token
        assert token is not None
        self._position += 1
        properties: list[XmlToken] = []
        atoms: list[Atom] = []
        draft = Look((), b"", b"")
        while True:
            item = self._items[self._position]
            if item.token is None:
                raise Odd
            name = local_name(item.token.name)
            if item.token.kind == "end":
                break
            if item.token.kind != "start":
                if item.token.kind != "text" or item.token.text.strip():
                    raise Odd
                self._position += 1
            elif name == self._profile.properties:
                first = self._position
                self._subtree()
                inner = self._items[first : self._position]
                properties += [item.token for item in inner if item.token is not None]
            elif name == self._profile.text:
                atoms += self._text(draft)
            elif name in self._profile.characters:
                parts = tuple(self._subtree())
                atoms.append(Atom("text", parts, self._profile.characters[name], draft))
            elif name in self._profile.dropped:
                self._subtree()
            else:
                atoms.append(self._object(draft))
        self._position += 1
        if atoms:
            look = self._look(token, properties, item.token.raw)
            for atom in atoms:
                atom.look = look
        yield from atoms

    def _text(self, look: Look) -> Iterator[Atom]:
        self._position += 1
        begin, written = self._position - 1, ""
        while True:
            token = self._items[self._position].token
            self._position += 1
            if token is None or token.kind not in ("text", "cdata", "end"):
                raise Odd
            if token.kind == "end":
                break
            written += escape(token.text, quote=False)
        if written:
            items = self._items[begin : self._position]
            parts = tuple(part for item in items for part in item.parts)
            yield Atom("text", parts, written, look)

    def _object(self, look: Look | None) -> Atom:
        profile = self._profile
        token = self._items[self._position].token
        assert token is not None
        name, attributes = local_name(token.name), token.attributes
        begin = self._position
        parts = tuple(self._subtree())
        inside = self._items[begin : self._position]
        shows: OpaqueKind = "object" if name in profile.objects else "hidden"
        if name in profile.breaks:
            shows = "break"
        elif any(
            item.token is not None and local_name(item.token.name) == "inline" for item in inside
        ):
            shows = "object"
        values = {local_name(key): value for key, value in attributes.items()}
        mark = profile.ranges.get(name)
        texts = (item.token.text for item in inside if item.is_text and item.token is not None)
        shown = " ".join("".join(texts).split())
        return Atom(
            "object",
            parts,
            escape(shown, quote=False),
            look=look,
            shows=shows,
            step=values.get("fldCharType", "") if name == "fldChar" else "",
            range=None if mark is None else (mark, values.get("id", "")),
        )


def _with_fields(atoms: list[Atom]) -> list[Atom]:
    """Returns the atoms, with fields as objects, or as tags around their results."""
    new_atoms: list[Atom] = []
    begun: list[tuple[int, bool]] = []
    """For each open field: its index, and whether its result has begun."""
    for atom in atoms:
        if atom.step == "begin":
            begun.append((len(new_atoms), False))
        elif atom.step == "separate" and begun and not begun[-1][1]:
            begun[-1] = begun[-1][0], True
            atom = Atom("open", _merged(new_atoms, begun[-1][0], atom), is_field=True)
        elif atom.step == "end" and begun:
            index, has_result = begun.pop()
            if has_result and _is_computed(new_atoms[index].parts):
                shown = "".join(atom.written for atom in new_atoms[index:] if atom.kind == "text")
                atom = Atom("object", _merged(new_atoms, index, atom), shown, shows="object")
            elif has_result:
                atom = Atom("close", full(atom), is_field=True)
            else:
                atom = Atom("object", _merged(new_atoms, index, atom))
        new_atoms.append(atom)
    first, last = _texts(new_atoms)
    for index, _ in begun:
        if index > first:
            raise Odd
        new_atoms[index].kind = "object"
    _check_fields(new_atoms, last)
    return new_atoms


def _check_fields(atoms: list[Atom], last: int) -> None:
    """Raises `Odd` if fields end in the text that begin elsewhere, or if tags overlap."""
    if any(atom.step in ("separate", "end") for atom in atoms[:last]):
        raise Odd
    entered: list[bool] = []
    for atom in atoms:
        if atom.kind == "open":
            entered.append(atom.is_field)
        elif atom.kind == "close" and (not entered or entered.pop() != atom.is_field):
            raise Odd


def _is_computed(code: tuple[Part, ...]) -> bool:
    """Whether a program computes the result of a field, such as a page number."""
    written = b"".join(part for part in code if isinstance(part, bytes))
    return _COMPUTED.search(written.replace(b"\0", b"")) is not None


def _merged(preceding: list[Atom], index: int, last: Atom) -> tuple[Part, ...]:
    """Remove the atoms from an index on; returns them and another one as they are."""
    atoms = [*preceding[index:], last]
    del preceding[index:]
    depths = [*accumulate((atom.kind == "open") - (atom.kind == "close") for atom in atoms)]
    if min(depths) < 0 or depths[-1]:
        raise Odd
    return tuple(part for atom in atoms for part in full(atom))


def _with_ranges(atoms: list[Atom]) -> list[Atom]:
    """Returns the atoms, with ranges as tags if they contain whole elements.

    Other ranges are widened to the beginning or end of the text: their two marks stay in order.
    """
    pairs = _range_pairs(atoms)
    closing = {*pairs.values()}
    first, last = _texts(atoms)
    kept: list[Atom] = []
    starts: list[Atom] = []
    ends: list[Atom] = []
    for index, atom in enumerate(atoms):
        if (end := pairs.get(index)) is not None:
            is_empty = end == index + 1
            parts = (*atom.parts, *atoms[end].parts) if is_empty else atom.parts
            kept.append(Atom("object" if is_empty else "open", parts))
        elif index in closing:
            if pairs.get(index - 1) != index:
                kept.append(Atom("close", atom.parts))
        elif atom.range is None or atom.look is not None or not first < index < last:
            kept.append(atom)
        else:
            (starts if atom.range[0].is_first else ends).append(atom)
    first, last = _texts(kept)
    return [*kept[:first], *starts, *kept[first : last + 1], *ends, *kept[last + 1 :]]


def _range_pairs(atoms: list[Atom]) -> dict[int, int]:
    """Returns the index of the end of each range that contains whole elements, by its begin."""
    pairs: dict[int, int] = {}
    entered: list[tuple[object, int]] = []
    for index, atom in enumerate(atoms):
        if atom.kind == "open":
            entered.append((None, index))
        elif atom.kind == "close":
            while entered.pop()[0] is not None:
                pass
        elif atom.range is not None and atom.look is None:
            (kind, is_first), name = atom.range
            if is_first:
                entered.append(((kind, name), index))
            elif entered and entered[-1][0] == (kind, name):
                pairs[entered.pop()[1]] = index
    return pairs


def _texts(atoms: list[Atom]) -> tuple[int, int]:
    """Returns the indices of the first and the last text, or element with one."""
    known = [index for index, atom in enumerate(atoms) if atom.kind != "object"]
    return (known[0], known[-1]) if known else (len(atoms), -1)


def _without_spaces(atoms: list[Atom]) -> list[Atom]:
    """Returns the atoms; a single space has the properties of the text before it."""
    look: Look | None = None
    new_atoms: list[Atom] = []
    for atom in atoms:
        if atom.kind == "text":
            atom = replace(atom, look=look) if look and atom.written == " " else atom
            look = atom.look
        elif atom.kind != "object":
            look = None
        new_atoms.append(atom)
    return new_atoms
