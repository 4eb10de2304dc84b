"""Encodings in which text can be replaced without a change to the bytes around it."""

from __future__ import annotations

import codecs
import contextlib
import encodings
import functools
import pkgutil
import re
from encodings.aliases import aliases

_NAME = re.compile(r"cp\d+|iso8859-\d+|koi8-[rtu]|mac-\w+|ascii|tis-620|ptcp154|kz1048")
_LABELS = frozenset(aliases) | {module.name for module in pkgutil.iter_modules(encodings.__path__)}
"""The labels that Python knows, normalized."""
_MOST_CHARACTERS = 40


def codec_name(label: str) -> str | None:
    """Returns Python's name of an encoding; None: unknown.

    Python imports modules to look up an unknown label, and keeps each label for ever. So only known
    ones are looked up, in one spelling.
    """
    if len(label) > _MOST_CHARACTERS or not label.isascii():
        return None
    return _known_name(label)


@functools.lru_cache(maxsize=64)
def _known_name(label: str) -> str | None:
    normal = encodings.normalize_encoding(label).lower()
    for spelling in (normal, normal.replace(".", "_")):
        if spelling in _LABELS:
            with contextlib.suppress(LookupError):  # not on this platform
                return codecs.lookup(spelling).name
    return None


def with_whole_characters(text: str) -> str:
    """Returns a text whose pairs of surrogates, such as those of escapes, are characters."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def is_single_byte(name: str) -> bool:
    """Whether an encoding has one byte per character and includes ASCII.

    Args:
        name: Python's name of the encoding.
    """
    if not _NAME.fullmatch(name):
        return False
    known = bytes(range(0x80)).decode(name, "replace")
    whole = bytes(range(0x100)).decode(name, "surrogateescape")
    return known == bytes(range(0x80)).decode("ascii") and len(whole) == 0x100
