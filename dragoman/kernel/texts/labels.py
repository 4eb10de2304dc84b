# ruff: noqa: RUF001  the dashes and quotation marks of several languages
"""Finds what is between the labels of a line: `Name: value`, `Open / Closed`, `Home » Shop`.

Labels are translated separately: a model that reads several as one sentence drops some of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dragoman.kernel.texts.cutting import Span

_LONGEST = 300
"""A longer line has no labels, which bounds the time."""
_MOST_WORDS = 5
"""Words of a label in a list."""
_MOST_IN_VALUE, _MOST_IN_SENTENCE = 5, 4
"""Words of a value behind a colon, without and with a final mark: longer ones need the context."""
_MOST_IN_FORM = 15
"""Words of a plural form."""
_FINAL = (".", "!", "?", ":")
_WORD = re.compile(r"[^\W\d_]{2}")

_ARROW = (
    r"[\u2190-\u21ff\u25b6\u25b8\u25ba\u25c0\u25c4\u2794\u2798-\u27be\u27f5-\u297f\u2b05-\u2b07]"
)
_EMOJI = r"[\u2300-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]"
_SEPARATOR = re.compile(
    rf"(?<!\s)\s*+(?:(?P<arrow>{_ARROW}\ufe0f?"
    r"|(?<!\S)(?:[«»‹›]|[-=]{1,2}>|[<>]{1,2})(?!\S))"
    r"|(?P<mark>(?<=\s)[/+](?=\s)|(?<=[^\s;]);(?=\s))|(?P<dash>(?<=\s)[-–—](?=\s))"
    rf"|(?P<emoji>(?:{_EMOJI}[\ufe0f\u200d]*+)++))\s*+"
)
_PAIRS = ({"«", "»"}, {"‹", "›"}, {"<", ">"})
_AT_ENDS = {*"«»‹›<>"}
"""Arrows that may also be before or behind a single label, as in `Read more »`."""

_KEY_WORD = r"[^\s:\"„“«»(]"
_KEY = re.compile(
    r"(?:</?\w[^<>]*>|\*\*|[^\w\s:\"'“„«‘(\[{<*]{1,4}\s)?(?=[^:]*?[^\W\d_]{2})"
    rf"[^\W\d_]{_KEY_WORD}*+(?: {_KEY_WORD}++){{0,2}}+[ \u00a0]?:(?:</\w+>|\*\*)?"
    r"(?P<gap>\s++)(?=\S)"
)
"""At most three words and a colon at the beginning of a line, also in bold or behind a sign."""

_OPTION = re.compile(
    r"\s*+(?:--?[^\W_][\w-]*+(?:\[?[= ](?:<[^<>\s]*>|\[[^\[\]\s]*\]|[A-Z][A-Z_]*+(?!\w))\]?)?"
    r"(?:, ?|[|/] ?| (?! ))?)+ ++(?<=  )(?=\S)"
)
"""Options of a command, before their description."""
_COMMAND = re.compile(r"\s++[a-z][\w-]*+(?: [<\[]\S*+)?+(?P<gap> {2})(?=\S)")

_CHOICE = re.compile(
    r"\s*+(?:-?\d+(?:\.\d+)?[#<≤]|\{\d+\}|[\[\]](?:-?\d+|\*|-Inf),(?:\d+|\*|Inf)[\[\]])\s*+"
)
"""The numbers for which a plural form is, before the form."""
_NO_CELL = re.compile(r"[(){}\[\]<>=\"\\]|, |\d,\d")


def label_gaps(line: str) -> list[Span]:
    """Returns the spans of what is between the labels of a line, in order.

    Args:
        line: a line of a text, or one of its columns.
    """
    text = line.strip()
    if not text or len(line) > _LONGEST or len(text.splitlines()) > 1:
        return []
    if "  " in line and (option := _OPTION.match(line)):
        return [option.span()]
    if "  " in line and (command := _COMMAND.match(line)):
        return [command.span("gap")]
    key = _KEY.match(text)
    at = key.end() if key else 0
    gaps = _separators(text[at:]) or _around_forms(text[at:]) or _between_cells(text[at:])
    spans = [(at + begin, at + end) for begin, end in gaps]
    if key:
        spans = [key.span("gap"), *spans] if spans or _is_value(text[at:]) else []
    indent = len(line) - len(line.lstrip())
    return [(indent + begin, indent + end) for begin, end in spans]


def _is_value(text: str) -> bool:
    most = _MOST_IN_SENTENCE if text.endswith(_FINAL) else _MOST_IN_VALUE
    numbers = sum(any(map(str.isdigit, word)) for word in text.split())
    return _has_words(text, most) and numbers < 2  # a date or a range is read better behind a word


def _is_label(text: str) -> bool:
    is_whole = text.count("(") == text.count(")")
    return is_whole and not _is_sentence(text) and _has_words(text, _MOST_WORDS)


def _is_sentence(text: str) -> bool:
    return text.endswith(_FINAL) and not text.endswith("...")


def _is_form(text: str) -> bool:
    is_closed = text.count("(") == text.count(")") and text.count("[") == text.count("]")
    return is_closed and _has_words(text, _MOST_IN_FORM)


def _has_words(text: str, most: int) -> bool:
    return _WORD.search(text) is not None and len(text.split()) <= most


def _separators(text: str) -> Sequence[Span]:
    """Arrows, slashes, dashes or emoji between labels."""
    matches = [] if _is_sentence(text) else list(_SEPARATOR.finditer(text))
    spans = [match.span() for match in matches]
    begins, ends = [0, *(end for _, end in spans)], [*(begin for begin, _ in spans), len(text)]
    labels = [text[begin:end] for begin, end in zip(begins, ends, strict=True) if begin < end]
    if not matches or not all(map(_is_label, labels)):
        return ()
    kinds = {match.lastgroup for match in matches}
    signs = {match[0].strip() for match in matches}
    capitals = sum(label[0].isupper() for label in labels)
    if any(signs >= pair for pair in _PAIRS):
        return ()
    if kinds == {"arrow"}:
        are_labels = len(labels) > 1 or signs <= _AT_ENDS
    elif kinds == {"mark"} and all(" " not in label for label in labels):
        are_labels = True  # `Yes / no`, but not `unknown / unnamed devices`
    elif len(labels) < 2 or 0 < capitals < len(labels):
        are_labels = False
    elif "emoji" in kinds:
        are_labels = len(matches) == len(labels) and not spans[0][0]
    else:
        is_range = "dash" in kinds and any(map(str.isdigit, text))
        are_labels = not is_range and (capitals > 0 or len(labels) > 2)
    return spans if are_labels else ()


def _around_forms(text: str) -> Sequence[Span]:
    """Bars between plural forms, and the numbers before them."""
    forms = text.split("|")
    if len(forms) == 1:
        return ()
    choices = [match[0] if (match := _CHOICE.match(form)) else "" for form in forms]
    if "" in choices or len(set(choices)) < len(forms):  # also `{0} file|{0} files`
        choices = [""] * len(forms)
        are_phrases = len(forms) > 2 or all(" " in form.strip() for form in forms)
        if not are_phrases or not all(map(_is_form, forms)):
            return ()
    return list(_spans(forms, choices))


def _between_cells(text: str) -> Sequence[Span]:
    """Commas or semicolons between the cells of a table, as in `2,Call mother,done`."""
    for sign in (",", ";"):
        cells = text.split(sign)
        if len(cells) < 3 or _NO_CELL.search(text):
            continue
        labels = [cell for cell in cells if not cell.isdigit()]
        is_row = len(labels) > 1 and all(map(_is_label, labels))
        if is_row and all(cell == cell.strip() for cell in cells):
            return list(_spans(cells, [""] * len(cells)))
    return ()


def _spans(parts: Sequence[str], prefixes: Sequence[str]) -> Iterator[Span]:
    """The separators between parts, of a character each, with the prefixes of the parts."""
    at = 0
    for part, prefix in zip(parts, prefixes, strict=True):
        if at or prefix:
            yield max(at - 1, 0), at + len(prefix)
        at += len(part) + 1
