r"""The escapes of Android's string resources, such as `\'` and `\n`.

Source: https://developer.android.com/guide/topics/resources/string-resource
"""

from __future__ import annotations

import re

from dragoman_documents.core.encodings import with_whole_characters

_ESCAPE = re.compile(r"""\\(?:u([0-9A-Fa-f]{4})|(.))|"|\\$""", re.DOTALL)
_SPECIAL = re.compile(r"""[\\"'\n\t]|^[@?]|(?<= ) """)
_WRITTEN = {"\n": "\\n", "\t": "\\t", " ": "\\u0020"}
_READ = {"n": "\n", "t": "\t"}


def decode(written: str) -> str:
    """Unescape text; unescaped quotes only group, and are removed."""
    return with_whole_characters(_ESCAPE.sub(_shown, written))


def encode(text: str) -> str:
    """Escape a text."""
    return _SPECIAL.sub(lambda match: _WRITTEN.get(match[0], f"\\{match[0]}"), text)


def _shown(match: re.Match[str]) -> str:
    code, character = match.groups()
    if code:
        return chr(int(code, 16))
    return _READ.get(character, character) if character else ""
