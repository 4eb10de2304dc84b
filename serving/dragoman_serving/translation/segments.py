"""A text taken apart into what the engine translates, and put together again."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from dragoman.kernel.cutting import Span, cut_sentence
from dragoman.kernel.language import Detected
from dragoman.kernel.sentences import BREAKS_TO_SPACES, LineBreaks, split_sentences
from dragoman.kernel.text import Tokenizer
from dragoman_serving.engine.sentence import Sentence
from dragoman_serving.markup.marked_texts import MarkedSentence, MarkedText
from dragoman_serving.request.placeholders import placeholder_spans
from dragoman_serving.request.tagged_sentence import TaggedSentence


@dataclass(frozen=True)
class SourceSentence(Sentence):
    """A sentence of a text, as it was written.

    `placeholders` are those to be kept, each as the vocabulary writes it, and as the text has it.
    `marked` are its codes, if its text has some, or if there are tags among its placeholders;
    `text` is then without these `tags`.
    """

    text: str = ""
    placeholders: tuple[tuple[str, str], ...] = ()
    marked: MarkedSentence | None = None
    tags: TaggedSentence | None = None

    @property
    def line(self) -> str:
        """The sentence with its tags."""
        return self.tags.source.text if self.tags else self.text


Piece = Sentence | LineBreaks | str
"""A sentence to translate, the line breaks of the one before, or what stays as it is."""


@dataclass(frozen=True)
class SourceText:
    """A text taken apart, its language, if that was to be detected, and its codes, if any."""

    pieces: Sequence[Piece]
    detected: Detected | None = None
    marked: MarkedText | None = None

    @cached_property
    def sentences(self) -> list[SourceSentence]:
        """What is to be translated."""
        return [piece for piece in self.pieces if isinstance(piece, SourceSentence)]

    def with_sentences(self, sentences: Iterator[SourceSentence]) -> SourceText:
        """The same with others of its sentences, of which there are as many."""
        pieces = [next(sentences) if isinstance(one, Sentence) else one for one in self.pieces]
        return replace(self, pieces=pieces)


def pieces_of_text(
    text: str,
    language: str,
    most_tokens: int,
    tokenizer: Tokenizer,
    keeps_placeholders: bool = False,
    keep: Sequence[Span] = (),
) -> Iterator[tuple[LineBreaks, str]]:
    """Cut a text into sentences, and those that are too long into pieces.

    Args:
        text: any text.
        language: its language code.
        most_tokens: of a piece, without specials.
        tokenizer: counts them.
        keeps_placeholders: whether no sentence ends within a placeholder.
        keep: spans of the text within which none ends either, in order.

    Returns:
        What is translated, which may be empty, and what follows it and stays as it is.

    Raises:
        Uncuttable: a single character has more tokens than that.
    """
    sentences = split_sentences(text, language)
    if keeps_placeholders:
        sentences = _joined(sentences, placeholder_spans(text))
    if keep:
        sentences = _joined(sentences, keep)
    at = 0
    for sentence, kept in sentences:
        if not sentence:
            yield LineBreaks("", ()), kept
            at += len(kept)
            continue
        line = sentence.translate(BREAKS_TO_SPACES)
        begin = 0
        whole = placeholder_spans(line) if keeps_placeholders else []
        whole += [(a - at, b - at) for a, b in keep if at <= a and b <= at + len(line)]
        at += len(sentence) + len(kept)
        pieces = cut_sentence(line, most_tokens, language, tokenizer, whole)
        for number, (piece, space) in enumerate(pieces, start=1):
            end = begin + len(piece)
            behind = sentence[end : end + len(space)] + (kept if number == len(pieces) else "")
            yield LineBreaks.of(sentence[begin:end]), behind
            begin = end + len(space)


def _joined(sentences: list[tuple[str, str]], spans: Sequence[Span]) -> list[tuple[str, str]]:
    """Sentences between which a span goes on, made one."""
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
    """A text's translation of those of its sentences, in their order."""
    return "".join(_joined_parts(pieces, translations))


def spans_of(pieces: Sequence[Piece], translations: Iterable[str]) -> list[Span]:
    """Where the sentences' translations are in what `join` makes of them."""
    parts = _joined_parts(pieces, translations)
    ends = list(itertools.accumulate(map(len, parts)))
    of_parts = zip([0, *ends], ends, strict=False)
    kinds = (piece for piece in pieces if not isinstance(piece, LineBreaks))
    return [
        span for piece, span in zip(kinds, of_parts, strict=True) if isinstance(piece, Sentence)
    ]


def _joined_parts(pieces: Sequence[Piece], translations: Iterable[str]) -> list[str]:
    """A part for each piece that is not the line breaks of the one before."""
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
