"""Finds where in a translation a literal or a term belongs, by the attention on its source."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from dragoman.kernel.text import Piece
from dragoman.kernel.texts.cutting import Span
from dragoman_serving.fidelity.letter_case import with_capital
from dragoman_serving.fidelity.negations import has_negation
from dragoman_serving.fidelity.numbers import has_digits
from dragoman_serving.fidelity.phrases import Phrase
from dragoman_serving.fidelity.reading import Reading
from dragoman_serving.fidelity.restored import Edit
from dragoman_serving.request.glossary import Term
from dragoman_serving.translation.losses import occurrences

_WORD = re.compile(r"\w+(?:[-’']\w+)*")  # noqa: RUF001
_WORD_OR_NUMBER = re.compile(rf"\d+(?:[.,:/\u00a0\u202f]\d+)+|{_WORD.pattern}")
_HEAD, _TAIL = re.compile(r"(?<!\S)[^\w\s]{1,8}+(?=\w)"), re.compile(r"(?<=\w)[^\w\s]+$")
"""Signs at the ends of a term, as of `.NET` and `C++`."""
_LINKED = 0.5
"""A word belongs to a term if this share of the strongest attention lies on it."""
_LEAST_WEIGHT = 1e-6
_SHORT = 2
"""Characters of abbreviations that have no capital at the beginning of a sentence: `p. 12`."""
_BEFORE_WORDS = frozenset('([„“"$€£')
"""Characters after which a word or a number begins."""
_FINAL_MARKS = " .!?:;"


@dataclass(frozen=True)
class Aligned:
    """A translation and its alignment.

    Attributes:
        text: the translation, with stand-ins.
        pieces: its tokens.
        weights: [T, S], attention of each token to each token of the sentence, or to parts of it.
        source: the tokens or parts.
    """

    text: str
    pieces: Sequence[Piece]
    weights: npt.NDArray[np.float32]
    source: Sequence[Piece]

    @classmethod
    def by_position(cls, text: str, pieces: Sequence[Piece], source: Sequence[Piece]) -> Self:
        """An alignment of tokens at the same position, relative to the lengths of both sides."""
        rows = (np.arange(len(pieces)) + 0.5) / max(1, len(pieces))
        columns = (np.arange(len(source)) + 0.5) / max(1, len(source))
        weights = 1 - np.abs(rows[:, None] - columns)
        return cls(text, pieces, weights.astype(np.float32), source)

    def on(self, begin: int, end: int) -> npt.NDArray[np.float32]:
        """Returns each token's attention [T] to a span of the sentence."""
        columns = [
            index
            for index, part in enumerate(self.source)
            if part.begin < end and max(part.end, part.begin + 1) > begin
        ]
        weights: npt.NDArray[np.float32] = self.weights[:, columns].sum(axis=1)
        return weights

    def within(self, begin: int, end: int) -> list[int]:
        """Returns the indices of the tokens in a span of the translation."""
        return [
            index
            for index, piece in enumerate(self.pieces)
            if piece.begin < end and piece.end > begin
        ]

    def strongest_within(self, weights: npt.NDArray[np.float32], begin: int, end: int) -> float:
        """Returns the largest of the tokens' weights [T] in a span of the translation."""
        return float(weights[self.within(begin, end)].max(initial=0.0))


def begin_of_word(text: str, index: int) -> int:
    """Returns where a word begins that has a character, or the number in it."""
    while index > 0 and not text[index - 1].isspace() and text[index - 1] not in _BEFORE_WORDS:
        index -= 1
    return index


def edits_of_literals(aligned: Aligned, reading: Reading, begin: int) -> list[Edit]:
    """The edits that write stand-ins that a translation lacks, after a prefix.

    At the end of the sentence, one is written at the end of the translation, else before the word
    that attends to it. Signs that are there too often are removed.
    """
    text, edits = aligned.text, list[Edit]()
    spans = zip(reading.stand_ins, reading.spans, strict=True)
    of_stand_in: dict[str, list[Span]] = {}
    for stand_in, span in spans:
        of_stand_in.setdefault(stand_in, []).append(span)
    for stand_in, places in of_stand_in.items():
        written = reading.spans_of(stand_in, text)
        for span in places[len(written) :]:
            edits.append(_of_literal(aligned, stand_in, reading.text, span, begin))
        if not stand_in.isalnum():
            edits += (
                Edit(len(text[:first].rstrip()), end, "")
                for first, end in written[len(places) :]
                if first >= begin
            )
    return sorted(edits)


