"""Checks the texts of a request, and converts them to sentences of token ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dragoman_options.markup import Markup, Span

from dragoman.kernel.cutting import Uncuttable
from dragoman.kernel.errors import InvalidRequest
from dragoman.kernel.manifest import Manifest
from dragoman.kernel.sentences import LineBreaks
from dragoman.kernel.tags import has_tags
from dragoman.kernel.text import Tokenizer
from dragoman_serving.engine.sentence import Sentence
from dragoman_serving.markup.marked_texts import MarkedText
from dragoman_serving.models.directions import Direction, Directions
from dragoman_serving.request.casing import Cased, Casing
from dragoman_serving.request.markups import check_markup
from dragoman_serving.request.plan import ScoringPlan, SearchPlan
from dragoman_serving.request.tagged_sentence import TaggedSentence
from dragoman_serving.scoring.assessment import Candidate, SentencePair
from dragoman_serving.translation.segments import (
    Piece,
    SourceSentence,
    SourceText,
    pieces_of_text,
)


class _Part(NamedTuple):
    """A sentence, and the kept characters after it.

    Attributes:
        line_breaks: the sentence.
        kept: the characters after it.
        tags: its tags.
        cased: the sentence without tags, as the model reads it.
        src_ids: its token ids.
    """

    line_breaks: LineBreaks
    kept: str
    tags: TaggedSentence | None
    cased: Cased
    src_ids: tuple[int, ...]


MAX_TEXT_CHARACTERS = 100_000
"""A longer text is refused before it is tokenized."""
MAX_REQUEST_CHARACTERS = 2_000_000
"""Limit for all texts of a request together."""


def check_together(texts: Sequence[str]) -> None:
    """Refuse a request without texts, or with so much text that it would delay other requests.

    Raises:
        InvalidRequest: the request has no text, or too much.
    """
    if not texts:
        raise InvalidRequest("text_input is empty: give at least one text")
    characters = sum(map(len, texts))
    if len(texts) > 1 and characters > MAX_REQUEST_CHARACTERS:
        raise InvalidRequest(
            f"the texts have {characters} characters together, more than "
            f"{MAX_REQUEST_CHARACTERS}: send fewer in a request"
        )


def check_length(index: int, text: str, what: str = "text") -> None:
    """Refuse a text that is too long to be tokenized.

    Raises:
        InvalidRequest: the text is too long.
    """
    if len(text) > MAX_TEXT_CHARACTERS:
        raise InvalidRequest(
            f"{what} {index} has {len(text)} characters, more than {MAX_TEXT_CHARACTERS}: "
            "send it in parts, as `dragoman translate --format document` does"
        )


class SourceTexts:
    """Converts texts to inputs of the engine and the scorer."""

    def __init__(self, manifest: Manifest, tokenizer: Tokenizer) -> None:
        """Store the model's limits and languages."""
        self._limits = manifest.limits
        self._directions = Directions(manifest.languages, manifest.all_directions)
        self._tokenizer = tokenizer
        self._casing = Casing(tokenizer)
        self._aligns = manifest.alignment is not None

    def pieces(self, texts: Sequence[str], part: range, plan: SearchPlan) -> list[SourceText]:
        """Split some texts of a request into sentences to translate and kept characters.

        Args:
            texts: all texts of the request.
            part: indices of the texts to split.
            plan: plan of the request.

        Returns:
            One source text for each text; without pieces if there is nothing to translate.

        Raises:
            InvalidRequest: a text is too long, or its language is not one of the model's.
        """
        of_part = [texts[index] for index in part]
        directions = self._directions.of_texts(of_part, *plan.languages, part.start)
        return [
            self._source_text(index, text, direction, plan)
            for index, text, direction in zip(part, of_part, directions, strict=True)
        ]

    def given_pairs(
        self, texts: Sequence[str], targets: Sequence[str], plan: ScoringPlan
    ) -> list[Candidate]:
        """Returns given translations of texts; two empty ones have no sentence.

        Raises:
            InvalidRequest: a text or target is too long, or only one of the two is empty, or a
                language is not one of the model's.
        """
        directions = self._directions.of_texts(texts, *plan.languages)
        return [
            self._given_pair(index, text, target, language)
            for index, (text, target, (_, language, _)) in enumerate(
                zip(texts, targets, directions, strict=True)
            )
        ]

    def _source_text(
        self, index: int, text: str, direction: Direction, plan: SearchPlan
    ) -> SourceText:
        source, target, detected = direction
        markup = plan.markups[index] if plan.markups else None
        if markup is not None:
            check_markup(index, text, markup)
        if (detected and detected.language == target) or not any(map(str.isalnum, text)):
            pieces = [text] if text.strip() else []
            stays = None if markup is None else MarkedText(text, markup, ())
            return SourceText(pieces, detected, stays)
        keeps = self._keeps_placeholders(text, markup, plan)
        keep = markup.keep if markup else ()
        parts = [
            self._part(line_breaks, kept, target, keeps, bool(keep))
            for line_breaks, kept in self._parts(index, text, source, plan, keeps, keep)
        ]
        marked = None if markup is None else self._marked(text, markup, parts)
        return SourceText(self._pieces(index, text, parts, plan, marked), detected, marked)

    def _keeps_placeholders(self, text: str, markup: Markup | None, plan: SearchPlan) -> bool:
        """Whether a text is not split within placeholders, because they or its tags are kept."""
        if plan.terms.keeps_placeholders:
            return True
        return plan.keeps_tags and self._aligns and markup is None and has_tags(text)

    def _part(
        self, line_breaks: LineBreaks, kept: str, target: str, keeps: bool, has_kept_spans: bool
    ) -> _Part:
        """A sentence with its token ids."""
        tags = None
        if keeps and self._aligns:
            tags = TaggedSentence.of(line_breaks.line)
        line = tags.text if tags else line_breaks.line
        # A kept span that the model reads in another case would be in the translation twice.
        cased = Cased(line) if has_kept_spans else self._casing.of(line, keeps)
        src_ids = tuple(self._tokenizer.encode_source(cased.text, target))
        return _Part(line_breaks, kept, tags, cased, src_ids)

    def _marked(self, text: str, markup: Markup, parts: Sequence[_Part]) -> MarkedText:
        """The codes of a text."""
        sentences = []
        begin = 0
        for line_breaks, kept, _, _, src_ids in parts:
            end = begin + line_breaks.length
            if not self._is_empty(src_ids):
                sentences.append(((begin, end), line_breaks.line))
            begin = end + len(kept)
        return MarkedText(text, markup, sentences)

    def _is_empty(self, src_ids: Sequence[int]) -> bool:
        return len(src_ids) == self._tokenizer.tags + 1

    def _pieces(
        self,
        index: int,
        text: str,
        parts: Sequence[_Part],
        plan: SearchPlan,
        marked: MarkedText | None,
    ) -> list[Piece]:
        most, others = self._limits.max_source_tokens, self._tokenizer.tags + 1
        splits = plan.most_sentence_tokens is not None
        pieces: list[Piece] = []
        all_marked = iter(marked.sentences if marked else ())
        for line_breaks, kept, tags, (line, capitals), src_ids in parts:
            if self._is_empty(src_ids):
                pieces += [line_breaks.put_into(line_breaks.line), kept]
                continue
            if len(src_ids) > most:
                or_else = "" if "attention" in plan.outputs else ", or set split_sentences"
                raise InvalidRequest(
                    f"text {index} has {len(src_ids) - others} tokens, more than {most - others}: "
                    f"shorten it{or_else}"
                )
            of_sentence = tags.marked if tags else next(all_marked, None)
            max_tokens, search = plan.of_sentence(index, line, src_ids, of_sentence)
            placeholders = plan.terms.kept_placeholders(index, line)
            pieces.append(
                SourceSentence(
                    *(src_ids, max_tokens, search),
                    *(plan.urgency.priority, plan.urgency.deadline_s, plan.urgency.trace),
                    text=line,
                    placeholders=tags.with_tags(placeholders) if tags else placeholders,
                    marked=of_sentence,
                    tags=tags,
                    capitals=capitals,
                )
            )
            pieces += [line_breaks, kept] if splits else [kept]
        # A text without a sentence is kept if it was split or has tags, and is empty otherwise.
        stays = text.strip() and (splits or any(part.tags for part in parts))
        if not stays and not any(isinstance(piece, Sentence) for piece in pieces):
            return []
        return pieces

    def _parts(
        self,
        index: int,
        text: str,
        source: str,
        plan: SearchPlan,
        keeps: bool,
        keep: Sequence[Span],
    ) -> list[tuple[LineBreaks, str]]:
        """The sentences to translate, each with the kept characters after it."""
        most_tokens = plan.most_sentence_tokens
        if most_tokens is None:
            return [(LineBreaks(text, ()), "")]
        try:
            return list(
                pieces_of_text(
                    *(text, source, most_tokens, self._tokenizer, keeps, keep),
                    tags_are_codes=keeps and self._aligns,
                )
            )
        except Uncuttable as error:
            raise InvalidRequest(f"text {index}: {error}") from error

    def _given_pair(self, index: int, text: str, target: str, language: str) -> Candidate:
        src_ids = self._tokenizer.encode_source(text, language)
        tgt_ids = self._tokenizer.target.encode(target)
        is_empty = {"text": len(src_ids) == self._tokenizer.tags + 1, "target": not tgt_ids}
        if all(is_empty.values()):
            return Candidate("", "", ())
        for what, other in (("text", "target"), ("target", "text")):
            if is_empty[what]:
                raise InvalidRequest(f"{what} {index} is empty, but its {other} is not")
        others = self._tokenizer.tags + 1  # which users do not count
        for what, tokens, most in (
            ("text", len(src_ids) - others, self._limits.max_source_tokens - others),
            ("target", len(tgt_ids), self._limits.max_target_tokens - 1),
        ):
            if tokens > most:
                raise InvalidRequest(
                    f"{what} {index} has {tokens} tokens, more than {most}: shorten it"
                )
        pair = SentencePair(tuple(src_ids), tuple(tgt_ids), text, target)
        return Candidate(text, target, (pair,))
