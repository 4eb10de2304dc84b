"""Documents read and written with made-up translators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from dragoman_client.markup.segments import Raw, Segment
from dragoman_options.markup import PlacedCodes

Translator = Callable[[Segment], tuple[str, PlacedCodes]]


class Reader(Protocol):
    """Reads a document in chunks."""

    def feed(self, chunk: bytes) -> list[Raw | Segment]: ...

    def close(self) -> list[Raw | Segment]: ...


def read(reader: Reader, document: bytes, chunk: int = 1 << 16) -> list[Raw | Segment]:
    parts: list[Raw | Segment] = []
    for begin in range(0, len(document), chunk):
        parts += reader.feed(document[begin : begin + chunk])
    return parts + reader.close()


def texts(reader: Reader, document: bytes, chunk: int = 1 << 16) -> list[str]:
    return [part.text for part in read(reader, document, chunk) if isinstance(part, Segment)]


def original(reader: Reader, document: bytes) -> bytes:
    """What was read, joined."""
    parts = read(reader, document)
    return b"".join(part.content if isinstance(part, Raw) else part.original for part in parts)


def written(reader: Reader, document: bytes, translate: Translator) -> bytes:
    def write(segment: Segment) -> bytes:
        segment.markup.check(segment.text)
        return segment.write(*translate(segment), [write(one) for one in segment.attributes])

    parts = read(reader, document)
    return b"".join(part.content if isinstance(part, Raw) else write(part) for part in parts)


def spans(segment: Segment) -> tuple[tuple[int, int], ...]:
    return tuple((begin, end) for begin, end, _ in segment.markup.codes)


def identity(segment: Segment) -> tuple[str, PlacedCodes]:
    return segment.text, PlacedCodes(spans(segment))


def hostile(noise: str) -> Translator:
    """A translator that adds text, without regard to what it means in markup."""

    def translate(segment: Segment) -> tuple[str, PlacedCodes]:
        shifted = tuple((begin + len(noise), end + len(noise)) for begin, end in spans(segment))
        return noise + segment.text + noise, PlacedCodes(shifted)

    return translate


def at_once(segment: Segment) -> tuple[str, PlacedCodes]:
    """No text is left, and all elements are empty."""
    return "", PlacedCodes(((0, 0),) * len(segment.markup.codes))
