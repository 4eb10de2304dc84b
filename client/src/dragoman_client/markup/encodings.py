"""Encodings in which text can be replaced without a change to the bytes around it."""

from __future__ import annotations

import re

_NAME = re.compile(r"cp\d+|iso8859-\d+|koi8-[rtu]|mac-\w+|ascii|tis-620|ptcp154|kz1048")


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
