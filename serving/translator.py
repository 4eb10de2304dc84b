"""From texts to translations: checks a request, numbers its texts, asks the engine, joins answers.

Knows the bundle, the tokenizer and the engine; must not know Triton.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from reprlib import repr as brief

from dragoman.cutting import Uncuttable
from dragoman.errors import UsageError
from dragoman.hypothesis import Hypothesis
from dragoman.manifest import Manifest
from dragoman.sentences import LineBreaks
from dragoman.text import Tokenizer
from serving.assessment import Assessment, Assessor, Candidate, SentencePair
from serving.engine.engine import EngineFailure
from serving.engine.loading import (
    open_engine,
)
from serving.engine.search import length_penalty
from serving.engine.sentence import Sentence
from serving.engine.settings import EngineSettings
from serving.engine.statistics import Counts
from serving.follow_up import FollowUp
from serving.futures import followed_by, when_all_done
from serving.language import OtherLanguage, detect_language
from serving.layout import Piece, join, pieces_of_text
from serving.request_options import InvalidRequest, RequestOptions
from serving.scoring import Scorer
from serving.search_plan import SearchPlan, scoring_alpha
from serving.streaming import TextStream

AUTO = "auto"
MAX_TEXT_CHARACTERS = 100_000
"""A longer text is refused before it is tokenized."""
MAX_REQUEST_CHARACTERS = 2_000_000
"""All texts of a request together; one request's work must not hold up the others for long."""
_PIECES_OF_ONE = 2
"""Of a text that was not split: a sentence, and nothing behind it."""
_IDS_OF_NOTHING = 2
"""The tag and the end symbol alone."""


@dataclass(frozen=True)
class Terms:
    """When a request's translation is wanted.

    Of two that wait, the one of higher `priority` goes first. After `deadline_s`, on the clock of
    `time.monotonic`, it is not wanted any more.
    """

    priority: int = 0
    deadline_s: float | None = None


@dataclass(frozen=True)
class Translation:
    """A translated text; `complete` is false where the token limit cut one of its sentences.

    `score` is that of `Hypothesis`; None of greedy search, and of a text of several sentences.
    `others` are further translations of the text, as many as were asked for, best first.
    """

    text: str
    output_tokens: int
    complete: bool
    score: float | None = None
    others: tuple[Translation, ...] = ()
    confidence: float | None = None
    assessment: Assessment | None = None
    """Where something of it was asked for."""


@dataclass(frozen=True)
class SourceSentence(Sentence):
    """A sentence of a text, as it was written."""

    text: str = ""


@dataclass(frozen=True)
class Load:
    """How busy an engine is at this moment."""

    waiting: int
    rows: int
    most_rows: int
    cache_bytes: int


