"""Reads Java's properties: lines with a key and a text.

Source: https://docs.oracle.com/en/java/javase/21/docs/api/java.base/java/util/Properties.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Final

from dragoman_documents.core.encodings import with_whole_characters
from dragoman_documents.core.segments import Raw, Segment
from dragoman_documents.localisation.messages import is_text, message
from dragoman_documents.text_files.text_reader import TextReader

_LINE = re.compile(
    r"[ \t\f]*+(?:[#!][^\r\n]*+|(?:[^\\\s:=]|\\(?:\r\n|[\s\S]))*+[ \t\f]*+[:=]?+[ \t\f]*+"
    r"((?:[^\\\r\n]|\\(?:\r\n|[\s\S]))*+))(?:\r\n?|\n|\\?\Z)"
)
_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(?:\r\n?|\n)[ \t\f]*+|(.)|\Z)")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_WRITTEN: Final = {ord(value): f"\\{name}" for name, value in _ESCAPES.items()} | {
    0: " ",
    92: r"\\",
}
_ARGUMENT: Final = re.compile(r"\{\d")


class PropertiesReader(TextReader):
    """Reads a file in UTF-8 or ISO-8859-1; see `Reader`."""

    def encoding_of(self, content: bytes) -> str:
        """Returns the encoding; since Java 9, ISO-8859-1 is used where UTF-8 does not fit."""
        try:
            content.decode("utf-8")
        except UnicodeDecodeError:
            return "iso-8859-1"
        return "utf-8"

    def parts(self, text: str, encoding: str) -> Iterator[Raw | Segment]:
        """See `TextReader`."""
        is_ascii = text.isascii()
        position = kept = 0
        while position < len(text):
            line = _LINE.match(text, position)
            assert line is not None
            position = max(line.end(), position + 1)
            written = line[1] or ""
            # In a message with arguments, an apostrophe is doubled.
            has_arguments = _ARGUMENT.search(written) is not None
            if is_text(_read(written, has_arguments=has_arguments)):
                yield Raw(text[kept : line.start(1)].encode(encoding))
                write = partial(
                    _write, has_arguments=has_arguments, encoding="ascii" if is_ascii else encoding
                )
                yield from message(
                    written, encoding, partial(_read, has_arguments=has_arguments), write
                )
                kept = line.end(1)
        yield Raw(text[kept:].encode(encoding))


def _read(written: str, *, has_arguments: bool) -> str:
    text = with_whole_characters(_ESCAPE.sub(_unescaped, written))
    return text.replace("''", "'") if has_arguments else text


def _unescaped(match: re.Match[str]) -> str:
    code, character = match.groups()
    return chr(int(code, 16)) if code else _ESCAPES.get(character or "", character or "")


def _write(text: str, *, has_arguments: bool, encoding: str) -> str:
    escaped = text.translate(_WRITTEN).replace("'", "''" if has_arguments else "'")
    escaped = f"\\{escaped}" if escaped.startswith(" ") else escaped
    units = (
        character
        if _fits(character, encoding)
        else "".join(f"\\u{unit:04x}" for unit in _units(character))
        for character in escaped
    )
    return "".join(units)


def _fits(character: str, encoding: str) -> bool:
    limit = {"ascii": 0x80, "iso-8859-1": 0x100}.get(encoding, 0x110000)
    return ord(character) < limit


def _units(character: str) -> tuple[int, ...]:
    content = character.encode("utf-16-be", "replace")
    return tuple(int.from_bytes(content[at : at + 2]) for at in range(0, len(content), 2))
