"""Restores the literals and tags of a sentence, and the white space around them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dragoman.kernel.texts.cutting import Span

_WORD, _PLACEHOLDER = "word", "placeholder"
_OPENING = frozenset(("Ps", "Pi"))
_OPENING_TOO = frozenset("\"'»¿¡")
_SPACED_IN_FRENCH = frozenset("!?:;%»")
"""Some languages put a space before these marks, so the translation's spacing is kept."""
_TAG = re.compile(r"</?\w")
"""Of an element, not of a template engine, such as `<%= name %>`."""
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_SPACED_INSIDE = "«"
"""Some languages put a space behind this mark, unlike behind others that open."""
_SPACES = "\u00a0\u2007\u2009\u202f"
"""White space at which no line breaks, or that is thin; a model writes a space for each."""
_BESIDE_NUMBER = re.compile(rf"(?<=\d)([{_SPACES}])([^\s\d]+)|(?<!\S)([^\s\d]+)([{_SPACES}])(?=\d)")


class Edit(NamedTuple):
    """A span of a text, and its replacement."""

    begin: int
    end: int
    text: str


class Occurrence(NamedTuple):
    """The position in a translation of a literal or a tag of the source.

    Attributes:
        begin: where it begins.
        end: where it ends.
        source: its span in the source.
        raw: its text.
        opens: whether it begins an element of the text around it, or ends one.
    """

    begin: int
    end: int
    source: Span
    raw: str
    opens: bool | None = None


class _Side(NamedTuple):
    """One side of a placeholder, which is a literal or a tag.

    Attributes:
        gap: the white space on this side.
        neighbour: kind of the neighbour: word, placeholder, or the punctuation mark; empty: none.
    """

    gap: str
    neighbour: str


class Restored:
    """A translation with the literals or the tags of its source.

    If the neighbour of one is of the same kind as in the source (a word, another placeholder or
    the same punctuation), the white space between them is as in the source. On the inner side of a
    tag, this holds for any neighbour.

    Attributes:
        text: the translation.
    """

    def __init__(
        self,
        written: str,
        source: str,
        occurrences: Sequence[Occurrence],
        spans: Sequence[Span],
        further: Sequence[Edit] = (),
    ) -> None:
        """Restore them.

        Args:
            written: the translation.
            source: the source text.
            occurrences: their positions in the translation.
            spans: spans of all literals or tags of the source.
            further: other changes of the translation, outside the occurrences.
        """
        occurrences = sorted(occurrences)
        edits = [
            Edit(occurrence.begin, occurrence.end, occurrence.raw) for occurrence in occurrences
        ]
        spacing = _Spacing(written, source, occurrences, spans).edits()
        self._edits = sorted([*edits, *spacing, *further])
        self.text = edited(written, self._edits)
        self._occurrences = occurrences

    @property
    def placed(self) -> list[Edit]:
        """Spans in `text`, each with its literal or tag."""
        ends = {(occurrence.begin, occurrence.end) for occurrence in self._occurrences}
        placed: list[Edit] = []
        shift = 0
        for begin, end, text in self._edits:
            if (begin, end) in ends:
                placed.append(Edit(begin + shift, begin + shift + len(text), text))
            shift += len(text) - (end - begin)
        return placed

    def index(self, written_index: int) -> int:
        """Maps an index of the written text to `text`; within a placeholder, in proportion."""
        shift = 0
        for begin, end, text in self._edits:
            if written_index < begin:
                break
            if written_index < end:
                into = (written_index - begin) * len(text) // (end - begin)
                return begin + shift + into
            shift += len(text) - (end - begin)
        return written_index + shift


