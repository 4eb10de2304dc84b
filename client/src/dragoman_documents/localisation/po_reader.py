"""Reads gettext PO files; translations are written into the entries that have none.

Source: https://www.gnu.org/software/gettext/manual/html_node/PO-Files.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final, NamedTuple

from dragoman_options.markup import PlacedCodes

from dragoman_documents.core.blocks import segments
from dragoman_documents.core.encodings import codec_name
from dragoman_documents.core.mnemonics import with_mnemonic, without_mnemonic
from dragoman_documents.core.pieces import MOST_TEXT_CHARACTERS
from dragoman_documents.core.segments import Raw, Segment, Spelling
from dragoman_documents.core.suggestions import Suggestions, WithSuggestions
from dragoman_documents.core.text_tags import with_tags
from dragoman_documents.text_files.text_reader import MOST_BYTES, TextReader

_CHARSET = re.compile(rb"\bcharset=([\w.:-]{1,40})")
_HEADER_BYTES: Final = 1 << 13
_LANGUAGE = re.compile(rb'(?:"|\\n)Language: *([A-Za-z]{2,3}(?:[_-]\w{1,8}){0,4})[^\w-]')
_PLURALS = re.compile(r"\bnplurals *= *([1-6])")
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")
_STRING = re.compile(
    r'[ \t]*+(msgctxt|msgid_plural|msgid|msgstr(?:\[\d\])?|)[ \t]*+"((?:[^"\\]|\\.)*+)"\s*+$'
)
_ESCAPE: Final = re.compile(r"\\([0-7]{1,3}|x[0-9A-Fa-f]{1,2}|.)")
_ESCAPES: Final = dict(zip("ntrabfv", "\n\t\r\a\b\f\v", strict=True))
_WRITTEN: Final = str.maketrans(
    {value: f"\\{name}" for name, value in _ESCAPES.items()} | {'"': '\\"', "\\": "\\\\"}
)
_IN_COMMENT: Final = str.maketrans(
    {value: f"\\{name}" for name, value in _ESCAPES.items()} | {"\0": None}
)
_WIDTH: Final = 77
_PARTS: Final = re.compile(rf".{{1,{_WIDTH}}}$|.{{0,{_WIDTH - 1}}} |[^ ]+ *")
_MARKS: Final = ("&", "_")
_MESSAGE: Final = Spelling(
    "utf-8", str, lambda text: text.replace("\0", "").encode("utf-8", "replace"), "replace"
)


_NUMBERS_OF_FORMS: Final = {
    1: "bo dz id ja km ko lo ms my su th to vi yue zh",
    3: "be bs cs hr lt lv mo pl ro ru sh sk sr uk",
    4: "gd mt sl",
    5: "br ga",
    6: "ar cy",
}
"""Languages by their number of plural forms, as gettext's tools assume it; others have two.

