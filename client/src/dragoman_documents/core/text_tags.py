"""Tags in texts that are no markup, such as the messages of programs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import Final

from dragoman_documents.core.gaps import OpaqueKind
from dragoman_documents.core.pieces import Opaque, Piece, Words

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
    pairs = _pairs(piece.written for piece in pieces if isinstance(piece, Words))
    for piece in pieces:
        if not isinstance(piece, Words):
            yield piece
            continue
        begin = 0
        for tag in _elements(piece.written, pairs):
            if begin < tag.start():
                yield Words(piece.written[begin : tag.start()])
            slash, name = tag.groups()
            pair = None if _is_void(tag) else (name, not slash)
            yield Opaque((raw(tag[0]),), pair=pair, kind=_KINDS.get(name.lower(), "object"))
            begin = tag.end()
        if begin < len(piece.written):
            yield Words(piece.written[begin:])


def tag_spans(text: str) -> tuple[tuple[int, int], ...]:
    """Returns the spans of the tags in a text that cannot have elements."""
    return tuple(tag.span() for tag in _elements(text, _pairs([text])))


def _pairs(texts: Iterable[str]) -> set[str]:
    """Names of tags of which there are both halves."""
    tags = [tag.groups() for text in texts for tag in _TAG.finditer(text)]
    return {name for slash, name in tags if not slash} & {name for slash, name in tags if slash}


def _elements(text: str, pairs: Set[str]) -> Iterator[re.Match[str]]:
    return (tag for tag in _TAG.finditer(text) if _is_void(tag) or tag[2] in pairs)


def _is_void(tag: re.Match[str]) -> bool:
    return tag[0].endswith("/>") or tag[2].lower() in _VOID
