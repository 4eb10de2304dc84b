"""Texts of files with messages, which are strings with escapes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dragoman_options.markup import PlacedCodes

from dragoman_documents.core.blocks import segments
from dragoman_documents.core.pieces import Words
from dragoman_documents.core.segments import Raw, Segment, Spelling
from dragoman_documents.core.text_tags import with_tags

_TAG = re.compile(r"</?\w[^<>]*>")
_SYNTAX = re.compile(r"</?\w[^<>]*>|%[-0^]?[A-Za-z](?!\w)|[%$#]?\{[^{}]*\}")
_NOT_TEXT = re.compile(
    r"(?=[!-~]*[./:@#_\\=$%&|{}\[\]])[!-~]+|[a-z]++(?:[A-Z][a-z\d]*+)+|(?=[A-Z_-]*+\d)[A-Z\d_-]+"
    r"|[a-z]{2}[-_][A-Z]{2}|(?=[a-f]*+\d)[\da-f]{8,}"
)
"""A word without spaces that is an address, a name of a file, an identifier or a code."""

_OF_CHROME = (("message",), ("description",), ("placeholders",))
"""The keys below each message of a Chrome extension."""


@dataclass(frozen=True)
class InsertedText(Segment):
    """A text whose translation is added to the file.

    Attributes:
        before: what is written before the translation.
        after: what is written behind it.
    """

    before: str = ""
    after: str = ""

    def write(
        self, translation: str, _placed: PlacedCodes, _attributes: Sequence[bytes] | None = None
    ) -> bytes:
        """See `Segment`."""
        if not translation.strip() or translation == self.text:
            return self.original
        around = self.spelling.raw(self.before), self.spelling.raw(self.after)
        return around[0] + self.spelling.write(translation) + around[1]


def has_text(value: str) -> bool:
    """Whether a string has letters outside of tags and placeholders."""
    return any(map(str.isalpha, _SYNTAX.sub(" ", value)))


def is_text(value: str) -> bool:
    """Whether a string is text for people, not an address, an identifier or a number."""
    core = _TAG.sub("", value).strip().rstrip(".!?:\u2026")
    return has_text(value) and not _NOT_TEXT.fullmatch(core)


def chosen(
    values: Sequence[tuple[tuple[str, ...], str]], others: int, *, has_records: bool
) -> list[int]:
    """Returns the indices of the strings of a locale file that are texts.

    Args:
        values: its strings, each with the keys that lead to it.
        others: number of its values that are no strings.
        has_records: whether it has lists of objects.

    Raises:
        ValueError: most of its values are not text.
    """
    messages = [index for index, (path, _) in enumerate(values) if path[1:] == ("message",)]
    if messages and all(path[1:2] in _OF_CHROME for path, _ in values):
        return messages
    if has_records:
        raise ValueError("it has lists of objects, so it is data, and no file of messages")
    strings = [
        index
        for index, (path, _) in enumerate(values)
        if not any(key.startswith("@") for key in path)
    ]
    texts = [index for index in strings if is_text(values[index][1])]
    number = len(strings) + others
    if 3 * len(texts) < 2 * number:
        raise ValueError(
            f"{len(texts)} of its {number} values seem to be text, so it is no file of messages"
        )
    return texts


def message(
    written: str, encoding: str, read: Callable[[str], str], write: Callable[[str], str]
) -> Iterator[Raw | Segment]:
    """Yields the text of a string, and the white space around it.

    Args:
        written: the string with its escapes.
        encoding: encoding of the file.
        read: removes escapes.
        write: escapes a text.
    """
    spelling = Spelling(encoding, read, lambda text: write(text).encode(encoding, "replace"))
    pieces = with_tags([Words(written)], lambda tag: tag.encode(encoding, "replace"))
    return segments([*pieces], spelling)
