"""Reads YAML with messages, such as the locale files of Rails."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import yaml
from dragoman_options.markup import Markup

from dragoman_documents.core.segments import Raw, Segment, Spelling
from dragoman_documents.core.text_tags import tag_spans
from dragoman_documents.localisation.messages import chosen, has_text
from dragoman_documents.text_files.text_reader import TextReader

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MOST_DEPTH: Final = 200
_WORDS: Final = frozenset(["true", "false", "yes", "no", "on", "off", "null", "y", "n"])
"""Plain scalars that are no strings."""
_PLAIN = re.compile(r"[^\W\d_](?:[^\n:#\t]|(?<! )#|:(?! |$))*")
_ANCHOR = re.compile(r"&\S+\s+")
_BLOCK = re.compile(r"[|>][^\n]*\n(?:[ \t]*\n)*( +)")


class _Scalar(NamedTuple):
    """A string: its keys, its place, how it is quoted, and its text.

    The style is the first character of what is around it, if it has no quotes.
    """

    path: tuple[str, ...]
    begin: int
    end: int
    style: str
    text: str


class YamlReader(TextReader):
    """Reads a file; see `Reader`."""

    def parts(self, text: str, encoding: str) -> Iterator[Raw | Segment]:
        """See `TextReader`.

        Raises:
            ValueError: the text is not YAML, or most of its values are not text.
        """
        content = _Content(text)
        values = [(scalar.path, scalar.text) for scalar in content.strings]
        texts = {*chosen(values, len(content.others), has_records=content.has_records)}
        position = 0
        for index, scalar in enumerate(content.strings):
            segment = self._segment(scalar, text, encoding) if index in texts else None
            if segment:
                yield Raw(text[position : scalar.begin].encode(encoding))
                yield segment
                position = scalar.end
        yield Raw(text[position:].encode(encoding))

    def _segment(self, scalar: _Scalar, text: str, encoding: str) -> Segment | None:
        written = text[scalar.begin : scalar.end]
        block = _BLOCK.match(written) if scalar.style in ("|", ">") else None
        core = scalar.text.strip()
        if not has_text(core) or (scalar.style in ("|", ">") and block is None):
            return None
        head = written[: written.index("\n") + 1] if block else ""
        rest = written[len(written.rstrip()) :]
        around = scalar.text.partition(core)

        def write(translation: str) -> bytes:
            shown = "".join(c if c.isprintable() or c in "\n\t" else " " for c in translation)
            if block:
                lines = [line.rstrip() for line in shown.strip().split("\n")]
                lines = lines if scalar.style == "|" else [line.lstrip() for line in lines]
                indented = (block[1] + line if line else "" for line in lines)
                content = head + ("\n\n" if scalar.style == ">" else "\n").join(indented) + rest
            else:
                content = _quoted(around[0] + shown.strip() + around[2], scalar.style)
            return content.encode(encoding, "replace")

        spelling = Spelling(encoding, str, write)
        return Segment(core, Markup(keep=tag_spans(core)), written.encode(encoding), spelling)


def _quoted(text: str, style: str) -> str:
    is_plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS and text == text.strip()
    if is_plain and (not style or (style == "{" and not any(map(text.__contains__, ",[]{}")))):
        return text
    if style == "'" and "\n" not in text:
        return "'" + text.replace("'", "''") + "'"
    return json.dumps(text, ensure_ascii=False)


class _Content:
    """The values of a file.

    Attributes:
        strings: those that are strings, in order.
        others: the other ones.
        has_records: whether a mapping is in a list.
    """

    def __init__(self, text: str) -> None:
        """Read a file."""
        self.strings: list[_Scalar] = []
        self.others: list[str] = []
        self.has_records = False
        self._path: list[str] = []
        self._is_key: list[bool] = []
        """For each open collection, whether the next value in it is a key."""
        self._is_list: list[bool] = []
        self._is_flow: list[bool] = []
        self._text = text
        try:
            for event in yaml.parse(text, Loader=_LOADER):
                self._add(event)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            where = f"line {mark.line + 1}" if mark else "somewhere"
            raise ValueError(f"{where}: {error.problem}") from error
        except yaml.YAMLError as error:
            raise ValueError(str(error).splitlines()[0]) from error

    def _add(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.CollectionStartEvent):
            is_list = isinstance(event, yaml.SequenceStartEvent)
            self.has_records = self.has_records or (not is_list and self._is_list[-1:] == [True])
            self._is_list.append(is_list)
            self._is_key.append(not is_list)
            self._is_flow.append(event.flow_style is True)
            self._path.append("0")
            if len(self._path) > _MOST_DEPTH:
                raise ValueError(f"more than {_MOST_DEPTH} values are within one another")
            return
        if isinstance(event, yaml.CollectionEndEvent):
            for stack in (self._is_list, self._is_key, self._is_flow, self._path):
                stack.pop()
        elif isinstance(event, yaml.ScalarEvent) and self._is_key[-1:] == [True]:
            self._path[-1], self._is_key[-1] = event.value[:100], False
            return
        elif isinstance(event, yaml.ScalarEvent):
            is_string = event.tag is None and (event.style or not _is_word(event.value))
            if is_string and event.start_mark and event.end_mark:
                begin, end = event.start_mark.index, event.end_mark.index
                anchor = _ANCHOR.match(self._text, begin, end)
                style = event.style or ("{" if any(self._is_flow) else "")
                path = tuple(self._path)
                self.strings.append(
                    _Scalar(path, anchor.end() if anchor else begin, end, style, event.value)
                )
            else:
                self.others.append(event.value)
        elif not isinstance(event, yaml.AliasEvent):
            return
        if self._is_key and not self._is_list[-1]:
            self._is_key[-1] = True


def _is_word(value: str) -> bool:
    return value.lower() in _WORDS or not any(map(str.isalpha, value))
