"""Tags in texts that are no markup, such as the messages of programs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from dragoman_documents.core.gaps import OpaqueKind
from dragoman_documents.core.segments import Opaque, Piece, Words

_TAG: Final = re.compile(r"<(/?)([a-zA-Z][\w:.-]*+|\d++)(?:\s[^<>]*+|/)?>")
_VOID: Final = frozenset(("br", "hr", "img", "input", "wbr"))
_KINDS: Final[dict[str, OpaqueKind]] = {"br": "break", "wbr": "hidden"}


def with_tags(pieces: Sequence[Piece], raw: Callable[[str], bytes]) -> Iterator[Piece]:
    """Yields pieces, with the tags in their words as elements.

    A tag without its other half, such as `<name>`, is a word.

    Args:
        pieces: pieces of a text.
        raw: returns the bytes of a tag.
    """
    words = [piece.written for piece in pieces if isinstance(piece, Words)]
    tags = [tag.groups() for written in words for tag in _TAG.finditer(written)]
    pairs = {name for slash, name in tags if not slash} & {name for slash, name in tags if slash}
    for piece in pieces:
        if not isinstance(piece, Words):
            yield piece
            continue
        begin = 0
        for tag in _TAG.finditer(piece.written):
            slash, name = tag.groups()
            is_void = tag[0].endswith("/>") or name.lower() in _VOID
            if not (is_void or name in pairs):
                continue
            if begin < tag.start():
                yield Words(piece.written[begin : tag.start()])
            pair = None if is_void else (name, not slash)
            yield Opaque((raw(tag[0]),), pair=pair, kind=_KINDS.get(name.lower(), "object"))
            begin = tag.end()
        if begin < len(piece.written):
            yield Words(piece.written[begin:])


def tag_spans(text: str) -> tuple[tuple[int, int], ...]:
    """Returns the spans of the tags in a text that cannot have elements."""
    at, spans = 0, []
    for piece in with_tags([Words(text)], str.encode):
        written = piece.written if isinstance(piece, Words) else ""
        if isinstance(piece, Opaque):
            (tag,) = piece.parts
            written = tag.decode() if isinstance(tag, bytes) else ""
            spans.append((at, at + len(written)))
        at += len(written)
    return tuple(spans)
