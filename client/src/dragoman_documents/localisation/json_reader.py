"""Reads JSON with messages: locale files, those of Chrome and ARB, and Apple's string catalogues.

Source: https://developer.chrome.com/docs/extensions/reference/api/i18n,
https://github.com/google/app-resource-bundle/wiki/ApplicationResourceBundleSpecification
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from dragoman_options.markup import Markup

from dragoman_documents.core.languages import is_same_language
from dragoman_documents.core.segments import Raw, Segment, Spelling
from dragoman_documents.core.text_tags import tag_spans
from dragoman_documents.localisation.messages import InsertedText, chosen, is_text, message
from dragoman_documents.text_files.text_reader import TextReader

_TOKEN = re.compile(
    r'[ \t\r\n]*+(?:([{}\[\],:])|"((?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9A-Fa-f]{4})*+)"'
    r"|(true|false|null|-?+(?:0|[1-9]\d*+)(?:\.\d++)?+(?:[eE][+-]?+\d++)?+))"
)
_MOST_DEPTH: Final = 200

Path = tuple[str, ...]
_State = Literal["value", "first value", "key", "first key", "colon", "next"]
"""What must come next; the first value or key of a list or object may also be its end."""


class _String(NamedTuple):
    """A value that is a string, with its keys, and where it begins and ends without its quotes."""

    path: Path
    begin: int
    end: int


class JsonReader(TextReader):
    """Reads a file; see `Reader`."""

    def __init__(self, target_language: str | None) -> None:
        """Start before the first chunk.

        Args:
            target_language: language of the translation; a string catalogue needs it.
        """
        super().__init__()
        self._target_language = target_language

    def parts(self, text: str, encoding: str) -> Iterator[Raw | Segment]:
        """See `TextReader`.

        Raises:
            ValueError: the text is not JSON, or most of its values are not text.
        """
        content = _Content(text)
        # A program that wrote only ASCII reads only ASCII.
        is_ascii = text.isascii() and "\\u" in text

        def write(translation: str) -> str:
            return json.dumps(translation, ensure_ascii=is_ascii)[1:-1]

        if ("sourceLanguage",) in content.values and any(
            p[:1] == ("strings",) for p in content.ends
        ):
            spelling = Spelling(
                encoding, str, lambda value: write(value).encode(encoding, "replace")
            )
            texts = self._catalogue(content, spelling)
        else:
            values = [(string.path, content.values[string.path]) for string in content.strings]
            indices = chosen(values, len(content.others), has_records=content.has_records)
            strings = (content.strings[index] for index in indices)
            texts = ((string.begin, string.end, None) for string in strings)
        position = 0
        for begin, end, inserted in texts:
            yield Raw(text[position:begin].encode(encoding))
            if inserted:
                yield inserted
            else:
                yield from message(text[begin:end], encoding, _read, write)
            position = end
        yield Raw(text[position:].encode(encoding))

    def _catalogue(
        self, content: _Content, spelling: Spelling
    ) -> Iterator[tuple[int, int, InsertedText | None]]:
        """Yields the places of a catalogue where a localization is missing, with its text."""
        target, source = self._target_language, content.values["sourceLanguage",]
        if not target:
            raise ValueError(
                "a string catalogue has several languages: give its target language, as "
                "target_language or --target-language"
            )
        done = {
            path[1] for path in content.ends if len(path) == 4 and is_same_language(path[3], target)
        }
        done |= {path[1] for path in content.others if path[2:] == ("shouldTranslate",)}
        localized = {path[1] for path in content.ends if path[2:] == ("localizations",)}
        for path, (at, is_empty) in content.ends.items():
            parent = ("localizations",) if len(path) > 1 and path[1] in localized else ()
            if path[:1] != ("strings",) or len(path) < 2 or path[2:] != parent or path[1] in done:
                continue
            own = ("strings", path[1], "localizations", source)
            text = content.values.get((*own, "stringUnit", "value"), path[1])
            has_forms = any(
                (*own, kind) in content.ends for kind in ("variations", "substitutions")
            )
            if has_forms or not is_text(text):
                continue
            before = f'"{target}" : {{ "stringUnit" : {{ "state" : "needs_review", "value" : "'
            before = before if parent else f'"localizations" : {{ {before}'
            yield (
                at,
                at,
                InsertedText(
                    text,
                    Markup(keep=tag_spans(text)),
                    b"",
                    spelling,
                    before=("" if is_empty else ", ") + before,
                    after='" } }' + ("" if parent else " }"),
                ),
            )


class _Content:
    """The values of a file.

    Attributes:
        strings: those that are strings, in order.
        values: the same without escapes, by their keys.
        ends: where each object ends, by its keys, and whether it is empty.
        others: keys of the numbers, of true, false and null.
        has_records: whether an object is in a list.
    """

    def __init__(self, text: str) -> None:
        """Read a file."""
        self.strings: list[_String] = []
        self.values: dict[Path, str] = {}
        self.ends: dict[Path, tuple[int, bool]] = {}
        self.others: list[Path] = []
        self.has_records = False
        self._path, self._closing = list[str](), list[str]()
        self._state: _State = "value"
        position = 0
        while True:
            token = _TOKEN.match(text, position)
            begin = position if token is None else token.start(token.lastindex or 0)
            if token is None or not self._add(token, begin, position):
                raise ValueError(f"line {text.count(chr(10), 0, begin) + 1}: not valid JSON")
            position = token.end()
            if self._is_complete:
                break
        if text[position:].strip(" \t\r\n"):
            raise ValueError("not valid JSON: something is behind the value")

    @property
    def _is_complete(self) -> bool:
        return self._state == "next" and not self._closing

    def _add(self, token: re.Match[str], begin: int, last: int) -> bool:
        """Add a token that ends behind `last`; returns whether it may stand there."""
        sign, string, _ = token.groups()
        if string is not None and self._state in ("key", "first key"):
            self._path[-1], self._state = _read(string), "colon"
        elif sign == ":" and self._state == "colon":
            self._state = "value"
        elif sign in ("{", "[") and self._state in ("value", "first value"):
            self._open(sign)
        elif sign in ("}", "]") and self._state in ("first key", "first value", "next"):
            return self._close(sign, begin, last)
        elif sign == "," and self._state == "next":
            if self._closing[-1] == "]":
                self._path[-1] = str(int(self._path[-1]) + 1)
            self._state = "key" if self._closing[-1] == "}" else "value"
        elif sign is None and self._state in ("value", "first value"):
            self._state, path = "next", tuple(self._path)
            if string is None:
                self.others.append(path)
            else:
                self.strings.append(_String(path, begin, begin + len(string)))
                self.values[path] = _read(string)
        else:
            return False
        return True

    def _open(self, sign: str) -> None:
        self.has_records = self.has_records or (sign == "{" and self._closing[-1:] == ["]"])
        self._closing.append("}" if sign == "{" else "]")
        self._path.append("" if sign == "{" else "0")
        self._state = "first key" if sign == "{" else "first value"
        if len(self._path) > _MOST_DEPTH:
            raise ValueError(f"more than {_MOST_DEPTH} values are within one another")

    def _close(self, sign: str, begin: int, last: int) -> bool:
        self._path.pop()
        is_empty = self._state != "next"
        self.ends[tuple(self._path)] = begin if is_empty else last, is_empty
        self._state = "next"
        return self._closing.pop() == sign


def _read(written: str) -> str:
    return str(json.loads(f'"{written}"'))
