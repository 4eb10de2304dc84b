"""Texts that are shown in parts, one after the other, such as a sentence over several subtitles."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final, NamedTuple, Self

from dragoman_options.markup import Code, Markup, PlacedCodes, Span

from dragoman_documents.core.gaps import BREAK
from dragoman_documents.core.segments import Segment, Tag

MOST_CHARACTERS_A_SECOND: Final = 20
"""Subtitles with more are reported: few people read faster."""
MOST_JOINED: Final = 1000
"""Approximate maximum number of characters and of codes of a text of several cues."""
_SPACE: Final = re.compile(r"[\s\0-\x1f\x7f]")
_WIDE: Final = re.compile("[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]")
"""A line may end before or after these characters without a space."""


_NO_TAG: Final = Tag((b"",))


class Cue(NamedTuple):
    """A part of a text that is shown for some time.

    Attributes:
        begin_s: when it appears.
        end_s: when it disappears.
    """

    begin_s: float
    end_s: float

    @property
    def clock(self) -> str:
        """When it appears, for messages."""
        minutes, seconds = divmod(int(self.begin_s), 60)
        return f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"


class ReadingSpeeds:
    """How fast the translated cues must be read."""

    def __init__(self) -> None:
        """Start without cues."""
        self._cues = self._fast_sources = 0
        self._fast: list[tuple[float, Cue]] = []

    def add(self, cue: Cue, characters: int, source_characters: int) -> None:
        """Add a translated cue, with its length and that of its source."""
        shown_s = max(cue.end_s - cue.begin_s, 0.001)
        self._cues += 1
        self._fast_sources += source_characters > MOST_CHARACTERS_A_SECOND * shown_s
        if characters > MOST_CHARACTERS_A_SECOND * shown_s:
            self._fast.append((characters / shown_s, cue))

    @property
    def warnings(self) -> list[str]:
        """A sentence about the cues that are shown too briefly, if there are any."""
        if not self._fast:
            return []
        speed, cue = max(self._fast)
        return [
            f"{len(self._fast)} of {self._cues} subtitles have more than "
            f"{MOST_CHARACTERS_A_SECOND} characters a second, {self._fast_sources} in the source; "
            f"most has the one at {cue.clock}, with {speed:.0f}"
        ]


@dataclass(frozen=True)
class CueText(Segment):
    """A text of one cue or of several; its translation is divided among the same cues.

    Attributes:
        cues: the cues.
        borders: index of the code between each two cues; it covers a space of the text. A line that
            begins another sentence has a code too, which covers `BREAK`; it has no tag, because all
            line ends are written anew.
        lines: number of lines of each part of the text between two borders or line breaks.
        speeds: gets the cues with their translations.
    """

    cues: tuple[Cue, ...] = ()
    borders: tuple[int, ...] = ()
    lines: tuple[int, ...] = ()
    speeds: ReadingSpeeds = field(default_factory=ReadingSpeeds)

    @classmethod
    def of(cls, segment: Segment, cue: Cue, line_end: str, speeds: ReadingSpeeds) -> Self:
        """Make a text of one cue.

        Args:
            segment: its text, with a line feed where a line of it ends.
            cue: the cue.
            line_end: the line end of the file.
            speeds: see `CueText`.
        """
        parts = segment.text.split(BREAK)
        tags = [
            _NO_TAG if segment.text[code.begin : code.end] == BREAK else tag
            for code, tag in zip(segment.markup.codes, segment.tags, strict=True)
        ]
        return cls(
            segment.text.replace("\n", " "),
            segment.markup,
            segment.original,
            segment.spelling,
            tuple(tags),
            line_end=line_end,
            cues=(cue,),
            lines=tuple(part.count("\n") + 1 for part in parts),
            speeds=speeds,
        )

    def can_join(self, other: CueText) -> bool:
        """Whether both texts together are still short."""
        codes = len(self.markup.codes) + len(other.markup.codes)
        return len(self.text) < MOST_JOINED and codes < MOST_JOINED

    def joined(self, between: bytes, other: CueText) -> CueText:
        """Returns the text that goes on in the next cue.

        Args:
            between: the bytes between the two texts.
            other: the text of the next cue.
        """
        index, length = len(self.markup.codes) + 1, len(self.text) + 1
        codes = (
            *self.markup.codes,
            Code(length - 1, length),
            *(
                Code(begin + length, end + length, None if parent is None else parent + index)
                for begin, end, parent in other.markup.codes
            ),
        )
        kept = ((begin + length, end + length) for begin, end in other.markup.keep)
        return replace(
            self,
            text=f"{self.text} {other.text}",
            markup=Markup(codes, (*self.markup.keep, *kept)),
            original=self.original + between + other.original,
            tags=(*self.tags, Tag((between,)), *other.tags),
            cues=self.cues + other.cues,
            borders=(*self.borders, index - 1, *(index + border for border in other.borders)),
            lines=self.lines + other.lines,
        )

    def write(
        self, translation: str, placed: PlacedCodes, attributes: Sequence[bytes] | None = None
    ) -> bytes:
        """See `Segment`."""
        own = tuple((begin, end) for begin, end, _ in self.markup.codes)
        if not translation.strip() or (translation == self.text and placed.codes == own):
            return super().write(self.text, PlacedCodes(own), attributes)
        text = _SPACE.sub(" ", translation)
        spans = [(min(begin, len(text)), min(end, len(text))) for begin, end in placed.codes]
        spans = [*spans, *[(len(text), len(text))] * (len(own) - len(spans))][: len(own)]
        text, spans = self._divided(text, spans)
        return super().write(self._wrapped(text, spans), PlacedCodes(tuple(spans)), attributes)

    def _divided(self, text: str, spans: list[Span]) -> tuple[str, list[Span]]:
        """Returns the text without the spaces at borders, and the spans with these borders."""
        cuts = _cuts(text, sorted(spans[index][0] for index in self.borders))
        kept = [*_kept(text, cuts)]
        text = "".join(text[index] for index in kept)
        spans = [(bisect_left(kept, begin), bisect_left(kept, end)) for begin, end in spans]
        cuts = [bisect_left(kept, cut) for cut in cuts]
        spans = [_on_one_side(span, cuts) for span in spans]
        for index, cut in zip(self.borders, cuts, strict=True):
            spans[index] = cut, cut
        own = [self.markup.codes[index].begin for index in self.borders]
        sizes, own_sizes = (
            [end - begin for begin, end in pairwise(ends)]
            for ends in ([0, *cuts, len(text)], [0, *own, len(self.text)])
        )
        for cue, size, own_size in zip(self.cues, sizes, own_sizes, strict=True):
            self.speeds.add(cue, size, own_size)
        return text, spans

    def _wrapped(self, text: str, spans: Sequence[Span]) -> str:
        """Returns the text with as many lines in each part as the source has."""
        ends = [(spans[index][0], True) for index in self.borders]
        for (begin, _), code in zip(spans, self.markup.codes, strict=True):
            if self.text[code.begin : code.end] == BREAK:
                ends.append((begin - (text[begin : begin + 1] != " "), False))
        characters, begin, count, last = list(text), 0, 0, len(text.rstrip())
        for lines, (end, is_border) in zip(
            self.lines, sorted([*ends, (len(text), True)]), strict=True
        ):
            count += lines
            is_line_end = begin < end < last and text[end] == " "
            if is_border or is_line_end:
                for at in _line_ends(text, begin, end, count):
                    characters[at] = "\n"
                if not is_border:
                    characters[end] = "\n"
                begin, count = end + (not is_border), 0
        return "".join(characters)


def _cuts(text: str, offsets: Sequence[int]) -> list[int]:
    """Returns where to divide a text: between words, near the given offsets, in their order."""
    places = [
        at
        for at in range(1, len(text.rstrip()))
        if (text[at].isspace() and not text[at - 1].isspace())
        or _WIDE.match(text[at - 1])
        or (_WIDE.match(text[at]) and not text[at - 1].isspace())
    ]
    cuts: list[int] = []
    first = 0
    for number, offset in enumerate(offsets, start=1):
        last = len(places) - (len(offsets) - number)
        if first >= last:
            cuts.append(places[first] if first < len(places) else len(text))
            first += 1
            continue
        after = min(max(bisect_left(places, offset), first), last - 1)
        before = max(after - 1, first)
        nearest = min(before, after, key=lambda index: abs(places[index] - offset))
        cuts.append(places[nearest])
        first = nearest + 1
    return cuts


def _kept(text: str, cuts: Sequence[int]) -> Iterator[int]:
    """Yields the indices of a text without spaces beside the cuts, and without double spaces."""
    borders = {0, *cuts}
    is_behind_space = True
    for index, character in enumerate(text):
        is_behind_space = is_behind_space or index in borders
        if character != " ":
            is_behind_space = False
            yield index
        elif not is_behind_space and index not in borders:
            is_behind_space = True
            yield index


def _on_one_side(span: Span, cuts: Sequence[int]) -> Span:
    """Returns the longest part of a span that is between two cuts."""
    begin, end = span
    inner = cuts[bisect_left(cuts, begin) : bisect_left(cuts, end)]
    parts = pairwise([begin, *inner, end])
    return max(parts, key=lambda part: part[1] - part[0]) if inner else span


def _line_ends(text: str, begin: int, end: int, count: int) -> Iterator[int]:
    """Yields the spaces at which a part of a text is divided into lines of similar lengths."""
    spaces = [at for at in range(begin + 1, end - 1) if text[at] == " "]
    first = 0
    for number in range(1, count):
        last = len(spaces) - (count - 1 - number)
        if first >= last:
            return
        ideal = begin + (end - begin) * number // count
        index = min(max(bisect_left(spaces, ideal), first), last - 1)
        before = max(index - 1, first)
        # After a punctuation mark, a line may be some characters longer or shorter.
        index = min(
            range(before, min(index + 2, last)),
            key=lambda i: abs(spaces[i] - ideal) - 6 * (text[spaces[i] - 1] in ".,;:!?"),
        )
        yield spaces[index]
        first = index + 1
