"""Checks the texts of a request, and converts them to sentences of token ids."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from dragoman_options.languages import MARK_BEGIN, TargetMark
from dragoman_options.markup import Markup, Span

from dragoman.kernel.errors import InvalidRequest
from dragoman.kernel.manifest import Manifest
from dragoman.kernel.text import Tokenizer
from dragoman.kernel.texts.cutting import SubwordTokenizer, Uncuttable
from dragoman.kernel.texts.sentences import BREAKS_TO_SPACES, LineBreaks, split_sentences
from dragoman.kernel.texts.tags import has_tags
from dragoman_serving.fidelity.casing import Capitals, Casing
from dragoman_serving.fidelity.emphasis import may_have_capitals
from dragoman_serving.fidelity.literals import (
    READ_AS,
    Literal,
    Literals,
    blanked,
    known_literals,
    meets_any,
    tag_spans,
)
from dragoman_serving.fidelity.messages import doubled_apostrophes, quoted_spans
from dragoman_serving.fidelity.numbers import has_digits, localized_amount
from dragoman_serving.fidelity.paired_marks import Tag, may_have_marks, tags_of
from dragoman_serving.fidelity.phrases import Phrase, phrases_of
from dragoman_serving.fidelity.plain_sentences import is_plain
from dragoman_serving.fidelity.reading import Reading, StandIns
from dragoman_serving.fidelity.spellings import with_spellings
from dragoman_serving.fidelity.tagged_sentence import TaggedSentence
from dragoman_serving.markup.marked_texts import MarkedSentence, MarkedText
from dragoman_serving.models.directions import Direction, Directions
from dragoman_serving.request.glossary import Term
from dragoman_serving.request.markups import check_markup
from dragoman_serving.request.plan import ScoringPlan, SearchPlan
from dragoman_serving.scoring.assessment import Candidate, SentencePair
from dragoman_serving.translation.segments import (
    Piece,
    SourceSentence,
    SourceText,
    has_words,
    pieces_of_text,
)

_BREAK = re.compile(r"<br\b", re.IGNORECASE)


MAX_TEXT_CHARACTERS = 100_000
"""A longer text is refused before it is tokenized."""
MAX_REQUEST_CHARACTERS = 2_000_000
"""Limit for all texts of a request together."""
_INPUTS = {"text": None, "target": "target_input"}
"""The input at fault, by the word for a text in messages; a text itself is no option."""


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
            f"{MAX_REQUEST_CHARACTERS}: send fewer in a request",
            "too_large",
        )


def check_length(index: int, text: str, what: str = "text") -> None:
    """Refuse a text that is too long to be tokenized.

    Raises:
        InvalidRequest: the text is too long.
    """
    if len(text) > MAX_TEXT_CHARACTERS:
        raise InvalidRequest(
            f"{what} {index} has {len(text)} characters, more than {MAX_TEXT_CHARACTERS}: "
            "send it in parts, as `dragoman translate --format document` does",
            "too_large",
            _INPUTS[what],
            index,
        )


class SourceTexts:
    """Converts texts to inputs of the engine and the scorer."""

    def __init__(self, manifest: Manifest, tokenizer: Tokenizer) -> None:
        """Store the model's limits and languages."""
        self._limits = manifest.limits
        self._directions = Directions(manifest.languages, manifest.all_directions)
        self.tokenizer = tokenizer
        self.casing, self.literals = Casing(tokenizer), Literals(tokenizer)
        self.stand_ins = StandIns(tokenizer)
        self.aligns = manifest.alignment is not None

    def pieces(self, texts: Sequence[str], part: range, plan: SearchPlan) -> list[SourceText]:
        """Split some texts of a request into sentences to translate and kept characters.

        Args:
            texts: all texts of the request.
            part: indices of the texts to split.
            plan: plan of the request.

        Returns:
            One source text for each text; without sentences if there is nothing to translate.

        Raises:
            InvalidRequest: a text is too long, or its language is not one of the model's.
        """
        source, target = plan.languages
        of_part = [texts[index] for index in part]
        if not any(text.startswith(MARK_BEGIN) for text in of_part):
            directions = self._directions.of_texts(of_part, source, target, part.start)
            return [
                self._source_text(index, text, direction, plan)
                for index, text, direction in zip(part, of_part, directions, strict=True)
            ]
        marked = [
            self._without_target(index, text, plan)
            for index, text in zip(part, of_part, strict=True)
        ]
        directions = self._directions.of_texts(
            [text for text, _ in marked], source, target, part.start
        )
        if target is None and any(mark for _, mark in marked):
            directions = (
                direction
                for index, pair in zip(part, marked, strict=True)
                for direction in self._directions.of_texts(pair[:1], source, pair[1], index)
            )
        return [
            self._source_text(index, text, direction, plan)
            for index, (text, _), direction in zip(part, marked, directions, strict=True)
        ]

    def _without_target(self, index: int, text: str, plan: SearchPlan) -> tuple[str, str | None]:
        """A text without a target language at its beginning, and this language.

        Raises:
            InvalidRequest: the model lacks this language, and the request names no other.
        """
        mark = TargetMark.of(text, self._directions.targets)
        if mark is None or plan.assessed or plan.markups:
            return text, None
        if mark.language is None and plan.languages[1] is None:
            raise InvalidRequest(
                f"text {index} begins with >>{mark.code}<<, and the model translates into "
                f"{', '.join(self._directions.targets)}: remove it, or name a target language",
                "language",
                "target_language",
                index,
            )
        return mark.rest, mark.language

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
        is_translated = detected is not None and detected.language == target
        if not (is_translated or markup or plan.glossary) and is_plain(text, source, target):
            sentence = self._plain_sentence(index, text, (source, target), plan)
            if sentence is not None:
                breaks = [LineBreaks(text)] if plan.most_sentence_tokens is not None else []
                return SourceText([sentence, *breaks, ""], detected)
        if is_translated or not any(map(str.isalpha, text)):
            stays = None if markup is None else MarkedText(text, markup, ())
            return SourceText([text], detected, stays)
        keep = markup.keep if markup else ()
        reader = _Reader(self, plan, index, text, (source, target), markup)
        literals = reader.literals(text, keep, reader.terms(text))
        parts = self._parts(index, text, source, plan, reader, literals, markup)
        marked = None if markup is None else _marked(text, markup, parts)
        all_marked = iter(marked.sentences if marked else ())
        splits = plan.most_sentence_tokens is not None
        pieces: list[Piece] = []
        for line_breaks, kept in parts:
            if not line_breaks.line:
                pieces.append(kept)
                continue
            read = reader.read(line_breaks.line, next(all_marked, None))
            src_ids = self.tokenizer.encode_source(read.reading.text, target)
            pieces.append(self._sentence(index, read, src_ids, (source, target), plan))
            pieces += [line_breaks, kept] if splits or line_breaks.breaks else [kept]
        is_unread = False
        if not any(line_breaks.line for line_breaks, _ in parts):
            known = [*known_literals(text), *(Literal(*span) for span in tag_spans(text))]
            is_unread = has_words(text, sorted([*known, *(Literal(*span) for span in keep)]))
        return SourceText(pieces, detected, marked, is_unread)

    def _plain_sentence(
        self, index: int, text: str, languages: tuple[str, str], plan: SearchPlan
    ) -> SourceSentence | None:
        """A text that `is_plain` as the only sentence; None: it must be cut.

        Raises:
            InvalidRequest: it is too long.
        """
        src_ids = self.tokenizer.encode_source(text, languages[1])
        most = plan.most_sentence_tokens
        if most is not None and len(src_ids) - self.tokenizer.tags - 1 > most:
            return None
        read = _Read(Reading(text), (), None, None, None, text)
        return self._sentence(index, read, src_ids, languages, plan)

    def _sentence(
        self,
        index: int,
        read: _Read,
        src_ids: Sequence[int],
        languages: tuple[str, str],
        plan: SearchPlan,
    ) -> SourceSentence:
        """A sentence for the engine.

        Raises:
            InvalidRequest: it is too long.
        """
        most, others = self._limits.max_source_tokens, self.tokenizer.tags + 1
        if len(src_ids) > most:
            or_else = "" if "attention" in plan.outputs else ", or set split_sentences"
            raise InvalidRequest(
                f"text {index} has {len(src_ids) - others} tokens, more than {most - others}: "
                f"shorten it{or_else}",
                "too_large",
                text_index=index,
            )
        in_capitals = read.capitals is not None and not read.capitals.only_first
        terms = tuple(plan.glossary.of(read.reading.text)) if plan.glossary else ()
        max_tokens, search = plan.of_sentence(
            index, read.reading, src_ids, read.marked, in_capitals
        )
        return SourceSentence(
            tuple(src_ids),
            max_tokens,
            search,
            plan.urgency.priority,
            plan.urgency.deadline_s,
            plan.urgency.trace,
            reading=read.reading,
            literals=tuple(read.literals),
            marked=read.marked,
            tags=read.tags,
            original=read.original,
            has_marks=not plan.assessed and _has_marks(read),
            capitals=read.capitals,
            terms=terms,
            phrases=_phrases(read.reading.text, languages, terms)
            if plan.keeps_placeholders
            else (),
            languages=languages,
            index=index,
            has_numbers=plan.keeps_placeholders and has_digits(read.reading.text),
            has_brackets=plan.keeps_placeholders and "(" in read.reading.text,
            prefix=self._prefix(index, read, plan) if read.capitals else "",
        )

    def _prefix(self, index: int, read: _Read, plan: SearchPlan) -> str:
        """The prefix of a text's translation, as tokens write it."""
        if not plan.prefixes:
            return ""
        target = self.tokenizer.target
        return target.decode(target.encode(read.reading.put_into(plan.prefixes[index])))

    def _parts(
        self,
        index: int,
        text: str,
        source: str,
        plan: SearchPlan,
        reader: _Reader,
        literals: Sequence[Literal],
        markup: Markup | None,
    ) -> list[tuple[LineBreaks, str]]:
        """The sentences to translate, each with the kept characters after it."""
        most_tokens = plan.most_sentence_tokens
        # An assessment has positions in the text as it is. Several spaces may be around a code.
        keeps_spaces = not (plan.assessed or (markup and markup.codes))
        if most_tokens is None:
            if not has_words(text, literals):
                return [(LineBreaks(""), text)]
            if plan.assessed:
                return [(LineBreaks(text), "")]
            return self._whole(text, literals, keeps_spaces, bool(plan.prefixes))
        counter: SubwordTokenizer = self.tokenizer
        if literals or may_have_capitals(text):
            counter = reader
        try:
            return list(
                pieces_of_text(
                    text=text,
                    language=source,
                    most_tokens=most_tokens,
                    counter=counter,
                    literals=literals,
                    has_tags=reader.has_tags,
                    keeps_spaces=keeps_spaces,
                )
            )
        except Uncuttable as error:
            raise InvalidRequest(f"text {index}: {error}", "too_large", text_index=index) from error

    @staticmethod
    def _whole(
        text: str, literals: Sequence[Literal], keeps_spaces: bool, is_prefixed: bool
    ) -> list[tuple[LineBreaks, str]]:
        """A text as one sentence, and the white space around it; not before a given prefix."""
        begin = 0 if is_prefixed else len(text) - len(text.lstrip())
        end = len(text.rstrip())
        whole = [(literal.begin - begin, literal.end - begin) for literal in literals]
        line_breaks = LineBreaks.of(text[begin:end], keeps_spaces, whole)
        edge = [(LineBreaks(""), text[:begin])] if begin else []
        return [*edge, (line_breaks, text[end:])]

    def _given_pair(self, index: int, text: str, target: str, language: str) -> Candidate:
        src_ids = self.tokenizer.encode_source(text, language)
        tgt_ids = self.tokenizer.target.encode(target)
        is_empty = {"text": len(src_ids) == self.tokenizer.tags + 1, "target": not tgt_ids}
        if all(is_empty.values()):
            return Candidate("", "", ())
        for what, other in (("text", "target"), ("target", "text")):
            if is_empty[what]:
                raise InvalidRequest(
                    f"{what} {index} is empty, but its {other} is not",
                    option=_INPUTS[what],
                    text_index=index,
                )
        others = self.tokenizer.tags + 1  # which users do not count
        for what, tokens, most in (
            ("text", len(src_ids) - others, self._limits.max_source_tokens - others),
            ("target", len(tgt_ids), self._limits.max_target_tokens - 1),
        ):
            if tokens > most:
                raise InvalidRequest(
                    f"{what} {index} has {tokens} tokens, more than {most}: shorten it",
                    "too_large",
                    _INPUTS[what],
                    index,
                )
        pair = SentencePair(tuple(src_ids), tuple(tgt_ids), text, target)
        return Candidate(text, target, (pair,))


