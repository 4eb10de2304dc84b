"""Splits a text into sentences for the engine, and joins their translations again."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from dragoman.kernel.cutting import Span, SubwordTokenizer, cut_sentence
from dragoman.kernel.language import Detected
from dragoman.kernel.sentences import (
    BREAKS_TO_SPACES,
    LineBreaks,
    says_something,
    split_sentences,
)
from dragoman.kernel.text import Tokenizer
from dragoman_serving.engine.sentence import Sentence
from dragoman_serving.markup.marked_texts import MarkedSentence, MarkedText
from dragoman_serving.request.casing import Capitals, Casing
from dragoman_serving.request.placeholders import placeholder_spans
from dragoman_serving.request.tagged_sentence import TaggedSentence


@dataclass(frozen=True)
class SourceSentence(Sentence):
    """A sentence of a text, with its original spelling.

    `placeholders` are the placeholders to keep, each in the vocabulary's and in the text's
    spelling. `marked` has the codes of the sentence, if its text has markup or if some placeholders
    are tags. In the second case `tags` is set, and `text` is without the tags. `text` is in the
    case that the model reads. `capitals` is set if the sentence, and so its translation, is in
    capitals.
    """

    text: str = ""
    placeholders: tuple[tuple[str, str], ...] = ()
    marked: MarkedSentence | None = None
    tags: TaggedSentence | None = None
    capitals: Capitals | None = None

    @property
    def line(self) -> str:
        """The sentence with its tags."""
        return self.tags.source.text if self.tags else self.text


Piece = SourceSentence | LineBreaks | str
"""A sentence to translate, the line breaks of the sentence before, or kept characters."""


@dataclass(frozen=True)
class SourceText:
    """A text split into pieces, with its language, if detected, and its codes, if any."""

    pieces: Sequence[Piece]
    detected: Detected | None = None
    marked: MarkedText | None = None

    @cached_property
    def sentences(self) -> list[SourceSentence]:
        """The sentences to translate."""
        return [piece for piece in self.pieces if isinstance(piece, SourceSentence)]

    def with_sentences(self, sentences: Iterator[SourceSentence]) -> SourceText:
        """Returns a copy with its sentences replaced, in order."""
        pieces = [next(sentences) if isinstance(one, Sentence) else one for one in self.pieces]
        return replace(self, pieces=pieces)


def pieces_of_text(
    text: str,
    language: str,
    most_tokens: int,
    tokenizer: Tokenizer,
    keeps_placeholders: bool = False,
    keep: Sequence[Span] = (),
    tags_are_codes: bool = False,
) -> Iterator[tuple[LineBreaks, str]]:
    """Split a text into sentences, and cut sentences that are too long.

    A placeholder or kept span that alone exceeds the limit is kept between two sentences.

    Args:
        text: any text.
        language: its language code.
        most_tokens: limit of a sentence, without special tokens.
        tokenizer: counts tokens.
        keeps_placeholders: whether placeholders must not be split.
        keep: spans of the text that must not be split either, in order.
        tags_are_codes: whether tags are removed from a sentence, so that they do not count.

    Returns:
        Pairs of a sentence to translate, which may be empty, and the kept characters after it.

    Raises:
        Uncuttable: a single character has more tokens than the limit.
    """
    sentences = split_sentences(text, language)
    if keeps_placeholders:
        sentences = _joined(sentences, placeholder_spans(text))
    if keep:
        sentences = _joined(sentences, keep)
    at = 0
    for sentence, kept in sentences:
        line = sentence.translate(BREAKS_TO_SPACES)
        whole = placeholder_spans(line) if keeps_placeholders else []
        whole += [(a - at, b - at) for a, b in keep if at <= a and b <= at + len(line)]
        at += len(sentence) + len(kept)
        counter: SubwordTokenizer = tokenizer
        if tags_are_codes or (line.isupper() and not keep):
            counter = _AsTranslated(tokenizer, keeps_placeholders, tags_are_codes)
        long = [span for span in whole if len(counter.encode(line[slice(*span)])) > most_tokens]
        for begin, end, last in _around(line, long):
            behind = sentence[end:last] + (kept if last == len(line) else "")
            if begin == end:
                yield LineBreaks("", ()), behind
                continue
            inner = [(a - begin, b - begin) for a, b in whole if begin <= a and b <= end]
            pieces = cut_sentence(line[begin:end], most_tokens, language, counter, inner)
            for piece, space in pieces:
                piece_end = begin + len(piece)
                begin = piece_end + len(space)
                after = sentence[piece_end:begin] + (behind if begin == end else "")
                yield LineBreaks.of(sentence[piece_end - len(piece) : piece_end]), after


def _around(line: str, long: Sequence[Span]) -> Iterator[tuple[int, int, int]]:
    """The parts of a sentence around spans that are too long to be translated with it.

    Yields:
        Begin and end of a part, which may be empty, and the end of the kept characters after it.
    """
    if not long:
        yield 0, len(line), len(line)
        return
    begins = [0, *(end for _, end in long)]
    for begin, (end, last) in zip(begins, [*long, (len(line), len(line))], strict=True):
        part = line[begin:end].strip()
        if not says_something(part):
            yield begin, begin, last
            continue
        first = line.index(part, begin)
        if first > begin:
            yield begin, begin, first
        yield first, first + len(part), last


class _AsTranslated:
    """Counts the tokens of a sentence as it is translated: without its tags, in its usual case."""

    def __init__(
        self, tokenizer: Tokenizer, keeps_placeholders: bool, tags_are_codes: bool
    ) -> None:
        """Store how the sentence is translated."""
        self._tokenizer, self._casing = tokenizer, Casing(tokenizer)
        self._keeps_placeholders, self._tags_are_codes = keeps_placeholders, tags_are_codes

    def encode(self, text: str) -> list[int]:
        """Returns the token ids of a text as it is translated."""
        return self._tokenizer.encode(self._read(text)[1])

    def token_starts(self, text: str) -> list[int]:
        """Returns the character index, in the text with its tags, at which each token begins."""
        tags, read = self._read(text)
        starts = self._tokenizer.token_starts(read)
        return [tags.source.places[at] for at in starts] if tags else starts

    def _read(self, text: str) -> tuple[TaggedSentence | None, str]:
        tags = TaggedSentence.of(text) if self._tags_are_codes else None
        return tags, self._casing.of(tags.text if tags else text, self._keeps_placeholders).text


def _joined(sentences: list[tuple[str, str]], spans: Sequence[Span]) -> list[tuple[str, str]]:
    """Joins sentences if a span crosses the boundary between them."""
    found: list[tuple[str, str]] = []
    begin = 0
    remaining = iter(spans)
    span = next(remaining, None)
    for sentence, kept in sentences:
        while span is not None and span[1] <= begin:
            span = next(remaining, None)
        if found and span is not None and span[0] < begin:
            before, between = found.pop()
            found.append((before + between + sentence, kept))
        else:
            found.append((sentence, kept))
        begin += len(sentence) + len(kept)
    return found


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
    found: list[str] = []
    for piece in pieces:
        if isinstance(piece, Sentence):
            found.append(next(remaining))
        elif isinstance(piece, LineBreaks):
            found[-1] = piece.put_into(found[-1])
        else:
            found.append(piece)
    return found