def _of_literal(aligned: Aligned, stand_in: str, source: str, span: Span, begin: int) -> Edit:
    text = aligned.text
    if not any(map(str.isalnum, source[span[1] :])):
        end = max(begin, len(text.rstrip(_FINAL_MARKS)))
        return Edit(end, end, f" {stand_in}" if text[:end] else stand_in)
    weights = aligned.on(*span)
    at = max(0, aligned.pieces[int(weights.argmax())].end - 1) if weights.size else 0
    at = max(begin, begin_of_word(text, at)) if any(map(str.isalnum, source[: span[0]])) else begin
    return Edit(at, at, f"{gap_after_prefix(text, begin, at)}{stand_in} ")


def gap_after_prefix(text: str, end: int, at: int) -> str:
    """Returns the space before what is written directly after a prefix, which ends with a word."""
    return " " if at == end and text[:end][-1:].isalnum() else ""


def edits_of_terms(
    aligned: Aligned,
    reading: Reading,
    terms: Sequence[Term],
    begin: int,
    can_write: Callable[[str], bool],
) -> list[Edit]:
    """The edits for terms, after a prefix; those that replace the same words are joined."""
    words = list(_WORD.finditer(reading.masked(aligned.text), begin))
    edits: list[tuple[Edit, Term]] = []
    for term in terms:
        edit = _of_term(aligned, term, words, can_write)
        if occurrences(term.target, aligned.text[edit.begin : edit.end]):
            continue  # it is there already
        edits.append((edit, term))
    groups: list[list[tuple[Edit, Term]]] = []
    for edit, term in sorted(edits, key=lambda pair: (pair[0].begin, pair[0].end)):
        if groups and edit.begin < max(other.end for other, _ in groups[-1]):
            groups[-1].append((edit, term))
        else:
            groups.append([(edit, term)])
    return [edit for group in groups for edit in _joined(group, words, reading.text)]


def edits_of_phrases(
    aligned: Aligned,
    reading: Reading,
    phrases: Sequence[Phrase],
    missing: Mapping[str, int],
    begin: int,
    languages: tuple[str, str],
) -> list[Edit]:
    """The edits for phrases, after a prefix: the words in place of one are replaced by it.

    Negations stay if the sentence has one. If there are no such words, it is written beside its
    number, or the word with the strongest attention.

    Args:
        aligned: the translation.
        reading: the sentence.
        phrases: its phrases.
        missing: how many the translation lacks, by what is written for them.
        begin: length of the prefix.
        languages: those of the sentence and of the translation.
    """
    source, target = languages
    keeps_negations = has_negation(reading.text, source)
    masked = reading.masked(aligned.text)
    taken = [match.span() for phrase in phrases for match in phrase.accepted.finditer(masked)]
    edits: list[Edit] = []
    for written, number in missing.items():
        free = [
            word
            for word in _WORD_OR_NUMBER.finditer(masked, begin)
            if not any(first < word.end() and word.start() < end for first, end in taken)
            and not (keeps_negations and has_negation(word[0], target))
        ]
        of_meaning = [
            _of_phrase(aligned, reading.text, phrase, free)
            for phrase in phrases
            if phrase.written == written
        ]
        best = sorted(of_meaning, reverse=True)[:number]
        edits += (edit for _, edit in best)
        taken += (edit[:2] for _, edit in best)
    return sorted(edits)


def _of_phrase(
    aligned: Aligned, source: str, phrase: Phrase, words: Sequence[re.Match[str]]
) -> tuple[float, Edit]:
    """How much of the attention of a word lies on a phrase, and the edit for the phrase."""
    weights = aligned.on(phrase.begin, phrase.end)
    share = weights / np.maximum(aligned.weights.sum(axis=1), _LEAST_WEIGHT)
    shares = [
        0.0 if has_digits(word[0]) else aligned.strongest_within(share, *word.span())
        for word in words
    ]
    linked = [index for index, weight in enumerate(shares) if weight >= _LINKED]
    if not linked:
        return 0.0, _beside(aligned, source, phrase, words)
    first = last = max(linked, key=shares.__getitem__)
    strongest = shares[first]
    for _ in _WORD.findall(phrase.written):
        if first - 1 in linked:
            first -= 1
        elif last + 1 in linked:
            last += 1
    begin, end = words[first].start(), words[last].end()
    if aligned.text[end : end + 1] == ".":  # of an abbreviation, unless it ends the sentence alone
        is_within = source[phrase.end - 1] == "." and bool(aligned.text[end + 1 :].strip())
        end += is_within or phrase.written[-1] == "."
    return strongest, Edit(begin, end, _at(aligned.text, begin, phrase.written))