class Translator:
    """A bundle, ready to translate."""

    def __init__(
        self,
        bundle: Path,
        settings: EngineSettings | None = None,
        on_failure: Callable[[EngineFailure], None] | None = None,
    ) -> None:
        """Check and load a bundle, and start its engine.

        Args:
            bundle: folder of the bundle.
            settings: how to lay the engine out.
            on_failure: called once if the engine breaks.

        Raises:
            UsageError: the bundle is damaged, or does not fit this program.
        """
        self.manifest = Manifest.load(bundle)
        self._tokenizer = Tokenizer(bundle / self.manifest.tokenizer)
        if self._tokenizer.vocab_size != self.manifest.dimensions.vocab_size:
            raise UsageError(
                f"{bundle / self.manifest.tokenizer}: has {self._tokenizer.vocab_size} entries, "
                f"the manifest says {self.manifest.dimensions.vocab_size}"
            )
        for language, tag_id in self.manifest.special_ids.tags.items():
            if self._tokenizer.tag_id(language) != tag_id:
                raise UsageError(
                    f"{bundle / self.manifest.tokenizer}: the tag of {language!r} has id "
                    f"{self._tokenizer.tag_id(language)}, the manifest says {tag_id}"
                )
        self._settings = settings or EngineSettings()
        opened = open_engine(bundle, self.manifest, self._settings, on_failure=on_failure)
        self._engine, self.layout, self._limits = opened.engine, opened.layout, opened.limits
        self._scorer = Scorer(bundle, self.manifest, self._limits.waiting)
        self._assessor = Assessor(self._tokenizer, self.manifest, self._scorer)

    def translate(
        self, texts: Sequence[str], options: RequestOptions | None = None
    ) -> list[Translation]:
        """Translate texts and wait for them.

        Raises:
            DragomanError: as `submit`, or the engine failed.
        """
        return self.submit(texts, options or RequestOptions()).result()

    def submit(
        self, texts: Sequence[str], options: RequestOptions, terms: Terms | None = None
    ) -> Future[list[Translation]]:
        """Begin to translate texts.

        Returns:
            A future of one translation a text, in their order. Cancelling it gives them up.

        Raises:
            InvalidRequest: a text or an option cannot be served.
            Overloaded: too many sentences are waiting.
            Closed: the translator was closed.
        """
        if not texts:
            raise InvalidRequest("text_input is empty: give at least one text")
        _check_together(texts)
        terms = terms or Terms()
        plan = SearchPlan(options, self.manifest.limits, self._tokenizer, len(texts))
        pieces = self._pieces_of_all(texts, options, plan, terms)
        sentences = self._sentences(pieces, plan.samples or 1)
        if options.assessed:
            self._assessor.check(len(sentences) * plan.hypotheses, options)
        if plan.coverage_penalty:
            self._assessor.check(len(sentences) * plan.width, options)
        follow_up = FollowUp(plan, self._tokenizer, self._engine.submit, self._scorer)
        futures = follow_up.submit(sentences)
        if not options.assessed:
            return when_all_done(futures, lambda found: self._join(pieces, found, plan.alpha))
        return followed_by(
            when_all_done(futures, list),
            lambda found: self._assessed(pieces, found, options, plan, terms),
        )

    def score(
        self,
        texts: Sequence[str],
        targets: Sequence[str],
        options: RequestOptions,
        terms: Terms | None = None,
    ) -> Future[list[Assessment]]:
        """Begin to score given translations.

        Args:
            texts: what was translated.
            targets: a translation of each.
            options: those of `OF_SCORING`.
            terms: see `Terms`.

        Returns:
            A future of one assessment a pair, in their order. Cancelling it gives them up.

        Raises:
            InvalidRequest: a text, a target or an option cannot be served.
            Overloaded: too many wait to be scored.
            Closed: the translator was closed.
        """
        scoring_alpha(options)
        if not texts:
            raise InvalidRequest("text_input is empty: give at least one text")
        if len(texts) != len(targets):
            raise InvalidRequest(
                f"text_input has {len(texts)} texts and target_input {len(targets)}: "
                "give a target for each text"
            )
        _check_together((*texts, *targets))
        self._assessor.check(len(texts), options)
        languages, candidates = self._languages(options), []
        for index, (text, target) in enumerate(zip(texts, targets, strict=True)):
            _check_length(index, text)
            _check_length(index, target, "target")
            if options.source_language == AUTO:
                languages = self._direction(index, text, options)
            candidates.append(self._given(index, text, target, languages[1]))
        terms = terms or Terms()
        return self._assessor.assess(candidates, options, terms.priority, terms.deadline_s)

    def _given(self, index: int, text: str, target: str, language: str) -> Candidate:
        """A given pair as ids."""
        limits = self.manifest.limits
        src_ids = self._tokenizer.encode_source(text, language)
        tgt_ids = self._tokenizer.encode(target)
        if len(src_ids) == _IDS_OF_NOTHING:
            raise InvalidRequest(f"text {index} is empty")
        if not tgt_ids:
            raise InvalidRequest(f"target {index} is empty")
        for what, tokens, most in (
            ("text", len(src_ids), limits.max_source_tokens),
            ("target", len(tgt_ids) + 1, limits.max_target_tokens),
        ):
            if tokens > most:
                raise InvalidRequest(
                    f"{what} {index} has {tokens} tokens, more than {most}: shorten it"
                )
        pair = SentencePair(tuple(src_ids), tuple(tgt_ids), text, target)
        return Candidate(text, target, (pair,))

    def stream(
        self,
        text: str,
        options: RequestOptions,
        changed: Callable[[], None],
        terms: Terms | None = None,
    ) -> TextStream:
        """Begin to translate a text whose translation can be read as it grows.

        Args:
            text: what to translate.
            options: see `RequestOptions`.
            changed: called in the engine's thread when there may be more to read, and at the end.
            terms: see `Terms`.

        Raises:
            DragomanError: as `submit`.
        """
        plan = SearchPlan(options, self.manifest.limits, self._tokenizer)
        if plan.hypotheses > 1 or plan.keeps_placeholders or plan.coverage_penalty:
            raise InvalidRequest(
                "a stream has one translation, as it comes: no num_return_sequences, "
                "keep_placeholders or coverage_penalty"
            )
        (pieces,) = self._pieces_of_all([text], options, plan, terms or Terms())
        stream = TextStream(pieces, self._tokenizer.decode, changed)
        sentences = self._sentences([pieces])
        futures = self._engine.submit(sentences, stream.reports(len(sentences)))
        stream.follow(futures)
        stream.future = when_all_done(
            futures, lambda found: self._join([pieces], found, plan.alpha)
        )
        stream.future.add_done_callback(lambda _: changed())
        return stream

    @property
    def description(self) -> str:
        """One line: how the engine is laid out, and the most that its caches may take."""
        limits = self.manifest.limits
        most = self._engine.most_bytes(limits.max_source_tokens, limits.max_target_tokens)
        return (
            f"{self.layout.precision} ({self.layout.runtime}), {self._engine.workers} workers of "
            f"{self._limits.rows} rows, caches of at most {most / 1e6:.0f} MB "
            f"for each beam width in use, {self._limits.waiting} sentences may wait"
        )

    @property
    def load(self) -> Load:
        """How busy the engine is."""
        engine = self._engine
        return Load(engine.waiting, engine.rows, engine.most_rows, engine.nbytes)

    @property
    def counts(self) -> Counts:
        """What the engine has done so far."""
        return self._engine.statistics.counts

    def close(self) -> None:
        """Finish what was submitted, then stop."""
        self._engine.close()
        self._scorer.close()

    def _direction(self, index: int, text: str, options: RequestOptions) -> tuple[str, str]:
        """The languages of a text whose source language is to be found out."""
        known, target = self.manifest.languages, options.target_language
        try:
            source = detect_language(text, [one for one in known if one != target], known)
        except OtherLanguage as error:
            raise InvalidRequest(f"text {index} {error}; name source_language if not") from error
        except UsageError as error:
            raise InvalidRequest(str(error)) from error
        return self._learnt(source, target)

    def _languages(self, options: RequestOptions) -> tuple[str, str]:
        known = self.manifest.languages
        for name in ("source_language", "target_language"):
            language = getattr(options, name)
            if name == "source_language" and language == AUTO:
                continue
            if language is not None and language not in known:
                raise InvalidRequest(
                    f"{name} {brief(language)} is unknown; known: {', '.join(known)}"
                )
        source, target = options.source_language, options.target_language
        if source == AUTO:
            return source, target or known[0]  # of each text it is found out later
        if source is not None and source == target:
            raise InvalidRequest(f"source_language and target_language are both {source!r}")
        return self._learnt(source, target)

    def _learnt(self, source: str | None, target: str | None) -> tuple[str, str]:
        """The first direction of the model's that fits."""
        for src, tgt in self.manifest.all_directions:
            if source in (None, src) and target in (None, tgt):
                return src, tgt
        learnt = ", ".join("-".join(direction) for direction in self.manifest.all_directions)
        raise InvalidRequest(
            f"the model does not translate from {source!r} into {target!r}: it knows {learnt}"
        )

    def _sentences(self, pieces: Sequence[Sequence[Piece]], each: int = 1) -> list[Sentence]:
        """The sentences of texts, of which so many translations each are searched for."""
        found = [piece for of_text in pieces for piece in of_text if isinstance(piece, Sentence)]
        if (number := each * len(found)) > self._limits.waiting:
            raise InvalidRequest(
                f"{number} sentences in one request, more than {self._limits.waiting}: send fewer"
            )
        return found

    def _pieces_of_all(
        self, texts: Sequence[str], options: RequestOptions, plan: SearchPlan, terms: Terms
    ) -> list[list[Piece]]:
        languages = self._languages(options)
        found = []
        for index, text in enumerate(texts):
            _check_length(index, text)
            if options.source_language == AUTO:
                languages = self._direction(index, text, options)
            found.append(self._pieces(index, text, *languages, options, plan, terms))
        return found

    def _pieces(
        self,
        index: int,
        text: str,
        source: str,
        target: str,
        options: RequestOptions,
        plan: SearchPlan,
        terms: Terms,
    ) -> list[Piece]:
        """A text as sentences to translate and what stays as it is."""
        limits = self.manifest.limits
        pieces: list[Piece] = []
        for line_breaks, kept in self._parts(index, text, source, options):
            src_ids = self._tokenizer.encode_source(line_breaks.line, target)
            if len(src_ids) == _IDS_OF_NOTHING:
                pieces += [line_breaks.put_into(line_breaks.line), kept]
                continue
            if len(src_ids) > limits.max_source_tokens:
                raise InvalidRequest(
                    f"text {index} has {len(src_ids)} tokens, more than "
                    f"{limits.max_source_tokens}: shorten it, or set split_sentences"
                )
            max_tokens, search = plan.of_sentence(index, line_breaks.line, src_ids)
            pieces.append(
                SourceSentence(
                    *(tuple(src_ids), max_tokens, search, terms.priority, terms.deadline_s),
                    text=line_breaks.line,
                )
            )
            pieces += [line_breaks, kept] if options.split_sentences else [kept]
        if not any(isinstance(piece, Sentence) for piece in pieces) and not (
            options.split_sentences and text.strip()
        ):
            raise InvalidRequest(f"text {index} is empty")
        return pieces

    def _parts(
        self, index: int, text: str, source: str, options: RequestOptions
    ) -> list[tuple[LineBreaks, str]]:
        """What is translated, each with what follows it and stays as it is."""
        if not options.split_sentences:
            return [(LineBreaks(text, ()), "")]
        most_tokens = options.max_sentence_tokens or self.manifest.limits.most_text_tokens
        try:
            return list(pieces_of_text(text, source, most_tokens, self._tokenizer))
        except Uncuttable as error:
            raise InvalidRequest(f"text {index}: {error}") from error

    def _join(
        self, pieces: Sequence[Sequence[Piece]], found: Sequence[Hypothesis], alpha: float
    ) -> list[Translation]:
        remaining = iter(found)
        translations = []
        for of_text in pieces:
            if len(of_text) == _PIECES_OF_ONE and isinstance(of_text[0], Sentence):
                translations.append(self._translation(next(remaining), alpha))
                continue
            count = sum(isinstance(piece, Sentence) for piece in of_text)
            of_sentences = list(itertools.islice(remaining, count))
            translations.append(
                Translation(
                    join(of_text, (self._tokenizer.decode(one.ids) for one in of_sentences)),
                    sum(len(one.ids) for one in of_sentences),
                    all(one.complete for one in of_sentences),
                    confidence=_confidence(of_sentences, alpha),
                )
            )
        return translations

    def _assessed(
        self,
        pieces: Sequence[Sequence[Piece]],
        found: Sequence[Hypothesis],
        options: RequestOptions,
        plan: SearchPlan,
        terms: Terms,
    ) -> Future[list[Translation]]:
        """Translations with what the model thinks of them."""
        translations = self._join(pieces, found, plan.alpha)
        remaining = iter(found)
        candidates = [
            candidate for of_text in pieces for candidate in self._candidates(of_text, remaining)
        ]
        assessing = self._assessor.assess(candidates, options, terms.priority, terms.deadline_s)
        alpha = plan.alpha if options.return_scores else None

        def attach(done: list[list[Assessment]]) -> list[Translation]:
            assessments = iter(done[0])
            return [_with_assessment(one, assessments, alpha) for one in translations]

        return when_all_done([assessing], attach)

    def _candidates(
        self, pieces: Sequence[Piece], remaining: Iterator[Hypothesis]
    ) -> Iterator[Candidate]:
        """The best translation of a text, then the others, of which only one sentence has any.

        Lines that were wrapped are left as one: the words are the same.
        """
        source, target, sentences = "", "", []
        others: list[Candidate] = []
        for piece in pieces:
            if isinstance(piece, str):
                source, target = source + piece, target + piece
            elif isinstance(piece, SourceSentence):
                best = next(remaining)
                place = (len(source), len(target))
                sentences.append(_pair(piece, best, *place))
                source, target = source + piece.text, target + self._tokenizer.decode(best.ids)
                for other in best.others:
                    pair = _pair(piece, other, *place)
                    others.append(Candidate(source, self._tokenizer.decode(other.ids), (pair,)))
        yield Candidate(source, target, tuple(sentences))
        yield from others

    def _translation(self, found: Hypothesis, alpha: float) -> Translation:
        """A text that is one sentence."""
        return Translation(
            self._tokenizer.decode(found.ids),
            len(found.ids),
            found.complete,
            found.score,
            tuple(self._translation(other, alpha) for other in found.others),
            confidence=_confidence([found], alpha),
        )


