# ruff: noqa: RUF001  the quotation marks and dashes of several languages
"""Splits a text into sentences to translate, and the characters between them, which are kept."""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import sentencex

from dragoman.kernel.texts.labels import label_gaps

_MARK = re.compile(
    r"""\s*+ (?: </?[a-zA-Z][^<>]*+>\s*+ )*+           # tags
    (?: (?: >{1,8} | [-*+•‣◦▪●○■□–—·] | \#{1,6}      # quotations, bullets, headings
          | \[[ xX]?\] | \d{1,3}[.)] | \(\d{1,3}\)   # boxes, numbers
          | [a-zA-Z]\) | \([a-zA-Z]\)                # letters
          | (?:[a-h] | [A-H](?=\.[ ][A-ZÀ-Þ\d])) \.(?![ ]?\w\.)  # not "z. B.", nor "E. coli"
          | (?:[ivx]{2,4} | i | [IVX]{1,4}(?=\.[ ][A-ZÀ-Þ\d])) [.)](?![ ]?\w\.)
        ) [^\S\r\n]+ | [-–—](?=[A-ZÀ-Þ"“„«¿¡]) )+  # also a speaker: "-Yes."
    """,
    re.VERBOSE,
)
"""A line may begin with these marks, also after tags. They are not part of a sentence."""
_SPEAKER = re.compile(r'[-–—](?: +(?=\S)|(?=[A-ZÀ-Þ"“„«¿¡]))')
"""The dash of another speaker, before a sentence within a line."""
_NUMBER_ALONE = re.compile(r"\d{1,3}[.)]")
"""The splitter takes the numbers in `1. Open the door. 2. Close it.` for sentences."""
_NARROWEST, _WIDEST = 40, 120
"""Limits of the longest line of a hard-wrapped paragraph, in characters."""
_FEWEST_LINES = 3
"""At least this many lines that are all full are a wrapped paragraph, however they begin."""

_PLAIN = re.compile(r"(?!.* {3})[^\W_](?:[\w '’]++|,(?= )|(?<! )-)*+[.!?]?(?<! )")
"""A single sentence without a position to cut at: checked first, because most texts are one."""

_COLUMN = re.compile(
    r"(?<!\s)[^\S\r\n]*(?:\t|(?<= ) (?= ))[^\S\r\n]*|(?<=\S)[^\S\r\n]+[|·•][^\S\r\n]+(?=\S)"
)
"""What is between the columns of a line: a tab, three spaces and more, or a bar or dot."""
_BETWEEN_COLUMNS = ("\t", "   ", "|", "·", "•")
"""It has one of these, which are searched in a tenth of the time."""
_LINE_BREAK = re.compile(r"(?<!\s)\s*[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]\s*")
_WIDE = re.compile(rf"{_LINE_BREAK.pattern}|(?<!\s)\s{{2,}}")
"""White space within a sentence that is more than a space."""
_SENTENCE_END = re.compile(r"[.!?:;\u2026][\"'”’“«»)\]]*$")

