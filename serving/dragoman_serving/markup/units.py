"""The units of a text that a code may enclose: words, numbers and single punctuation marks."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import cached_property
from itertools import groupby, pairwise

import numpy as np
from dragoman_options.markup import Markup, Span

from dragoman_serving.markup.evidence import Floats


def _marks() -> str:
    """Combining marks, which `re` does not count as word characters, as ranges for a class."""
    codes = (*range(0x20000), *range(0xE0100, 0xE01F0))  # all planes with combining marks
    marks = [code for code in codes if unicodedata.category(chr(code))[0] == "M"]
    runs = (list(run) for _, run in groupby(enumerate(marks), lambda item: item[1] - item[0]))
    return "".join(f"{chr(run[0][1])}-{chr(run[-1][1])}" for run in runs)


_UNIT = re.compile(
    rf"(?:\w|[{_marks()}\u200c\u200d]|(?<=\d)[.,\u00a0\u202f](?=\d)"  # a word or a number
    r"|(?<=[nN])['\u2019](?=[tT](?!\w)))+"  # don't
    r"|\S"
)
_NUMBER = re.compile(r"(?<!\d)(?<!\d[.,])(\d[\d.,]*)$")
"""The number at the end of a word."""
_ORDINAL = re.compile(r"(\d+)[^\W\d_]{1,5}")
"""A number with its ending."""
_WORD_CHARACTER = re.compile(r"\w")
_QUOTES = dict.fromkeys(
    map(ord, "\u201e\u201c\u201d\u201f\u00ab\u00bb\u2039\u203a\u2018\u2019\u201a\u00b4`'"), '"'
)
_DASHES = dict.fromkeys((*range(0x2010, 0x2016), 0x2212), "-")


class Units:
    """The units of a text, in order.

    Attributes:
        begins, ends: [N], offsets in the text.
        texts: the units for comparisons: case-folded, with one kind of quotes and dashes.
        is_word: [N], words and numbers.
    """

    def __init__(self, text: str, spans: Sequence[Span]) -> None:
        """Store the spans of the units."""
        self.text = text
        offsets = np.array(spans, np.int64).reshape(-1, 2)
        self.begins, self.ends = offsets[:, 0], offsets[:, 1]
        written = [text[begin:end] for begin, end in spans]
        self.texts = [unit.translate(_QUOTES).translate(_DASHES).casefold() for unit in written]
        self.is_word = np.array([bool(_WORD_CHARACTER.search(unit)) for unit in written], bool)

    def __len__(self) -> int:
        """Number of units."""
        return len(self.texts)

    @cached_property
    def length(self) -> int:
        """Characters from the first unit to the last."""
        return int(self.ends[-1] - self.begins[0]) if len(self) else 0

    def gap(self, index: int) -> Span:
        """Returns the white space before a unit; for index N, that after the last one."""
        begin = int(self.ends[index - 1]) if index else 0
        end = int(self.begins[index]) if index < len(self) else len(self.text)
        return begin, end

    def pooling(self, tokens: Sequence[Span]) -> Floats:
        """Returns the shares [tokens, N] of each token's characters in each unit.

        A token that is only white space belongs to the unit that follows.
        """
        begins, ends = np.array(tokens, np.int64).reshape(-1, 2).T
        common = np.minimum(ends[:, None], self.ends) - np.maximum(begins[:, None], self.begins)
        shares: Floats = np.maximum(common, 0).astype(np.float32)
        if len(self):
            (alone,) = np.nonzero(~shares.any(axis=1))
            following = np.searchsorted(self.begins, begins[alone]).clip(max=len(self) - 1)
            shares[alone, following] = 1
            shares /= shares.sum(axis=1, keepdims=True)
        return shares


def unit_pair(source: str, target: str, markup: Markup) -> tuple[Units, Units]:
    """Returns the units of a source text and of its translation.

    A kept span is one unit, also directly beside others. If a code begins or ends within a source
    word, the word is split there, and so is the same word in the target. Where that is between a
    letter and a number at the end of the word, such as a footnote's, or between a number and its
    ending, so is each target word with the same number.
    """
    kept = [_stripped(source, span) for span in markup.keep]
    kept = [(begin, end) for begin, end in kept if begin < end]
    whole = _spans(source, kept)
    borders = sorted({offset for code in markup.codes for offset in code[:2]})
    cut_words: dict[str, list[int]] = {}
    numbers: set[str] = set()
    source_spans: list[Span] = []
    at = 0
    for begin, end in whole:
        while at < len(borders) and borders[at] <= begin:
            at += 1
        cuts = []
        while at < len(borders) and borders[at] < end:
            cuts.append(borders[at] - begin)
            at += 1
        if cuts:
            cut_words.setdefault(source[begin:end], cuts)
            numbers |= {
                match[1]
                for cut in cuts
                if (
                    match := _number(source[begin:end], cut)
                    or _ORDINAL.fullmatch(source, begin, end)
                )
            }
        source_spans += _cut((begin, end), cuts)
    joined = _joined(source, kept)
    kept_in_target = [
        part
        for span in _occurrences(target, joined.keys())
        for part in _cut(span, joined[target[slice(*span)]])
    ]
    target_spans = [
        part
        for begin, end in _spans(target, kept_in_target)
        for part in _cut((begin, end), _cuts(target[begin:end], cut_words, numbers))
    ]
    return Units(source, source_spans), Units(target, target_spans)


def _joined(text: str, spans: Iterable[Span]) -> dict[str, list[int]]:
    """The texts of spans, those beside each other as one, and where they are divided."""
    joined: list[list[int]] = []
    for begin, end in spans:
        if joined and joined[-1][-1] == begin:
            joined[-1].append(end)
        else:
            joined.append([begin, end])
    return {text[run[0] : run[-1]]: [at - run[0] for at in run[1:-1]] for run in joined}


def _spans(text: str, whole: Iterable[Span]) -> list[Span]:
    """The spans of the units of a text; each span of `whole` is one unit."""
    spans: list[Span] = []
    at = 0
    for begin, end in whole:
        spans += [match.span() for match in _UNIT.finditer(text, at, begin)]
        spans.append((begin, end))
        at = end
    return spans + [match.span() for match in _UNIT.finditer(text, at)]


def _number(word: str, cut: int) -> re.Match[str] | None:
    """The number at the end of a word, if it begins at an index and a letter is before it."""
    return _NUMBER.fullmatch(word, cut) if word[cut - 1].isalpha() else None


def _cuts(word: str, cut_words: Mapping[str, Sequence[int]], numbers: Set[str]) -> Sequence[int]:
    """Where a target word is split: see `unit_pair`."""
    if word in cut_words or not numbers:
        return cut_words.get(word, ())
    if (match := _ORDINAL.fullmatch(word)) and match[1] in numbers:
        return [match.end(1)]
    match = _NUMBER.search(word)
    return [match.start()] if match and match[1] in numbers and match.start() else ()


def _cut(span: Span, cuts: Iterable[int]) -> list[Span]:
    begin, end = span
    borders = [begin, *(begin + cut for cut in cuts), end]
    return list(pairwise(borders))


def _stripped(text: str, span: Span) -> Span:
    """A span without the white space at its ends."""
    begin, end = span
    part = text[begin:end]
    return begin + len(part) - len(part.lstrip()), end - len(part) + len(part.rstrip())


def _occurrences(text: str, kept: Set[str]) -> list[Span]:
    """Spans at which texts occur in another text without splitting words; longest text first."""
    if not kept:
        return []
    within = {at for begin, end in _spans(text, ()) for at in range(begin + 1, end)}
    pattern = "|".join(map(re.escape, sorted(kept, key=len, reverse=True)))
    spans = (match.span() for match in re.finditer(pattern, text))
    return [span for span in spans if within.isdisjoint(span)]
