"""Reads Apple's strings: `"key" = "text";`.

Source: https://developer.apple.com/library/archive/documentation/Cocoa/Conceptual/LoadingResources/Strings/Strings.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from dragoman_documents.core.encodings import with_whole_characters
from dragoman_documents.core.segments import Raw, Segment
from dragoman_documents.localisation.messages import is_text, message
from dragoman_documents.text_files.text_reader import TextReader

_QUOTED: Final = r'"(?:[^"\\]|\\[\s\S])*+"'
_BETWEEN = re.compile(r"(?:\s|//[^\n]*+|/\*(?>[\s\S]*?\*/))++")
_ENTRY = re.compile(
    rf'(?:{_QUOTED}|[\w.$/-]++)(?:\s*+=\s*+(?:"((?:[^"\\]|\\[\s\S])*+)"|[\w.$/-]++))?+\s*+;'
)
_ESCAPE: Final = re.compile(r"\\(?:[Uu]([0-9A-Fa-f]{4})|([0-7]{1,3})|([\s\S]))")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}
_WRITTEN: Final = str.maketrans(
    {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\", "\0": " "}
)


class AppleStringsReader(TextReader):
    """Reads a file in UTF-8 or UTF-16; see `Reader`."""

    def encoding_of(self, content: bytes) -> str:
        """Returns the encoding."""
        return (
            "utf-16-le"
            if content[1:2] == b"\0"
            else "utf-16-be"
            if content[:1] == b"\0"
            else "utf-8"
        )

    def parts(self, text: str, encoding: str) -> Iterator[Raw | Segment]:
        """See `TextReader`.

        Raises:
            ValueError: a line is no entry.
        """
        position = kept = 0
        while True:
            between = _BETWEEN.match(text, position)
            position = between.end() if between else position
            if position == len(text):
                break
            entry = _ENTRY.match(text, position)
            if entry is None:
                line = text.count("\n", 0, position) + 1
                raise ValueError(f'line {line}: this is no entry, such as "key" = "text";')
            position = entry.end()
            if is_text(_read(entry[1] or "")):
                yield Raw(text[kept : entry.start(1)].encode(encoding))
                yield from message(entry[1], encoding, _read, _write)
                kept = entry.end(1)
        yield Raw(text[kept:].encode(encoding))


def _read(written: str) -> str:
    return with_whole_characters(_ESCAPE.sub(_unescaped, written))


def _unescaped(match: re.Match[str]) -> str:
    code, octal, character = match.groups()
    if code or octal:
        return chr(int(code, 16) if code else int(octal, 8))
    return _ESCAPES.get(character, character)


def _write(text: str) -> str:
    return text.translate(_WRITTEN)
