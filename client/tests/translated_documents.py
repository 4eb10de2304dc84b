"""Documents translated by artificial translators."""

from __future__ import annotations

import re
import string
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Protocol

from dragoman_documents.core.segments import Raw, Segment
from dragoman_options.markup import PlacedCodes

Translator = Callable[[Segment], tuple[str, PlacedCodes]]


class Reader(Protocol):
    """Reads a document in chunks."""

    def feed(self, chunk: bytes) -> list[Raw | Segment]: ...

    def close(self) -> Iterable[Raw | Segment]: ...


def read(reader: Reader, document: bytes, chunk: int = 1 << 16) -> list[Raw | Segment]:
    parts: list[Raw | Segment] = []
    for begin in range(0, len(document), chunk):
        parts += reader.feed(document[begin : begin + chunk])
    return [*parts, *reader.close()]


def texts(reader: Reader, document: bytes, chunk: int = 1 << 16) -> list[str]:
    return [part.text for part in read(reader, document, chunk) if isinstance(part, Segment)]


def original(reader: Reader, document: bytes) -> bytes:
    """The bytes that the reader returns, joined."""
    parts = read(reader, document)
    return b"".join(part.content if isinstance(part, Raw) else part.original for part in parts)


def written(reader: Reader, document: bytes, translate: Translator) -> bytes:
    def write(segment: Segment) -> bytes:
        segment.markup.check(segment.text)
        return segment.write(
            *translate(segment), [write(attribute) for attribute in segment.attributes]
        )

    parts = read(reader, document)
    return b"".join(part.content if isinstance(part, Raw) else write(part) for part in parts)


def spans(segment: Segment) -> tuple[tuple[int, int], ...]:
    return tuple((begin, end) for begin, end, _ in segment.markup.codes)


def identity(segment: Segment) -> tuple[str, PlacedCodes]:
    return segment.text, PlacedCodes(spans(segment))


def hostile(noise: str) -> Translator:
    """A translator that adds text which looks like markup."""

    def translate(segment: Segment) -> tuple[str, PlacedCodes]:
        shifted = tuple((begin + len(noise), end + len(noise)) for begin, end in spans(segment))
        return noise + segment.text + noise, PlacedCodes(shifted)

    return translate


SWAPPED = str.maketrans(
    f"{string.ascii_lowercase}{string.ascii_uppercase}",
    f"{string.ascii_uppercase}{string.ascii_lowercase}",
)


def swapped(segment: Segment) -> tuple[str, PlacedCodes]:
    """A translator that swaps upper and lower case, and keeps everything else."""
    return segment.text.translate(SWAPPED), PlacedCodes(spans(segment))


def shuffled(random: Random) -> Translator:
    """A translator that moves words and elements, each within its parent element."""

    def translate(segment: Segment) -> tuple[str, PlacedCodes]:
        codes = segment.markup.codes
        children: dict[int | None, list[int]] = defaultdict(list)
        for index, code in enumerate(codes):
            children[code.parent].append(index)
        placed = [(0, 0)] * len(codes)
        written: list[str] = []
        length = 0
        root: list[str | int] = _parts(segment, None, children, random)
        entered: list[tuple[int | None, int, Iterator[str | int]]] = [(None, 0, iter(root))]
        while entered:
            index, begin, parts = entered[-1]
            part = next(parts, None)
            if part is None:
                entered.pop()
                if index is not None:
                    placed[index] = begin, length
            elif isinstance(part, str):
                written.append(part)
                length += len(part)
            else:
                entered.append((part, length, iter(_parts(segment, part, children, random))))
        return "".join(written), PlacedCodes(tuple(placed))

    return translate


def _parts(
    segment: Segment, parent: int | None, children: dict[int | None, list[int]], random: Random
) -> list[str | int]:
    """The words of an element, each with the space after it, and the indices of its codes."""
    codes = segment.markup.codes
    position, end = (0, len(segment.text)) if parent is None else codes[parent][:2]
    pieces: list[str | int] = []
    for index in children[parent]:
        pieces += re.findall(r"\S+\s*|\s+", segment.text[position : codes[index].begin])
        pieces.append(index)
        position = codes[index].end
    pieces += re.findall(r"\S+\s*|\s+", segment.text[position:end])
    if parent is None or not segment.tags[parent].is_opaque:
        random.shuffle(pieces)
    return pieces


def careless(random: Random) -> Translator:
    """A translator that loses or adds codes, and puts them at random positions."""

    def translate(segment: Segment) -> tuple[str, PlacedCodes]:
        number = max(0, len(segment.markup.codes) + random.choice((-1, 0, 0, 1)))
        most = len(segment.text) + 2
        moved = tuple((random.randint(-2, most), random.randint(-2, most)) for _ in range(number))
        return segment.text, PlacedCodes(moved)

    return translate


def blank(space: str) -> Translator:
    """A translator that returns nothing but white space."""

    def translate(segment: Segment) -> tuple[str, PlacedCodes]:
        return space, PlacedCodes(((0, 0),) * len(segment.markup.codes))

    return translate


def at_once(segment: Segment) -> tuple[str, PlacedCodes]:
    """A translator that returns no text, so that all elements are empty."""
    return "", PlacedCodes(((0, 0),) * len(segment.markup.codes))