_WITHIN = re.compile(r"(?:\d|(?<!\w)\w\.\w)\.$")
"""The end of a date, or of an abbreviation such as `d.h.`: a small letter does not begin a sentence
after it."""
_INITIAL = re.compile(r"(?<!\w)[A-ZÀ-Þ]\.$")
_SHORT_WORD = re.compile(r"(?<!\w)\w{1,2}\.$|J\.-C\.$")
_LAST_WORD = re.compile(r"[^\s(«„“\"']{1,10}$")
_FRENCH = {
    *("m.", "mm.", "mme.", "mlle.", "mgr.", "dr.", "pr.", "me.", "st.", "ste.", "mr.", "prof."),
    *("art.", "av.", "apr.", "chap.", "cf.", "env.", "fig.", "vol.", "no.", "n°.", "p.", "pp."),
    *("gén.", "col.", "lt.", "trad.", "coll.", "c.-à-d."),
}
_GERMAN = {
    *("fa.", "fam.", "frl.", "geb.", "gest.", "inkl.", "exkl.", "zzgl.", "v.", "n.", "hrn.", "hl."),
    *("bspw.", "insb.", "ehem.", "gegr.", "verh.", "stellv.", "hrsg.", "präs.", "dipl.-ing."),
    *("dt.", "engl.", "frz.", "lat.", "griech.", "ital.", "russ.", "österr.", "schweiz.", "evang."),
}
_ABBREVIATIONS = {"de": _GERMAN, "en": {"vol.", "fig.", "pp."}, "fr": _FRENCH}
"""Abbreviations after which the splitter wrongly ends a sentence."""
_NOT_BEFORE_CAPITAL = {
    "en": {
        *("approx.", "ch.", "chap.", "para.", "sect.", "secs.", "vols.", "figs.", "eq.", "app."),
        *("max.", "tel.", "apt.", "tab.", "refs.", "ed."),
        *("mon.", "tue.", "tues.", "wed.", "thu.", "thurs.", "fri."),
    },
    "fr": {
        *("nos.", "réf.", "tab.", "max.", "min.", "ch.", "janv.", "févr.", "avr.", "juil."),
        *("sept.", "oct.", "nov.", "déc."),
    },
}
"""The same, except before a capital."""
_ORDINAL = re.compile(
    r"(?<!\w)(?:der|die|das|dem|den|des|im|am|zum|zur|vom|beim|ein|eine[mnrs]?)"
    r"\s+(?:\d{1,3}\.\s+(?:und|oder|bis)\s+)?\d{1,3}\.$",
    re.IGNORECASE,
)
_NO_NOUN = re.compile(
    r"(?:Er|Sie|Es|Wir|Ihr|Ich|Du|Man|Der|Die|Das|Ein|Eine|Am|Im|In|An|Auf|Bei|Mit|Nach|Und|Aber|Da"
    r"|Dann|Dort|Hier|Heute|Gestern|Morgen|Was|Wer|Wie|Wo|Wann)\b"
)
"""In German a number with a full stop is an ordinal, `der 2. Weltkrieg`, except before these."""
_ORDINAL_ALONE = re.compile(r"(?<![\w.,])\d{1,2}\.$")
_MONTH = re.compile(
    r"(?:Januar|Jänner|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember"
    r"|Jahrhundert|Weltkrieg|Kapitel)(?:s|es|e|en)?\b"
)
"""Words before which such a number is an ordinal even without an article."""
_OVERLOOKED = {
    "en": re.compile(r"\.(?:(?<=\b(?:me|no|ok|OK)\.)|(?<=\bill\.))[\"”’']*\s+(?=[\"“‘'(]?[A-Z])"),
    "de": re.compile(
        r"\.(?:(?<=\b(?:ok|OK)\.)|(?<=\b(?:mag|Art)\.)|(?<=\b(?:mich|Bart)\.))[\"“‘»]*\s+"
        r"(?=[\"„‚«»(]?[A-ZÄÖÜ])"
        r"|\.(?<=[a-zäöüß]{4}\.)\s+(?=(?:1\d|20)\d\d\s)|[!?]\s+(?=\d)"
    ),
}
"""Sentence ends that the splitter misses: words that it takes for abbreviations, and ends before
numbers. They begin with the full stop, for which `re` searches fastest."""
BREAKS_TO_SPACES = dict.fromkeys(map(ord, "\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029"), " ")
"""For `str.translate`: each character at which `str.splitlines` breaks lines."""
_BREAK = re.compile(f"[{''.join(map(chr, BREAKS_TO_SPACES))}]")
"""The same characters: with few of them in a text, it replaces them in a fifth of the time."""
_LINE_SEPARATOR = "\u2028"
"""Ends a line that was not wrapped. It stands for the line breaks of markup, such as `<br>`."""
_MOST_AT_ONCE = 5000
"""Characters per call of sentencex. No sentence is longer; one of more than half may be cut."""
_LAST_SPACE = re.compile(r".*\s", re.DOTALL)
_SEEN = 64
"""Characters on each side that are examined to decide whether a sentence ends between them."""
_BEFORE_NAME = re.compile(r"(?<!\S)\.$")
"""The beginning of a name such as `.NET`."""
_GOES_ON = re.compile(r"[a-zß-öø-ÿ0-9-]")
"""No sentence begins with these characters directly after another character."""


