"""White space beside elements without text, such as images, fields and line breaks.

A text has one space, or none, in place of the white space on both sides of such an element, since
its translation cannot have more. Here it is put back.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, Literal

from dragoman_options.markup import Code

OpaqueKind = Literal["object", "break", "hidden"]
"""What an element without text does to the words beside it.

- object: it is between two words, such as an image.
- break: it ends a line, and so the sentence before it.
- hidden: nothing is shown, so the letters beside it may be one word, such as a comment.
"""
BREAK: Final = "\u2028"
"""Stands for a line break element in a text. Servers end a sentence there, as at a line feed."""
_OPENING: Final = frozenset("([{\u201e\u00ab\u2039\u00bf\u00a1")
_CLOSING: Final = frozenset(".,;:!?)]}\u2026\u201d\u00bb\u203a")
"""Marks with no space after them, and before them, unless the source has one."""


def touches_one_word(last: str, spaces: tuple[str, str], following: str) -> bool:
    """Whether an element stands beside a word, and white space, which stays in the text."""
    before, after = spaces
    if before and not after:
        return following != "" and following not in _CLOSING
    return after != "" and not before and last.strip() != "" and last not in _OPENING


def separator(last: str, kind: OpaqueKind, spaces: tuple[str, str], following: str) -> str:
    """The text in place of an element without text: a space if it is between two words.

    Args:
        last: the character before it, or an empty string.
        kind: its kind.
        spaces: the white space on its two sides in the document.
        following: the character after it, or an empty string.
    """
    before, after = spaces
    if not last.strip() or not following.strip():
        return ""
    if not before and not after:
        is_between = (last.isalnum() or last in _CLOSING) and following.isalnum()
        return " " if is_between and kind != "hidden" else ""
    return " " if before and after else ""


class Gaps:
    """The white space to write with the elements of a translation, in the order of its bytes.

    It is as in the source, unless there is a punctuation mark that has none on this side.
    """

    def __init__(
        self, text: str, codes: Sequence[Code], spaces: Sequence[tuple[str, str] | None]
    ) -> None:
        """Start at the beginning of a translation.

        Args:
            text: the source text.
            codes: its codes.
            spaces: for each opaque code, white space before and after it that is not in the text;
                None for other codes.
        """
        self._text, self._codes = text, codes
        self._spaces = [pair or ("", "") for pair in spaces]
        self.has_breaks = any(text[begin:end] == BREAK for begin, end, _ in codes)
        """Whether some of the codes are line breaks."""
        self._separated = {
            code.end
            for index, (code, pair) in enumerate(zip(codes, spaces, strict=True))
            if pair is not None and code.begin < code.end and self.is_object(index)
        }
        """Where the text has a space that no words have, before the index."""
        self._last = ""
        """The last character written."""
        self._object: int | None = None
        """Index of the element without text after it, if nothing follows yet."""

    def is_object(self, index: int) -> bool:
        """Whether an opaque code stands for an element without text."""
        begin, end, _ = self._codes[index]
        return not self._text[begin:end].strip()

    def before_text(self, text: str) -> str:
        """Returns the white space to write before some text."""
        gap = self._behind_object(text[:1])
        self._last = text[-1:]
        return gap

    def before_tag(self, following: str) -> str:
        """Returns the white space to write before a start tag, by the character after it."""
        gap = self._behind_object(following) if following else ""
        self._last = gap or self._last
        return gap

    def before_object(self, index: int) -> str:
        """Returns the white space to write before an element without text."""
        begin, end, _ = self._codes[index]
        before = self._spaces[index][0]
        if self._object is not None:
            gap = self._spaces[self._object][1] or before
        elif self._text[begin:end] == BREAK:
            gap = ""  # its own white space is among its bytes
        else:
            in_source = "" if begin in self._separated else self._text[begin - 1 : begin]
            gap = _gap(before, in_source, self._last, _OPENING)
        self._object = index
        if self._text[begin:end] == BREAK:
            self._object, self._last = None, BREAK
        return gap

    def _behind_object(self, following: str) -> str:
        if self._object is None:
            return ""
        end, after = self._codes[self._object].end, self._spaces[self._object][1]
        self._object = None
        return _gap(after, self._text[end : end + 1], following, _CLOSING)


def _gap(space: str, in_source: str, beside: str, repelled: Collection[str]) -> str:
    """The white space between an element and the character beside it in a translation.

    Args:
        space: white space that the source has there, outside the text.
        in_source: the character beside the element in the source's text.
        beside: the one in the translation; both are empty at the ends.
        repelled: marks that have no white space there.
    """
    if not beside.strip():
        return ""
    if beside in repelled and beside != in_source:
        return ""
    is_apart = in_source != "" and beside.isalnum() and not in_source.isalnum()
    return space or (" " if is_apart or in_source.isspace() else "")
