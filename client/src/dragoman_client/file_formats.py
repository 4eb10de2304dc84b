"""The formats of files that can be translated, and those that would be damaged as running text."""

from __future__ import annotations

import codecs
import re
from pathlib import PurePath
from typing import Final

from dragoman_client.binary_files import check_not_binary
from dragoman_client.document_translation import ENDINGS

DOCUMENT_ENDINGS: Final = (".txt", *ENDINGS)
"""Extensions of all files that can be translated as documents."""
_NAMES = {
    ".ass": "SubStation Alpha subtitles",
    ".csv": "CSV",
    ".ini": "INI",
    ".json": "JSON",
    ".md": "Markdown",
    ".po": "gettext PO",
    ".pot": "gettext PO",
    ".properties": "Java properties",
    ".rst": "reStructuredText",
    ".srt": "SubRip subtitles",
    ".strings": "Apple strings",
    ".tex": "LaTeX",
    ".toml": "TOML",
    ".vtt": "WebVTT subtitles",
    ".yaml": "YAML",
    ".yml": "YAML",
}
"""Names of formats that cannot be translated yet, for messages."""
_BEGINS = (
    (".srt", re.compile(rb"\A\s*+\d+[ \t]*\r?\n\d+:\d\d:\d\d[,.]\d+ *--> *\d")),
    (".vtt", re.compile(rb"\AWEBVTT(?:[ \t\r\n]|$)")),
    (".ass", re.compile(rb"\A\[Script Info\]")),
    (".po", re.compile(rb'\A(?:#[^\n]*\n|\s)*+msg(?:id|ctxt) *"')),
    (".json", re.compile(rb'\A\s*+(?:\[\s*+)*+(?:\{\s*+"(?:[^"\\\n]|\\.)*+"\s*+:|(?<=\[)")')),
    (".yaml", re.compile(rb"\A(?:%YAML |---[ \t]*\r?\n[\w-]+:(?:\s|$))")),
    (".strings", re.compile(rb'\A(?:/\*.*?\*/|\s)*+"(?:[^"\\\n]|\\.)*+" = "', re.DOTALL)),
    (".tex", re.compile(rb"\A(?:%[^\n]*\n|\s)*+\\documentclass\b")),
    (".ini", re.compile(rb"\A\[[\w. -]+\]\r?\n[\w. -]+ ?=")),
)
"""Beginnings of files that no running text has."""


def check_running_text(name: str, begin: bytes) -> None:
    """Refuse a file that may be damaged if it is translated as running text.

    Args:
        name: name of the file; one without an extension is recognized by its beginning.
        begin: first bytes of the file.

    Raises:
        ValueError: it is binary, or has another format; the message names it.
    """
    check_not_binary(begin, name)
    if b"\0" in begin and not begin.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ValueError(f"{name} is not text: it has bytes of 0")
    ending = PurePath(name).suffix.lower()
    kind = other_format(name, begin)
    if kind is None and ending not in ("", ".txt"):
        kind = f"a file of the unknown format {ending[:20]!r}"
    if kind is not None:
        raise ValueError(f"{name} is {kind}, and may be damaged as running text")


def other_format(name: str, begin: bytes) -> str | None:
    """Returns the name of a known format that cannot be translated; None: no such format.

    Args:
        name: name of the file.
        begin: first bytes of the file.
    """
    begin = begin.removeprefix(codecs.BOM_UTF8)
    ending = next((ending for ending, pattern in _BEGINS if pattern.match(begin)), None)
    return _NAMES.get(ending or PurePath(name).suffix.lower())