def split_sentences(text: str, language: str, *, at_labels: bool = True) -> list[tuple[str, str]]:
    """Split a text into sentences, keeping every character.

    A line break ends a sentence, except in a hard-wrapped paragraph (`LineBreaks` removes the
    breaks from a sentence and restores them). So does what is between columns: a tab, three spaces
    and more, or a bar. List bullets and numbers, the dashes of speakers, and parts without letters
    or digits, are not translated.

    Args:
        text: any text.
        language: its language code.
        at_labels: whether the labels of a line are split too: `Name: value`. Whether words are
            labels also depends on those behind them.

    Returns:
        Pairs of a sentence, without white space around it, and the kept characters after it. The
        first sentence is empty if the text begins with kept characters. Concatenated, the pairs
        are the text.
    """
    if _PLAIN.fullmatch(text) and says_something(text):
        return [(text, "")]
    parts: list[tuple[str, str]] = []
    for paragraph in _unwrapped(text):
        if paragraph.isspace():
            _keep(parts, paragraph)
            continue
        begin = _mark_end(paragraph, language)
        _keep(parts, paragraph[:begin])
        for piece, is_kept in _pieces(paragraph[begin:], language, at_labels):
            sentence = piece.strip()
            if is_kept or not says_something(sentence):
                _keep(parts, piece)
                continue
            at = piece.index(sentence)
            if parts and (dash := _SPEAKER.match(sentence)):
                at += dash.end()
                sentence = sentence[dash.end() :]
            _keep(parts, piece[:at])
            parts.append((sentence, piece[at + len(sentence) :]))
    return parts


@dataclass  # not frozen: that is three times slower, and there is one for each sentence
class LineBreaks:
    """The line breaks within a sentence, which are removed because the model knows none.

    Tabs, and white space of several characters, are line breaks here too.

    Attributes:
        line: the sentence on one line.
        breaks: each with its position, from 0 at the beginning of the line to 1 at its end.
        after_ends: for each break, whether the words before it end a sentence or clause.
    """

    line: str
    breaks: tuple[tuple[float, str], ...] = ()
    after_ends: tuple[bool, ...] = ()

    @classmethod
    def of(
        cls, sentence: str, keeps_spaces: bool = True, whole: Sequence[tuple[int, int]] = ()
    ) -> LineBreaks:
        """Remove the line breaks from a sentence.

        Args:
            sentence: any text.
            keeps_spaces: whether several spaces are kept too.
            whole: spans in which white space stays as it is, in order.
        """
        marks = [
            mark
            for mark in (_WIDE if keeps_spaces else _LINE_BREAK).finditer(sentence)
            if 0 < mark.start() < mark.end() < len(sentence)
        ]
        if marks and whole:
            begins = [begin for begin, _ in whole]
            at = [bisect.bisect_right(begins, mark.start()) - 1 for mark in marks]
            marks = [
                mark
                for mark, span in zip(marks, at, strict=True)
                if span < 0 or mark.end() > whole[span][1]
            ]
        if not marks:
            return cls(sentence)
        begins = [0, *(mark.end() for mark in marks)]
        ends = [*(mark.start() for mark in marks), len(sentence)]
        words = [sentence[begin:end] for begin, end in zip(begins, ends, strict=True)]
        line = " ".join(words)
        places = itertools.accumulate(len(part) + 1 for part in words[:-1])
        return cls(
            line,
            tuple(((at - 1) / len(line), mark[0]) for at, mark in zip(places, marks, strict=True)),
            tuple(map(_ends, words[:-1])),
        )

    @property
    def length(self) -> int:
        """Characters of the sentence, with its line breaks."""
        return len(self.line) + sum(len(mark) - 1 for _, mark in self.breaks)

    def put_into(self, translation: str) -> str:
        """Returns a translation with the same breaks, each in place of the nearest white space.

        After the end of a sentence or clause, that is the nearest such end of the translation. If
        there are more breaks than gaps between words, the last breaks are dropped. Breaks that the
        model generated become spaces, and white space around the translation is removed.
        """
        if not self.breaks:
            return " ".join(translation.splitlines()).strip()
        words = translation.split()
        places = list(itertools.accumulate(len(word) + 1 for word in words[:-1]))
        length = sum(map(len, words)) + len(places)
        gaps = [" "] * len(places)
        breaks = self.breaks[: len(gaps)]
        kinds = [
            [at for at, word in enumerate(words[:-1]) if _ends(word) == kind]
            for kind in (False, True)
        ]
        first = 0
        for number, ((place, mark), kind) in enumerate(zip(breaks, self.after_ends, strict=False)):
            end = len(gaps) - len(breaks) + number + 1  # leaves a gap for each later break
            alike: Sequence[int] = kinds[kind]
            low, high = (bisect.bisect_left(alike, at) for at in (first, end))
            if low == high:
                alike, low, high = range(len(gaps)), first, end
            target = place * length
            after = bisect.bisect_left(alike, target + 1, low, high, key=places.__getitem__)
            nearest = range(max(low, after - 1), min(after + 1, high))
            gap = min((alike[at] for at in nearest), key=lambda i: abs(places[i] - 1 - target))
            gaps[gap] = mark
            first = gap + 1
        return "".join(map("".join, zip(words, [*gaps, ""], strict=True))) if words else ""


