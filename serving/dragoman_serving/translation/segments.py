"""Splits a text into sentences for the engine, and joins their translations again."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from dragoman.kernel.texts.cutting import Span, SubwordTokenizer, cut_sentence
from dragoman.kernel.texts.language import Detected
from dragoman.kernel.texts.sentences import (
    BREAKS_TO_SPACES,
    LineBreaks,
    split_sentences,
)
from dragoman_serving.engine.sentence import Sentence
from dragoman_serving.fidelity.casing import Capitals
from dragoman_serving.fidelity.letter_case import lower
from dragoman_serving.fidelity.literals import Literal, meets_any, without
from dragoman_serving.fidelity.measures import UNITS
from dragoman_serving.fidelity.messages import syntax_spans
from dragoman_serving.fidelity.numbers import AMOUNT_SIGNS
from dragoman_serving.fidelity.phrases import Phrase
from dragoman_serving.fidelity.reading import Reading
from dragoman_serving.fidelity.restored import Restored
from dragoman_serving.fidelity.tagged_sentence import TaggedSentence
from dragoman_serving.markup.marked_texts import MarkedSentence, MarkedText
from dragoman_serving.request.glossary import Term

_EMPTY = Reading("")
_NO_LETTER = re.compile(r"[\W\d_]")
_INNER_CAPITAL = re.compile(r"[^\W\d_][A-ZÀ-ÖØ-Þ]")
_ESCAPES = (
    r"(?:\\\\?[nrt])++(?![A-Za-z]++[{\[])"
    r"(?!(?:abla|ewline|eq|heta|ho|ight\w*|imes|m|o|oindent|ot|u|au|ext\w*)\b)"
)
"""`\\n` and the like in texts of programs; not the beginning of a command of LaTeX."""
_BREAKS = {
    has_tags: re.compile(rf"(?:(?<!\s)\s*)?(?:{pattern})\s*")
    for has_tags, pattern in ((False, _ESCAPES), (True, rf"{_ESCAPES}|(?i:<br\b[^<>]*>)"))
}
"""What ends a line, by whether the text has tags."""


@dataclass
class SourceSentence(Sentence):
    """A sentence of a text, and how the model reads it.

    `marked` has the codes of the sentence, if its text has markup or tags. In the second case,
    `tags` is set, and the reading is without the tags. `original` is the sentence without tags, in
    the case of the request. `capitals` is set if the translation must be in capitals. `terms` are
    spans of the reading's text with a given translation, `phrases` those of which the translation
    must have a phrase of the same meaning. `languages` are those of the sentence and
    of its translation, `index` is that of its text. `has_numbers`, `has_brackets`: it has some that
    its translation must have. `has_marks`: an ellipsis and final marks are as in `original`.
    `prefix` is the given beginning of a translation in capitals.
    """

    reading: Reading = _EMPTY
    literals: tuple[Literal, ...] = ()
    marked: MarkedSentence | None = None
    tags: TaggedSentence | None = None
    original: str = ""
    has_marks: bool = False
    capitals: Capitals | None = None
    terms: tuple[Term, ...] = ()
    phrases: tuple[Phrase, ...] = ()
    languages: tuple[str, str] = ("", "")
    index: int = 0
    has_numbers: bool = False
    has_brackets: bool = False
    prefix: str = ""

    @property
    def needs_check(self) -> bool:
        """Whether the sentence has something that its translation might lack."""
        has_spans = bool(self.literals or self.terms or self.phrases)
        return self.has_numbers or self.has_brackets or has_spans

    @property
    def text(self) -> str:
        """The sentence as the model reads it."""
        return self.reading.text

    @property
    def line(self) -> str:
        """The sentence with its tags and literals."""
        return self.tags.source.text if self.tags else self.reading.line

    @property
    def in_capitals(self) -> bool:
        """Whether the translation is set in capitals."""
        return self.capitals is not None and not self.capitals.only_first

    def restored(self, written: str) -> Restored:
        """Returns a translation with the literals, and in capitals if the sentence is.

        The prefix and terms with capitals inside a word, such as iPhone, stay as they are given. So
        does the rest of a word that a prefix begins in small letters.
        """
        if self.capitals:
            prefix = self.prefix[: len(written)]
            fixed = []
            if prefix and lower(written[: len(prefix)]) == lower(prefix):
                written = prefix + written[len(prefix) :]
                end = len(prefix)
                if prefix[-1].islower():
                    end += len(_NO_LETTER.split(written[end:], maxsplit=1)[0])
                fixed.append((0, end))
            fixed += (
                match.span()
                for term in dict.fromkeys(glossary_term.target for glossary_term in self.terms)
                if _INNER_CAPITAL.search(term)
                for match in re.finditer(re.escape(term), written)
                if not fixed or match.start() >= fixed[0][1]
            )
            written = self.capitals.put_into(written, sorted(fixed))
        return self.reading.restored(written)

    def source_index(self, index: int) -> int:
        """Maps an index of `text` to `line`."""
        index = self.reading.index(index)
        return self.tags.source.places[index] if self.tags else index


Piece = SourceSentence | LineBreaks | str
"""A sentence to translate, the line breaks of the sentence before, or kept characters."""


@dataclass
class SourceText:
    """A text split into pieces, with its language, if detected, and its codes, if any.

    `is_unread`: it has words, but none that the model can read.
    """

    pieces: Sequence[Piece]
    detected: Detected | None = None
    marked: MarkedText | None = None
    is_unread: bool = False

    def __post_init__(self) -> None:
        self.sentences = [piece for piece in self.pieces if isinstance(piece, SourceSentence)]
        """The sentences to translate."""

    def with_sentences(self, sentences: Iterator[SourceSentence]) -> SourceText:
        """Returns a copy with its sentences replaced, in order."""
        pieces = [
            next(sentences) if isinstance(piece, Sentence) else piece for piece in self.pieces
        ]
        return replace(self, pieces=pieces)


def pieces_of_text(
    text: str,
    language: str,
    most_tokens: int,
    counter: SubwordTokenizer,
    literals: Sequence[Literal] = (),
    has_tags: bool = False,
    keeps_spaces: bool = True,
) -> Iterator[tuple[LineBreaks, str]]:
    """Split a text into sentences, and cut sentences that are too long.

    Signs at the ends of a sentence are kept, and so are sentences without letters besides literals,
    the syntax of ICU messages, and escaped line breaks.

    Args:
        text: any text.
        language: its language code.
        most_tokens: limit of a sentence, without special tokens.
        counter: counts tokens of a sentence as the model reads it.
        literals: its literals, which are not split.
        has_tags: whether it has tags, of which `<br>` ends a line.
        keeps_spaces: whether several spaces within a sentence are kept.

    Returns:
        Pairs of a sentence to translate, which may be empty, and the kept characters after it.

    Raises:
        Uncuttable: a single character has more tokens than the limit.
    """
    apart = syntax_spans(text)
    ends = {end for _, end in apart[:-1]}
    if has_tags or "\\" in text:
        spans = (match.span() for match in _BREAKS[has_tags].finditer(text))
        apart += (span for span in spans if not meets_any(literals, *span))
    at = 0
    for begin, end in (*sorted(apart), (len(text), len(text))):
        begin, end = max(begin, at), max(end, at)
        inner = _within(literals, at, begin)
        if at < begin:
            whole = [literal.span for literal in inner]
            if at in ends and text.startswith("# ", at):  # a number, not the mark of a heading
                whole.insert(0, (-1, 3))
            sentences = split_sentences(text[at:begin], language)
            if whole:
                sentences = _joined(sentences, whole)
            yield from _pieces(sentences, language, most_tokens, counter, inner, keeps_spaces)
        if begin < end:
            yield LineBreaks(""), text[begin:end]
        at = end


def _pieces(
    sentences: Sequence[tuple[str, str]],
    language: str,
    most_tokens: int,
    counter: SubwordTokenizer,
    literals: Sequence[Literal],
    keeps_spaces: bool,
) -> Iterator[tuple[LineBreaks, str]]:
    """The pieces of the sentences of a text without messages."""
    at = 0
    for sentence, kept in sentences:
        inner = _within(literals, at, at + len(sentence), cuts=True)
        at += len(sentence) + len(kept)
        begin, end = _core(sentence, inner)
        if begin == end:
            yield LineBreaks(""), sentence + kept
            continue
        if begin:
            yield LineBreaks(""), sentence[:begin]
        kept = sentence[end:] + kept
        sentence = sentence[begin:end]
        whole = [literal.span for literal in _within(inner, begin, end)]
        line = sentence.translate(BREAKS_TO_SPACES)
        begin = 0
        for piece, space in cut_sentence(line, most_tokens, language, counter, whole):
            end = begin + len(piece)
            after = sentence[end : end + len(space)]
            yield (
                LineBreaks.of(
                    sentence[begin:end],
                    keeps_spaces,
                    [(a - begin, b - begin) for a, b in whole if begin <= a < end],
                ),
                after + (kept if end + len(space) == len(line) else ""),
            )
            begin = end + len(space)


def has_words(text: str, literals: Sequence[Literal]) -> bool:
    """Whether a text has letters besides its literals; a unit, as in `3.5 km`, has some."""
    if any(literal.read for literal in literals):
        return True
    spans = [literal.span for literal in literals if text[slice(*literal.span)] not in UNITS]
    return any(map(str.isalpha, without(text, spans)))


def _within(literals: Sequence[Literal], begin: int, end: int, cuts: bool = False) -> list[Literal]:
    """The literals that begin in a part of a text, by their place in it.

    `cuts`: also the end of one that is joined to signs before the part, as in `|{n} files`.
    """
    first = bisect_left(literals, begin, key=lambda literal: literal.begin)
    last = bisect_left(literals, end, key=lambda literal: literal.begin)
    if cuts and first and literals[first - 1].end > begin:
        first -= 1
    return [
        literal._replace(begin=max(literal.begin - begin, 0), end=literal.end - begin)
        for literal in literals[first:last]
    ]


def _core(sentence: str, literals: Sequence[Literal]) -> Span:
    """The part of a sentence to translate, without signs at its ends; empty: there is none.

    A currency or per cent stays, since it belongs to an amount.
    """
    if not has_words(sentence, literals):
        return 0, 0
    begin, end = 0, len(sentence)
    signs = [
        literal.is_sign and sentence[slice(*literal.span)] not in AMOUNT_SIGNS
        for literal in literals
    ]
    for literal, is_sign in zip(literals, signs, strict=True):
        if not is_sign or sentence[begin : literal.begin].strip():
            break
        begin = literal.end
    for literal, is_sign in zip(reversed(literals), reversed(signs), strict=True):
        if not is_sign or sentence[literal.end : end].strip():
            break
        end = literal.begin
    part = sentence[begin:end]
    return begin + len(part) - len(part.lstrip()), end - len(part) + len(part.rstrip())


def _joined(sentences: list[tuple[str, str]], spans: Sequence[Span]) -> list[tuple[str, str]]:
    """Joins sentences if a span that begins in one of them ends in another."""
    joined: list[tuple[str, str]] = []
    begin = 0
    remaining = iter(spans)
    span = next(remaining, None)
    for sentence, kept in sentences:
        while span is not None and span[1] <= begin:
            span = next(remaining, None)
        if joined and span is not None and span[0] < begin - len(joined[-1][1]):
            before, between = joined.pop()
            joined.append((before + between + sentence, kept))
        else:
            joined.append((sentence, kept))
        begin += len(sentence) + len(kept)
    return joined


def join(pieces: Sequence[Piece], translations: Iterable[str]) -> str:
    """Returns the translation of a text, from those of its sentences in order."""
    return "".join(_joined_parts(pieces, translations))


def spans_of(pieces: Sequence[Piece], translations: Iterable[str]) -> list[Span]:
    """Returns the spans of the sentences' translations in the result of `join`."""
    parts = _joined_parts(pieces, translations)
    ends = list(itertools.accumulate(map(len, parts)))
    of_parts = zip([0, *ends], ends, strict=False)
    kinds = (piece for piece in pieces if not isinstance(piece, LineBreaks))
    return [
        span for piece, span in zip(kinds, of_parts, strict=True) if isinstance(piece, Sentence)
    ]


def _joined_parts(pieces: Sequence[Piece], translations: Iterable[str]) -> list[str]:
    """One part for each piece, with the line breaks put into the sentence before them."""
    remaining = iter(translations)
    parts: list[str] = []
    for piece in pieces:
        if isinstance(piece, Sentence):
            parts.append(next(remaining))
        elif isinstance(piece, LineBreaks):
            parts[-1] = piece.put_into(parts[-1])
        else:
            parts.append(piece)
    return parts