class _Spacing:
    """The white space around placeholders, compared with the source."""

    def __init__(
        self, written: str, source: str, occurrences: Sequence[Occurrence], spans: Sequence[Span]
    ) -> None:
        """Compare a translation with its source."""
        self._occurrences = occurrences
        self._beginning = {occurrence.begin: occurrence for occurrence in occurrences}
        self._source = _Surroundings(source, spans)
        self._written = _Surroundings(
            written, [(occurrence.begin, occurrence.end) for occurrence in occurrences]
        )

    def edits(self) -> Iterator[Edit]:
        """Yields the changes of white space, to add or remove some."""
        last_end = -1
        for occurrence in self._occurrences:
            side = self._written.before(occurrence.begin)
            begin = occurrence.begin - len(side.gap)
            if begin != last_end:
                gap = self._source.before(occurrence.source[0]).gap
                spaced = self._spaced(occurrence, side, is_before=True)
                yield from _changed(begin, side.gap, spaced, gap)
            last_end = occurrence.end
            side = self._written.behind(occurrence.end)
            spaced = self._spaced(occurrence, side, is_before=False)
            if side.neighbour == _PLACEHOLDER:
                other = self._beginning[occurrence.end + len(side.gap)]
                spaced = self._agreed(occurrence, spaced, other, side)
            gap = self._source.behind(occurrence.source[1]).gap
            yield from _changed(occurrence.end, side.gap, spaced, gap)

    def _spaced(self, occurrence: Occurrence, side: _Side, *, is_before: bool) -> bool | None:
        """Whether one side of a placeholder should have white space; None: keep it as it is."""
        begin, end = occurrence.source
        in_source = self._source.before(begin) if is_before else self._source.behind(end)
        was, neighbour = in_source.neighbour, side.neighbour
        is_joined = is_before and neighbour == _WORD and not side.gap and was != _WORD
        if (
            is_joined
            and not _is_tag(occurrence)
            and not self._written.is_unspaced(occurrence.begin)
        ):
            return True  # `L'{object}` is no `The{object}`
        if not was or not neighbour:
            return None
        if is_before and was != neighbour and _SPACED_INSIDE in (was, neighbour):
            closing = self._written.behind(occurrence.end)
            return neighbour == _SPACED_INSIDE and closing.neighbour == "»" and bool(closing.gap)
        is_same = was == neighbour or (is_before and _is_opening(was) and _is_opening(neighbour))
        has_own_rule = neighbour in _SPACED_IN_FRENCH and not is_before
        if _is_inner(occurrence, is_before) or (is_same and not has_own_rule):
            return bool(in_source.gap)
        return None

    def _agreed(
        self, occurrence: Occurrence, spaced: bool | None, other: Occurrence, side: _Side
    ) -> bool | None:
        """Resolves the white space between two placeholders; the inner side of a tag decides."""
        of_other = self._spaced(other, side, is_before=True)
        is_inner, is_other_inner = _is_inner(occurrence, False), _is_inner(other, True)
        if is_inner != is_other_inner:
            return spaced if is_inner else of_other
        return spaced if spaced == of_other else (spaced or of_other or None)


class _Surroundings:
    """The neighbours of placeholders in a text."""

    def __init__(self, text: str, spans: Sequence[tuple[int, int]]) -> None:
        """Store where placeholders begin and end."""
        self._text = text
        self._begins, self._ends = {begin for begin, _ in spans}, {end for _, end in spans}

    def is_unspaced(self, end: int) -> bool:
        """Whether the letter before an index is of a script without spaces between words."""
        return _UNSPACED.match(self._text, end - 1) is not None

    def before(self, begin: int) -> _Side:
        """Returns the side before the placeholder that begins at an index."""
        text = self._text[:begin].rstrip()
        return _Side(self._text[len(text) : begin], _kind(text[-1:], len(text) in self._ends))

    def behind(self, end: int) -> _Side:
        """Returns the side after the placeholder that ends at an index."""
        text = self._text[end:].lstrip()
        index = len(self._text) - len(text)
        return _Side(self._text[end:index], _kind(text[:1], index in self._begins))


def _changed(begin: int, gap: str, spaced: bool | None, in_source: str) -> Iterator[Edit]:
    if spaced is None:
        return
    new = (in_source if in_source in [*_SPACES] else gap or " ") if spaced else ""
    if new != gap:
        yield Edit(begin, begin + len(gap), new)


def _is_tag(occurrence: Occurrence) -> bool:
    return occurrence.opens is not None or _TAG.match(occurrence.raw) is not None


def _is_inner(occurrence: Occurrence, is_before: bool) -> bool:
    """Whether a side of a tag is inside its element."""
    if not _is_tag(occurrence) or occurrence.raw.endswith("/>"):
        return False
    closes = occurrence.raw.startswith("</") if occurrence.opens is None else not occurrence.opens
    return closes == is_before


def _is_opening(neighbour: str) -> bool:
    return neighbour in _OPENING_TOO or (
        len(neighbour) == 1 and unicodedata.category(neighbour) in _OPENING
    )


def _kind(character: str, is_placeholder: bool) -> str:
    if is_placeholder and character:
        return _PLACEHOLDER
    return _WORD if character.isalnum() else character


def with_spaces(text: str, source: str) -> str:
    """Returns a translation with the white space of its source beside numbers, as in `5 km`."""
    for behind, unit, word, before in _BESIDE_NUMBER.findall(source):
        if unit:
            text = re.sub(rf"(?<=\d) (?={re.escape(unit)}(?!\w))", behind, text, count=1)
        else:
            text = re.sub(rf"(?<!\S)({re.escape(word)}) (?=\d)", rf"\1{before}", text, count=1)
    return text


def edited(text: str, edits: Sequence[Edit]) -> str:
    """Returns a text with spans replaced, which are in order and do not overlap."""
    parts, end = [], 0
    for edit in edits:
        parts += [text[end : edit.begin], edit.text]
        end = edit.end
    return "".join((*parts, text[end:]))