def _ends(words: str) -> bool:
    """Whether words end with the end of a sentence or clause."""
    return _SENTENCE_END.search(words[-_SEEN:]) is not None


def _pieces(paragraph: str, language: str, at_labels: bool) -> Iterator[tuple[str, bool]]:
    """The sentences of the columns of a paragraph, and whether each is to be kept instead.

    Concatenated, they are the paragraph.
    """
    begin = 0
    has_columns = any(map(paragraph.__contains__, _BETWEEN_COLUMNS))
    for column in _COLUMN.finditer(paragraph) if has_columns else ():
        is_bar = not column[0].isspace()
        before = paragraph[max(begin, column.start() - _SEEN) : column.start()]
        if is_bar and before.count("(") > before.count(")"):
            continue  # P(A | B)
        yield from _labels(paragraph[begin : column.start()], language, at_labels)
        yield column[0], True
        begin = column.end()
    yield from _labels(paragraph[begin:], language, at_labels)


def _labels(column: str, language: str, at_labels: bool) -> Iterator[tuple[str, bool]]:
    """The sentences of a column, and what is between its labels."""
    at = 0
    for begin, end in label_gaps(column) if at_labels else ():
        for sentence in _segmented(column[at:begin], language):
            yield sentence, False
        yield column[begin:end], True
        at = end
    for sentence in _segmented(column[at:], language):
        yield sentence, False


def _keep(parts: list[tuple[str, str]], kept: str) -> None:
    """Append kept characters after the last sentence."""
    if kept:
        sentence, before = parts.pop() if parts else ("", "")
        parts.append((sentence, before + kept))


def _mark_end(paragraph: str, language: str) -> int:
    """The end of a paragraph's mark, such as a bullet; 0 if it has none."""
    mark = _MARK.match(paragraph)
    if mark is None or (language == "de" and _MONTH.match(paragraph, mark.end())):
        return 0
    return mark.end()


def says_something(sentence: str) -> bool:
    """Whether a text, without white space around it, has something to translate."""
    if _NUMBER_ALONE.fullmatch(sentence):
        return False
    return any(map(str.isalnum, sentence))


def _unwrapped(text: str) -> Iterator[str]:
    """Lines with their ends; a hard-wrapped paragraph is one item, as is a run of blank lines."""
    lines: list[str] = []
    for is_blank, run in itertools.groupby(text.splitlines(keepends=True), str.isspace):
        if is_blank:
            yield "".join(run)
            continue
        for line in run:
            if lines and (_MARK.match(line) or lines[-1].endswith(_LINE_SEPARATOR)):
                yield from _joined(lines)
                lines = []
            lines.append(line)
        yield from _joined(lines)
        lines = []


