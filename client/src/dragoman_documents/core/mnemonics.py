"""Marks that make a letter of a label the key that chooses it, such as `&File` and `_Open`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from dragoman_documents.core.pieces import Closing, Opening, Piece, Words

_WORD: Final = r"(?<!\S)([^\W\d_]*+){}([^\W\d_]++)(?=[.,:!?\u2026)]*+(?!\S))"
_WORDS: Final = {mark: re.compile(_WORD.format(mark)) for mark in ("&", "&amp;", "_")}


def with_mnemonic(
    written: str, marks: Sequence[str], raw: Callable[[str], bytes]
) -> Iterator[Piece]:
    """Yields the words of a label, with the mark in one of them as a tag around its letters.

    Words such as `R&D`, `file_name` and `&nbsp;` have no mark.

    Args:
        written: the label.
        marks: the marks that it may have: `&`, `&amp;` or `_`; the first one that it has counts.
        raw: returns the bytes of a mark.
    """
    for mark in marks:
        words = [
            word for word in _WORDS[mark].finditer(written) if _is_marked(mark, *word.groups())
        ]
        if len(words) == 1 == written.count(mark):
            begin, end = words[0].span(2)
            parts = written[: begin - len(mark)], written[begin:end], written[end:]
            yield from [Words(parts[0])] if parts[0] else []
            yield Opening((raw(mark),))
            yield Words(parts[1])
            yield Closing((b"",))
            yield from [Words(parts[2])] if parts[2] else []
            return
    yield Words(written)


def without_mnemonic(written: str, marks: Sequence[str]) -> str:
    """Returns a label without its mark; see `with_mnemonic`."""
    pieces = with_mnemonic(written, marks, str.encode)
    return "".join(piece.written for piece in pieces if isinstance(piece, Words))


def _is_marked(mark: str, before: str, after: str) -> bool:
    if before:
        return after[0].islower() and (mark != "_" or before[0].isupper())
    return mark != "_" or after[0].isupper()
