"""Reads subtitles: SubRip (SRT) and WebVTT.

A sentence that goes on in the next cue is one text. Its translation is divided at the same cues, as
the borders between them are codes of the text.

Source: https://www.w3.org/TR/webvtt1/#file-structure
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from dragoman_documents.core.blocks import segments
from dragoman_documents.core.pieces import Closing, Opaque, Opening, Piece, Words
from dragoman_documents.core.segments import Raw, Segment, Spelling
from dragoman_documents.text_files.cue_text import Cue, CueText, ReadingSpeeds
from dragoman_documents.text_files.text_reader import TextReader

_MOST_GAP_S: Final = 3.0
"""Time without subtitles after which another sentence begins."""
_LINE: Final = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
_CLOCK: Final = r"(?:(\d{1,4}):)?(\d{1,3}):(\d{1,3})[.,](\d{1,9})"
_TIMES = re.compile(rf"[ \t]*{_CLOCK}[ \t]*-->[ \t]*{_CLOCK}")
_BREAK: Final = re.compile(r"(?<![ \t])[ \t]*+(?:\r\n?|\n)[ \t]*+")
_TAG: Final = re.compile(r"<(/?)(\w*+)[^<>]*+>|\{\\[^{}]*+\}")
_NAMED_TAG: Final = re.compile(r"<(/?)([A-Za-z]\w*+)[^<>]*+>|\{\\[^{}]*+\}")
"""In SRT, `<3` is text."""
_ENTITY: Final = re.compile(r"&(?:#?\w{1,12});")
_LIKE_MARKUP: Final = re.compile(r"<(?=/?[A-Za-z])|\{(?=\\)|--(?=>)")
_SEPARATE = re.compile(
    r"(?:<(?!v\b)[^<>]*+>)*+"
    r"(?:[-\u2013\u2014\u266a\u266b\[(#*]|<v\b|[^\W\d_a-z]{2,20}[^\n:]{0,20}:)"
)
"""How a line begins that does not go on with the sentence of the line before it."""
_QUOTES: Final = r"[\"'\u201d\u00bb\u201c]*+$"
_FULL_STOPPED: Final = re.compile(rf"[.!?\u2026\u3002\uff01\uff1f]{_QUOTES}")
_ENDED: Final = re.compile(rf"[.!?\u2026:;\u3002\uff01\uff1f\])\u266a\u266b*]{_QUOTES}")


@dataclass(frozen=True)
class _RawCue:
    """A cue in a file.

    Attributes:
        before: what is before its text.
        written: its text, with tags.
        times: when it is shown.
    """

    before: str
    written: str
    times: Cue


class SubtitleReader(TextReader):
    """Reads a file; see `Reader`."""

    def __init__(self, *, is_vtt: bool) -> None:
        """Start before the first chunk.

        Args:
            is_vtt: whether it is WebVTT, not SubRip.
        """
        super().__init__()
        self._is_vtt = is_vtt
        self._speeds = ReadingSpeeds()

    @property
    def warnings(self) -> list[str]:
        """See `Reader`."""
        return self._speeds.warnings

    def parts(self, text: str, encoding: str) -> Iterator[Raw | Segment]:
        """See `TextReader`.

        Raises:
            ValueError: the file has no cues.
        """
        cues, rest = _cues(text, is_vtt=self._is_vtt)
        if self._is_vtt and not text.startswith("WEBVTT"):
            raise ValueError("line 1: a WebVTT file begins with WEBVTT")
        if not cues and not self._is_vtt and text.strip():
            raise ValueError("no subtitle has times, such as 00:00:01,000 --> 00:00:04,000")
        spelling = self._spelling(encoding)
        yield from self._joined(cues, spelling)
        yield Raw(spelling.raw(rest))

    def _joined(self, cues: list[_RawCue], spelling: Spelling) -> Iterator[Raw | Segment]:
        """Yields the texts of the cues; those that are one sentence are one text."""
        shown = [self._tag.sub("", cue.written).strip() for cue in cues]
        full_stops = sum(bool(_FULL_STOPPED.search(text)) for text in shown)
        is_punctuated = 3 * full_stops >= len(cues)
        waiting: CueText | None = None
        between: list[bytes] = []
        for index, cue in enumerate(cues):
            between.append(spelling.raw(cue.before))
            gap_s = cue.times.begin_s - cues[index - 1].times.end_s
            goes_on = (
                index > 0
                and abs(gap_s) <= _MOST_GAP_S
                and _goes_on(shown[index - 1], shown[index], is_punctuated)
            )
            for part in self._cue(cue, spelling):
                if isinstance(part, Raw):
                    between.append(part.content)
                    continue
                if waiting and goes_on and waiting.can_join(part):
                    waiting = waiting.joined(b"".join(between), part)
                else:
                    if waiting:
                        yield waiting
                    yield Raw(b"".join(between))
                    waiting = part
                goes_on = False
                between.clear()
        if waiting:
            yield waiting
        yield Raw(b"".join(between))

    def _cue(self, cue: _RawCue, spelling: Spelling) -> Iterator[Raw | CueText]:
        breaks = _BREAK.search(cue.written)
        line_end = breaks[0].strip(" \t") if breaks else "\n"
        for part in segments(list(self._pieces(cue.written, spelling)), spelling, keep=self._keep):
            if isinstance(part, Segment):
                yield CueText.of(part, cue.times, line_end, self._speeds)
            else:
                yield part

    def _pieces(self, written: str, spelling: Spelling) -> Iterator[Piece]:
        tags = [*self._tag.finditer(written)]
        matched = _matched([(tag[2], bool(tag[1])) for tag in tags])
        position = 0
        for index, tag in enumerate(tags):
            yield from _words(written, position, tag.start(), spelling)
            raw = spelling.raw(tag[0])
            if index not in matched:
                yield Opaque((raw,), kind="hidden")
            elif tag[1]:
                yield Closing((raw,))
            else:
                yield Opening((raw,))
            position = tag.end()
        yield from _words(written, position, len(written), spelling)

    @property
    def _tag(self) -> re.Pattern[str]:
        return _TAG if self._is_vtt else _NAMED_TAG

    @property
    def _keep(self) -> re.Pattern[str] | None:
        return None if self._is_vtt else _ENTITY  # of SubRip, not all players decode them

    def _spelling(self, encoding: str) -> Spelling:
        def read(written: str) -> str:
            text = _BREAK.sub("\n", written)
            return html.unescape(text) if self._is_vtt else text

        def write(text: str) -> bytes:
            if self._is_vtt:
                return html.escape(text, quote=False).encode(encoding, "replace")
            return _LIKE_MARKUP.sub(lambda match: f"{match[0]} ", text).encode(encoding, "replace")

        return Spelling(encoding, read, write)


def _cues(text: str, *, is_vtt: bool) -> tuple[list[_RawCue], str]:
    """Returns the cues, and what is after the last one.

    In SubRip, the text of a cue goes on behind an empty line, if no other cue begins there.
    """
    cues: list[_RawCue] = []
    lines = _LINE.findall(text)
    before: list[str] = []
    index = 0
    while index < len(lines):
        times = _TIMES.match(lines[index])
        both = "".join(lines[index : index + 2])
        goes_on = cues and not is_vtt and lines[index].strip() and "-->" not in both
        if not goes_on:
            before.append(lines[index])
            index += 1
        if not (times or goes_on):
            continue
        begin = index
        while index < len(lines) and lines[index].strip() and "-->" not in lines[index]:
            index += 1
        if index < len(lines) and "-->" in lines[index] and lines[index - 1].strip().isdigit():
            index -= 1  # the number of a cue without an empty line before it
        content = "".join(lines[begin : max(begin, index)])
        written = content.rstrip("\r\n")
        clocks = times.groups(default="0") if times else ()
        shown = Cue(_seconds(*clocks[:4]), _seconds(*clocks[4:])) if times else cues[-1].times
        cues.append(_RawCue("".join(before), written, shown))
        before = [content[len(written) :]]
    return cues, "".join(before)


def _seconds(hours: str, minutes: str, seconds: str, fraction: str) -> float:
    return 3600 * int(hours) + 60 * int(minutes) + float(f"{seconds}.{fraction}")


def _goes_on(before: str, after: str, is_punctuated: bool) -> bool:
    """Whether a sentence goes on in the next cue."""
    if not before or not after or _ENDED.search(before) or _SEPARATE.match(after):
        return False
    first = after.lstrip("\"'\u201e\u201c\u00ab\u2018")[:1]
    return is_punctuated or first.islower() or first in ",;"


def _words(written: str, begin: int, end: int, spelling: Spelling) -> Iterator[Piece]:
    """Yields a part of a cue; a line that begins another sentence is separated by a break."""
    position = begin
    for match in _BREAK.finditer(written, begin, end):
        if _SEPARATE.match(written, match.end()):
            yield Words(written[position : match.start()])
            yield Opaque((spelling.raw(match[0]),), kind="break")
            position = match.end()
    if position < end:
        yield Words(written[position:end])


def _matched(tags: list[tuple[str, bool]]) -> set[int]:
    """Returns the indices of tags that have a partner."""
    matched: set[int] = set()
    opened: list[int] = []
    for index, (name, is_closing) in enumerate(tags):
        if not is_closing:
            if name and not name[0].isdigit():
                opened.append(index)
        elif opened and tags[opened[-1]][0] == name:
            matched |= {index, opened.pop()}
    return matched