def _joined(lines: Sequence[str]) -> Iterator[str]:
    """Joins consecutive lines that were hard-wrapped.

    A line was wrapped if the first word of the next line does not fit into it. A single line may
    look like this accidentally, so the next one must then begin with a lower-case letter as well.
    """
    width = max((len(line.rstrip()) for line in lines), default=0)
    next_words = [line.split(None, 1)[0] for line in lines[1:]]
    full = [
        _NARROWEST <= width <= _WIDEST and len(line.rstrip()) + 1 + len(next_word) > width
        for line, next_word in zip(lines, next_words, strict=False)
    ]
    is_paragraph = len(lines) >= _FEWEST_LINES and all(full)
    paragraph = ""
    for number, line in enumerate(lines):
        if paragraph and not (is_paragraph or (full[number - 1] and line.lstrip()[0].islower())):
            yield paragraph
            paragraph = ""
        paragraph += line
    if paragraph:
        yield paragraph


def _segmented(paragraph: str, language: str) -> list[str]:
    """The sentences of sentencex, corrected; concatenated, they are the paragraph."""
    line = _BREAK.sub(" ", paragraph)  # an abbreviation may end a line
    pieces = list(_found(line, language))
    if "".join(pieces) != line:  # the splitter lost characters, so its result is not used
        return [paragraph]
    parts = itertools.chain.from_iterable(_parted(piece, language) for piece in pieces)
    ends = list(itertools.accumulate(map(len, parts)))
    kept = [
        end
        for end in ends[:-1]
        if not _belong_together(line[max(0, end - _SEEN) : end], line[end : end + _SEEN], language)
    ] + ends[-1:]
    return [paragraph[begin:end] for begin, end in itertools.pairwise([0, *kept])]


def _found(line: str, language: str) -> Iterator[str]:
    """The sentences of sentencex, in limited parts: its time is quadratic in quotation marks."""
    while len(line) > _MOST_AT_ONCE:
        first = line[:_MOST_AT_ONCE]
        *pieces, last = sentencex.segment(language, first)
        if len(last) > _MOST_AT_ONCE // 2:  # splitting most of it again each time takes too long
            space = _LAST_SPACE.match(last)
            pieces.append(last[: space.end()] if space else last)
            last = last[len(pieces[-1]) :]
        yield from pieces
        line = line[len(first) - len(last) :]
    yield from sentencex.segment(language, line)


def _parted(piece: str, language: str) -> Iterator[str]:
    """Splits a sentence at the ends that the splitter misses."""
    begin = 0
    if language in _OVERLOOKED:
        for match in _OVERLOOKED[language].finditer(piece):
            yield piece[begin : match.end()]
            begin = match.end()
    yield piece[begin:]


def _belong_together(before: str, after: str, language: str) -> bool:
    """Whether the splitter has cut one sentence in two."""
    begins = after.lstrip()
    if not begins:
        return True
    ends = before.rstrip()
    if len(ends) == len(before) and len(begins) == len(after):
        return bool(_GOES_ON.match(begins) or _BEFORE_NAME.search(ends))
    if _WITHIN.search(ends) and begins[0].islower():
        return True
    if language == "de" and (
        (_ORDINAL.search(ends) and not _NO_NOUN.match(begins))
        or (_ORDINAL_ALONE.search(ends) and _MONTH.match(begins))
    ):
        return True
    if language == "fr" and (
        _INITIAL.search(ends) or (_SHORT_WORD.search(ends) and begins[0].islower())
    ):
        return True
    word = _LAST_WORD.search(ends)
    if word is None:
        return False
    abbreviation = word[0].lower()
    return abbreviation in _ABBREVIATIONS.get(language, ()) or (
        not begins[0].isupper() and abbreviation in _NOT_BEFORE_CAPITAL.get(language, ())
    )