def _confidence(found: Sequence[Hypothesis], alpha: float) -> float | None:
    """Log-probability of a token on average, where the searches have scored what they found."""
    total, tokens = 0.0, 0
    for one in found:
        if one.score is None:
            return None
        length = len(one.ids) + one.complete
        total += one.score * length_penalty(length, alpha)
        tokens += length
    return total / tokens if tokens else 0.0  # nothing was to be translated


def _with_assessment(
    translation: Translation, assessments: Iterator[Assessment], alpha: float | None
) -> Translation:
    """A translation and its others, each with its assessment, and by this length penalty a score.

    What a search has scored itself keeps that.
    """
    assessment, score = next(assessments), translation.score
    if score is None and alpha is not None:
        score = assessment.score(alpha)
    others = tuple(_with_assessment(other, assessments, alpha) for other in translation.others)
    return replace(
        translation,
        score=score,
        others=others,
        confidence=assessment.confidence,
        assessment=assessment,
    )


def _pair(
    sentence: SourceSentence, found: Hypothesis, source_begin: int, target_begin: int
) -> SentencePair:
    return SentencePair(
        sentence.src_ids,
        found.ids,
        sentence.text,
        complete=found.complete,
        source_begin=source_begin,
        target_begin=target_begin,
    )


def _check_together(texts: Sequence[str]) -> None:
    """Refuse texts whose work would hold up others for long.

    Raises:
        InvalidRequest: they are.
    """
    characters = sum(map(len, texts))
    if len(texts) > 1 and characters > MAX_REQUEST_CHARACTERS:
        raise InvalidRequest(
            f"the texts have {characters} characters together, more than "
            f"{MAX_REQUEST_CHARACTERS}: send fewer in a request"
        )


def _check_length(index: int, text: str, what: str = "text") -> None:
    """Refuse a text that is too long to be looked at.

    Raises:
        InvalidRequest: it is.
    """
    if len(text) > MAX_TEXT_CHARACTERS:
        raise InvalidRequest(
            f"{what} {index} has {len(text)} characters, more than {MAX_TEXT_CHARACTERS}: "
            "send it in parts, as `dragoman translate --format document` does"
        )