class _Read(NamedTuple):
    """A sentence as the model reads it, and its literals, which are spans of `original`."""

    reading: Reading
    literals: Sequence[Literal]
    tags: TaggedSentence | None
    marked: MarkedSentence | None
    capitals: Capitals | None
    original: str


class _Reader:
    """Reads sentences like the model: without tags, with stand-ins, in the usual case.

    It also counts the tokens of a sentence read so.
    """

    def __init__(
        self,
        texts: SourceTexts,
        plan: SearchPlan,
        index: int,
        text: str,
        languages: tuple[str, str],
        markup: Markup | None,
    ) -> None:
        """Store how to read the sentences of a text."""
        self._texts, self._plan, self._index = texts, plan, index
        self._kept = {text[slice(*span)] for span in markup.keep} - {""} if markup else set()
        self.has_tags = plan.keeps_tags and markup is None and has_tags(text)
        keeps_marks = plan.keeps_tags and plan.keeps_placeholders and texts.aligns
        has_codes = markup is not None and bool(markup.codes)
        self._has_marks = keeps_marks and not has_codes and may_have_marks(text)
        self._doubles = plan.keeps_placeholders and bool(doubled_apostrophes(text))
        self._language, self._target = languages
        self._tokenizer = texts.tokenizer
        # Counting tokens reads a sentence too, and a text is often a single sentence.
        self._literals: dict[tuple[str, bool], list[Literal]] = {}
        self._read: dict[str, _Read] = {}

    def terms(self, text: str) -> list[Term]:
        """Returns the glossary's terms in a text."""
        return self._plan.glossary.of(text) if self._plan.glossary else []

    def literals(
        self, text: str, keep: Sequence[Span], terms: Sequence[Term], tags: bool = True
    ) -> list[Literal]:
        """Returns the literals of a text: also kept spans, and terms that need a stand-in.

        Args:
            text: a text or a sentence.
            keep: spans to keep.
            terms: the glossary's terms in it.
            tags: whether its tags are literals too.
        """
        key = text, tags
        can_keep = not (keep or terms)
        if can_keep and (literals := self._literals.get(key)) is not None:
            return literals
        further = [Literal(*span) for span in keep]
        known = {literal.span for literal in known_literals(text)} if terms else ()
        if self._doubles:
            further += (Literal(*span) for span in quoted_spans(text))
        words = text
        if tags and (self.has_tags or self._has_marks):
            is_split = self._plan.most_sentence_tokens is not None
            spans = [tag.span for tag in self._tags(text, keep, is_split)]
            further += (
                Literal(*span) for span in spans if not (is_split and _BREAK.match(text, *span))
            )
            words = blanked(text, spans)
        further += (
            Literal(term.begin, term.end, target=term.target)
            for term in terms
            if not self._can_use(text[term.begin : term.end], term.target)
            or (term.begin, term.end) in known
        )
        known_forms = self._plan.keeps_placeholders
        fixed = [Literal(term.begin, term.end) for term in terms]
        literals = [
            literal
            for literal in self._texts.literals.of(words, self._language, known_forms, further)
            if not ((literal.is_usual or literal.read) and meets_any(fixed, *literal.span))
        ]
        if known_forms:
            literals = with_spellings(words, self._language, literals, fixed, self._target)
        if can_keep:
            self._literals[key] = literals
        return literals

    def _tags(self, text: str, keep: Sequence[Span], is_split: bool) -> Iterator[Tag]:
        """Yields the tags and marks of a text; those of a pair are in the same sentence."""
        sentences = [(text, "")]
        if is_split and self._has_marks:
            sentences = split_sentences(text, self._language)
        at = 0
        for sentence, kept in sentences:
            first = bisect_right(keep, at, key=itemgetter(1))
            last = bisect_left(keep, at + len(sentence), key=itemgetter(0))
            apart = [(begin - at, end - at) for begin, end in keep[first:last]]
            for tag in tags_of(sentence, self.has_tags, self._has_marks, apart):
                yield tag._replace(begin=tag.begin + at, end=tag.end + at)
            at += len(sentence) + len(kept)

    def _can_use(self, source: str, target: str) -> bool:
        """Whether the model can read and write a term, which is in one line."""
        if source.translate(BREAKS_TO_SPACES) != source:
            return True  # two lines are no term
        tokenizer = self._tokenizer
        return tokenizer.can_write(" ".join(source.split())) and tokenizer.target.can_write(target)

    def read(self, line: str, marked: MarkedSentence | None = None) -> _Read:
        """Returns a sentence as it is read."""
        if marked is None and line in self._read:
            return self._read[line]
        read = self._read_anew(line, marked)
        if marked is None:
            self._read[line] = read
        return read

    def _read_anew(self, line: str, marked: MarkedSentence | None) -> _Read:
        keep: Sequence[Span] = marked.markup.keep if marked else list(self._kept_in(line))
        tags = None
        if self._texts.aligns and (self.has_tags or self._has_marks):
            tags = TaggedSentence.of(line, self.has_tags, self._has_marks, keep)
        if tags is not None:
            keep = [tags.moved(span) for span in keep]
            line, marked = tags.text, tags.marked
        terms = self.terms(line)
        literals = self.literals(line, keep, terms, tags is None)
        beside = self._plan.beside(self._index, terms)
        literals = [self._localized(line, literal) for literal in literals]
        reading = Reading.of(line, literals, self._texts.stand_ins, beside=beside)
        reading.doubles = self._doubles
        cased = self._texts.casing.of(
            reading.text, self._language, reading.spans, self._target, titles=not terms
        )
        reading = reading.with_text(cased.text.translate(READ_AS))
        return _Read(reading, literals, tags, marked, cased.capitals, original=line)

    def _localized(self, line: str, literal: Literal) -> Literal:
        """A literal that is an amount, such as `12.5°C`, in the spelling of the target language."""
        amount = localized_amount(line[slice(*literal.span)], self._language, self._target)
        return literal._replace(target=amount) if amount else literal

    def _kept_in(self, part: str) -> Iterator[Span]:
        """Yields the spans of kept texts in a part of a sentence, of which no more is known."""
        for kept in self._kept:
            if (begin := part.find(kept)) >= 0:
                yield begin, begin + len(kept)

    def encode(self, text: str) -> list[int]:
        """Returns the token ids of a sentence as it is read."""
        return self._tokenizer.encode(self.read(text).reading.text)

    def token_starts(self, text: str) -> list[int]:
        """Returns the character index in the sentence at which each token begins."""
        read = self.read(text)
        starts = map(read.reading.index, self._tokenizer.token_starts(read.reading.text))
        return [read.tags.source.places[at] if read.tags else at for at in starts]


def _has_marks(read: _Read) -> bool:
    """Whether an ellipsis and final marks are as in the sentence.

    With markup they stay as the model writes them. With tags, an ellipsis would move their places.
    """
    has_codes = read.marked is not None and bool(read.marked.markup.codes)
    if has_codes and (read.tags is None or "…" in read.original):
        return False
    return "…" in read.original or read.original[-1:] in "?!"


def _phrases(text: str, languages: tuple[str, str], terms: Sequence[Term]) -> tuple[Phrase, ...]:
    """The phrases of a sentence that are no terms of the request."""
    return tuple(
        phrase
        for phrase in phrases_of(text, *languages)
        if not any(phrase.begin < term.end and term.begin < phrase.end for term in terms)
    )


def _marked(text: str, markup: Markup, parts: Sequence[tuple[LineBreaks, str]]) -> MarkedText:
    """The codes of a text."""
    sentences = []
    begin = 0
    for line_breaks, kept in parts:
        end = begin + line_breaks.length
        if line_breaks.line:
            sentences.append(((begin, end), line_breaks.line))
        begin = end + len(kept)
    return MarkedText(text, markup, sentences)