Source: https://cldr.unicode.org/index/cldr-spec/plural-rules (forms of whole numbers)
"""
_PLURAL_FORMS: Final = {
    code: number for number, codes in _NUMBERS_OF_FORMS.items() for code in codes.split()
}


class _Line(NamedTuple):
    """A line of an entry.

    Attributes:
        begin: where it begins.
        end: where it ends, with its line end.
        keyword: its keyword, or nothing if it continues a string or is a comment.
        written: the string with its escapes; None: a comment.
    """

    begin: int
    end: int
    keyword: str
    written: str | None


@dataclass(frozen=True)
class PoText(Segment):
    """A message without a translation.

    Attributes:
        before: what is written before its translation, such as the message.
        forms: the keywords that get the translation.
        parts: the message as a text, and white space around it.
    """

    before: str = ""
    forms: tuple[str, ...] = ()
    parts: tuple[Raw | Segment, ...] = ()

    def write(
        self, translation: str, placed: PlacedCodes, _attributes: Sequence[bytes] | None = None
    ) -> bytes:
        """See `Segment`; `msgfmt` wants the same line feeds at both ends as in the message."""
        if not translation.strip() or translation == self.text:
            return self.original
        text = b"".join(
            part.write(translation, placed) if isinstance(part, Segment) else part.content
            for part in self.parts
        ).decode()
        strings = (f"{form} {_wrapped(text, len(form) + 3)}\n" for form in self.forms)
        written = self.before + "".join(strings).replace("\n", self.line_end)
        return self.spelling.write(written)


class PoReader(TextReader):
    """Reads a file; see `Reader`."""

    def __init__(self, target_language: str | None) -> None:
        """Start before the first chunk.

        Args:
            target_language: language of the translations, for the number of their plural forms if
                the header does not say it.
        """
        super().__init__()
        base = (target_language or "").replace("_", "-").partition("-")[0].lower()
        self._plurals = _PLURAL_FORMS.get(base, 2)

    def encoding_of(self, content: bytes) -> str:
        """Returns the encoding that the header names."""
        charset = _CHARSET.search(content, 0, _HEADER_BYTES)
        return (charset and codec_name(charset[1].decode("ascii"))) or "utf-8"

    def parts(self, text: str, encoding: str) -> Iterator[Raw | Segment]:
        """See `TextReader`."""
        spelling = Spelling(encoding, str, lambda written: written.encode(encoding, "replace"))
        position = 0
        for lines in _entries(text):
            yield Raw(spelling.raw(text[position : lines[0].begin]))
            yield from self._entry(text, lines, spelling)
            position = lines[-1].end
        yield Raw(spelling.raw(text[position:]))

    def _entry(self, text: str, lines: list[_Line], spelling: Spelling) -> Iterator[Raw | Segment]:
        begins: dict[str, int] = {}
        for line in lines:
            if line.keyword:
                begins.setdefault(line.keyword, line.begin)
        values = _values(lines)
        begin, end = lines[0].begin, lines[-1].end
        message, plural = values.get("msgid", ""), values.get("msgid_plural")
        translations = [value for key, value in values.items() if key.startswith("msgstr")]
        if not message and (number := _PLURALS.search("".join(translations))):
            self._plurals = int(number[1])
        texts = self._texts(message, plural)
        has_letters = all(any(map(str.isalpha, text)) for text, _ in texts)
        is_long = any(len(text) > MOST_TEXT_CHARACTERS for text, _ in texts)  # would be divided
        if not (message and has_letters and translations) or is_long or any(translations):
            is_done = message and has_letters and any(translations)
            written = text[begin:end]
            if not message:  # the header of a template
                written = written.replace("charset=CHARSET", "charset=UTF-8")
            yield Raw(spelling.raw(written), left="done" if is_done else None)
            return
        first = next(at for key, at in begins.items() if key.startswith("msgstr"))
        line_end = "\r\n" if text[:end].endswith("\r\n") else "\n"
        flags = [
            line for line in lines if line.written is None and text.startswith("#,", line.begin)
        ]
        marked = next(
            line.begin
            for line in flags or lines
            if line.written is not None or line in flags or text.startswith("#|", line.begin)
        )
        before = text[marked:first]
        if not any("fuzzy" in text[line.begin : line.end] for line in flags):
            rest = f",{before.removeprefix('#,')}" if flags else line_end + before
            before = f"#, fuzzy{rest}"
        comments = next(
            line.begin
            for line in lines
            if line.written is not None or text.startswith(("#:", "#,", "#|"), line.begin)
        )
        translated: list[PoText] = []
        after = marked
        for index, (source, forms) in enumerate(texts):
            last = begins.get("msgstr[1]", end) if index + 1 < len(texts) else end
            pieces = [*with_mnemonic(source, _MARKS, str.encode)]
            parts = tuple(segments([*with_tags(pieces, str.encode)], _MESSAGE))
            if sum(isinstance(part, Segment) for part in parts) != 1:
                parts = tuple(segments(pieces, _MESSAGE))
            message_text = next(part for part in parts if isinstance(part, Segment))
            translated.append(
                PoText(
                    message_text.text,
                    message_text.markup,
                    spelling.raw(text[after:last]),
                    spelling,
                    before="" if index else before,
                    forms=forms,
                    parts=parts,
                    line_end=line_end,
                )
            )
            after = last
        yield Raw(spelling.raw(text[begin:comments]))
        yield _comments(translated)
        yield Raw(spelling.raw(text[comments:marked]))
        yield from translated

    def _texts(self, message: str, plural: str | None) -> list[tuple[str, tuple[str, ...]]]:
        """Returns the texts of a message, each with the keywords of its translation."""
        if plural is None:
            return [(message, ("msgstr",))]
        keywords = tuple(f"msgstr[{number}]" for number in range(self._plurals))
        if len(keywords) == 1:
            return [(plural, keywords)]
        return [(message, keywords[:1]), (plural, keywords[1:])]


def _comments(texts: Sequence[PoText]) -> WithSuggestions:
    """Returns the position of comments with the best suggestions for texts.

    They are comments of the program, because msgmerge removes those.
    """

    def write(suggestions: Sequence[Suggestions]) -> bytes:
        lines = [
            (
                f"#. {some[0].origin}, {some[0].similarity} %: "
                f'"{some[0].source}" = "{some[0].target}"'
            ).translate(_IN_COMMENT)
            for some in suggestions
            if some
        ]
        line_end = texts[0].line_end
        return texts[0].spelling.write("".join(f"{line}{line_end}" for line in lines))

    return WithSuggestions(b"", segments=texts, write=write)


def po_language(begin: bytes) -> str:
    """Returns the language of the translations that a header declares; empty: none.

    Args:
        begin: the first bytes of a file.
    """
    declared = _LANGUAGE.search(begin, 0, _HEADER_BYTES)
    return declared[1].decode("ascii") if declared else ""


def po_pairs(begin: bytes, file: BinaryIO) -> Iterator[tuple[str, str]]:
    """Yields each message of a file with its translation, unless that is marked as fuzzy.

    Args:
        begin: the first bytes of the file.
        file: the rest of it.

    Raises:
        ValueError: the file is too long, or is not PO.
    """
    reader = PoReader(None)
    reader.feed(begin)
    reader.feed(file.read(MOST_BYTES))
    _, text, _ = reader.decoded()
    for lines in _entries(text):
        values = _values(lines)
        flags = (text[line.begin : line.end] for line in lines if line.written is None)
        if any(flag.startswith("#,") and "fuzzy" in flag for flag in flags):
            continue
        plural = values.get("msgid_plural", "")
        translations = {key: value for key, value in values.items() if key.startswith("msgstr")}
        last = max(translations)
        for source, key in ((values.get("msgid", ""), min(translations)), (plural, last)):
            if source and translations[key]:
                yield without_mnemonic(source, _MARKS), without_mnemonic(translations[key], _MARKS)


def _values(lines: Sequence[_Line]) -> dict[str, str]:
    """Returns the strings of an entry, by keyword."""
    strings: dict[str, list[str]] = {}
    keyword = ""
    for line in lines:
        keyword = line.keyword or keyword
        if line.written is not None:
            strings.setdefault(keyword, []).append(line.written)
    return {keyword: _read("".join(several)) for keyword, several in strings.items()}


def _entries(text: str) -> Iterator[list[_Line]]:
    """Yields the lines of each entry, with its comments."""
    entry: list[_Line] = []
    has_translation = False
    for number, match in enumerate(_LINE.finditer(text), start=1):
        written = match[0]
        string = _STRING.match(written)
        is_comment = written.lstrip().startswith("#")
        if string is None and not is_comment and written.strip():
            raise ValueError(f"line {number}: {written.strip()[:40]!r} is not of a PO file")
        begins_entry = string is None or string[1] in ("msgid", "msgctxt")
        if has_translation and begins_entry:
            yield entry
            entry, has_translation = [], False
        if string:
            if not (string[1] or (entry and entry[-1].written is not None)):
                raise ValueError(f"line {number}: a string without a keyword")
            has_translation = has_translation or string[1].startswith("msgstr")
            entry.append(_Line(match.start(), match.end(), string[1], string[2]))
        elif is_comment and not written.lstrip().startswith("#~"):
            entry.append(_Line(match.start(), match.end(), "", None))
        else:
            entry = []
    if has_translation:
        yield entry


def _read(written: str) -> str:
    return _ESCAPE.sub(_unescaped, written)


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] in "01234567":
        return chr(int(code, 8) & 0xFF)
    if code[0] == "x" and len(code) > 1:
        return chr(int(code[1:], 16))
    return _ESCAPES.get(code, code)


def _wrapped(text: str, used: int) -> str:
    """Returns a string in quotes, wrapped as gettext does."""
    written = text.translate(_WRITTEN)
    is_one_line = "\\n" not in written[:-2] and len(written) + used <= _WIDTH + 3
    if is_one_line:
        return f'"{written}"'
    paragraphs = written.replace("\\\\", "\0").replace("\\n", "\\n\n").split("\n")
    lines = (
        line for paragraph in paragraphs for line in _PARTS.findall(paragraph.replace("\0", "\\\\"))
    )
    return "\n".join(f'"{line}"' for line in ["", *lines])