def _beside(aligned: Aligned, source: str, phrase: Phrase, words: Sequence[re.Match[str]]) -> Edit:
    """The edit that adds a phrase to a translation that has nothing for it."""
    if not words:
        return Edit(len(aligned.text), len(aligned.text), f" {phrase.written}")
    before, behind = source[: phrase.begin].split()[-1:], source[phrase.end :].split()[:1]
    weights = aligned.on(phrase.begin, phrase.end)
    is_before = bool(behind) and has_digits(behind[0])
    if is_before or (before and has_digits(before[0])):
        end = phrase.end + 1 + len(behind[0]) if is_before else phrase.begin
        begin = phrase.end if is_before else max(0, phrase.begin - 1 - len(before[0]))
        weights = aligned.on(begin, end)
    word = max(words, key=lambda word: aligned.strongest_within(weights, *word.span()))
    if is_before:
        return Edit(
            word.start(), word.start(), f"{_at(aligned.text, word.start(), phrase.written)} "
        )
    return Edit(word.end(), word.end(), f" {phrase.written}")


def _at(text: str, begin: int, phrase: str) -> str:
    """A phrase with a capital, if it is written at the beginning of a translation that has one."""
    is_first = not text[:begin].strip() and not text[begin : begin + 1].islower()
    return with_capital(phrase) if is_first and len(phrase) > _SHORT else phrase


def _joined(
    group: Sequence[tuple[Edit, Term]], words: Sequence[re.Match[str]], source: str
) -> Iterator[Edit]:
    """Edits that overlap as one, or as one for each word if there are as many words."""
    edits = [edit for edit, _ in group]
    begin, end = edits[0].begin, max(edit.end for edit in edits)
    replaced = [word for word in words if begin <= word.start() < end]
    if len(edits) == 1:
        yield edits[0]
    elif len(replaced) == len(edits):
        for edit, word in zip(edits, replaced, strict=True):
            yield Edit(*word.span(), edit.text)
    else:
        text = edits[0].text
        for (_, term), (edit, following) in itertools.pairwise(group):
            gap = source[term.end : following.begin]
            text += (" " if not gap or _WORD.search(gap) else gap) + edit.text
        yield Edit(begin, end, text)


def _of_term(
    aligned: Aligned,
    term: Term,
    words: Sequence[re.Match[str]],
    can_write: Callable[[str], bool],
) -> Edit:
    weights = aligned.on(term.begin, term.end)
    attention = [aligned.strongest_within(weights, *word.span()) for word in words]
    nearest = int(np.argmax(attention)) if words else 0
    if not has_digits(term.source):  # a number is no word for it
        attention = [
            0.0 if has_digits(word[0]) else weight
            for word, weight in zip(words, attention, strict=True)
        ]
    if not any(attention):
        at = words[nearest].end() if words else len(aligned.text)
        gap = " " if aligned.text[:at].strip() else ""
        return Edit(at, at, gap + term.target)
    first = last = int(np.argmax(attention))
    least = _LINKED * attention[first]
    for _ in range(len(_WORD.findall(term.source))):
        if first > 0 and attention[first - 1] >= least:
            first -= 1
        elif last + 1 < len(words) and attention[last + 1] >= least:
            last += 1
    begin, end, text = words[first].start(), words[last].end(), term.target
    if (tail := _TAIL.search(term.source)) and aligned.text.startswith(tail[0], end):
        end += len(tail[0])
    if (head := _HEAD.match(term.source)) and aligned.text.endswith(head[0], 0, begin):
        begin -= len(head[0])
    capital = with_capital(text)
    if first == 0 and aligned.text[begin].isupper() and can_write(capital):
        text = capital
    return Edit(begin, end, text)
