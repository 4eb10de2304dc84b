"""From texts to translations: checks a request, numbers its texts, asks the engine, joins answers.

Knows the bundle, the tokenizer and the engine; must not know Triton.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dragoman.kernel.cutting import Uncuttable
from dragoman.kernel.errors import InvalidRequest, UsageError
from dragoman.kernel.hypothesis import Hypothesis
from dragoman.kernel.manifest import Manifest
from dragoman.kernel.sentences import LineBreaks
from dragoman_serving.engine.batching.line import Turns
from dragoman_serving.engine.batching.statistics import Counts
from dragoman_serving.engine.errors import EngineFailure
from dragoman_serving.engine.futures import followed_by, when_all_done
from dragoman_serving.engine.sentence import Sentence
from dragoman_serving.engine.settings import EngineSettings
from dragoman_serving.models.directions import Directions
from dragoman_serving.models.loading import open_engine
from dragoman_serving.request.checks import scoring_alpha
from dragoman_serving.request.options import RequestOptions
from dragoman_serving.request.plan import SearchPlan
from dragoman_serving.scoring.assessment import Assessment, Assessor, Candidate, SentencePair
from dragoman_serving.scoring.scorer import Scorer
from dragoman_serving.translation.follow_up import FollowUp
from dragoman_serving.translation.preparation import Preparation
from dragoman_serving.translation.segments import Piece, pieces_of_text
from dragoman_serving.translation.streaming import TextStream
from dragoman_serving.translation.translation import (
    Composer,
    SourceSentence,
    Translation,
    with_assessment,
)

MAX_TEXT_CHARACTERS = 100_000
"""A longer text is refused before it is tokenized."""
MAX_REQUEST_CHARACTERS = 2_000_000
"""All texts of a request together."""
_SMALL_TEXTS = 64
_SMALL_CHARACTERS = 20_000
"""A request up to this size is tokenised at once, in some milliseconds."""
_PART_TEXTS = 1024
_PART_CHARACTERS = 100_000
"""A larger one is tokenised in parts of this size, in a thread where requests take turns. Parts of
64 texts cost 5 % of the throughput: sentences are sorted by length within a part."""


@dataclass(frozen=True)
class Terms:
    """When a request's translation is wanted.

    Of two that wait, the one of higher `priority` goes first. After `deadline_s`, on the clock of
    `time.monotonic`, it is not wanted any more.
    """

    priority: int = 0
    deadline_s: float | None = None


class _Request:
    """A request under way."""

    def __init__(
        self, texts: Sequence[str], options: RequestOptions, plan: SearchPlan, terms: Terms
    ) -> None:
        """Begin with nothing submitted."""
        self.texts, self.options, self.plan, self.terms = texts, options, plan, terms
        self.characters = sum(map(len, texts))
        self.turns, self.parts = Turns(), Turns()
        """Of its sentences in the engine, and of its parts before."""
        self.searches_each = max(plan.samples, plan.alternatives, 1)
        """Of each sentence."""
        self.searches = 0
        """Known so far."""


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
        self._tokenizer = self.manifest.open_tokenizer(bundle)
        for language, tag_id in self.manifest.special_ids.tags.items():
            if self._tokenizer.tag_id(language) != tag_id:
                raise UsageError(
                    f"{bundle / self.manifest.tokenizer}: the tag of {language!r} has id "
                    f"{self._tokenizer.tag_id(language)}, the manifest says {tag_id}"
                )
        self._composer = Composer(self._tokenizer)
        self._directions = Directions(self.manifest)
        self._settings = settings or EngineSettings()
        opened = open_engine(bundle, self.manifest, self._settings, on_failure=on_failure)
        self._engine, self.layout, self._limits = opened.engine, opened.layout, opened.limits
        self._scorer = Scorer(bundle, self.manifest, self._limits.waiting)
        self._assessor = Assessor(self._tokenizer, self.manifest, self._scorer)
        self._preparation = Preparation()

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
            InvalidRequest: a text or an option cannot be served; like the next two, of a large
                request the future may raise it.
            Overloaded: too much work is waiting.
            DeadlineExceeded: the request takes longer than it allows.
            Closed: the translator was closed.
        """
        if not texts:
            raise InvalidRequest("text_input is empty: give at least one text")
        _check_together(texts)
        for index, text in enumerate(texts):
            _check_length(index, text)
        plan = SearchPlan(options, self.manifest.limits, self._tokenizer, len(texts))
        request = _Request(texts, options, plan, terms or Terms())
        self._check_number(request.searches_each * len(texts))
        # What is assessed is bounded as a whole.
        parts = [range(len(texts))] if options.assessed or plan.coverage_penalty else _cut(texts)
        try:
            begun = [self._begin_part(request, part) for part in parts]
        except BaseException:
            self._engine.release(request.turns)
            raise
        whole = begun[0] if len(begun) == 1 else when_all_done(begun, _joined)
        whole.add_done_callback(lambda _: self._engine.release(request.turns))
        return whole

    def _begin_part(self, request: _Request, part: range) -> Future[list[Translation]]:
        """Begin to translate some of a request's texts: those of a small request at once."""
        begin = partial(self._begin, request, part)
        if len(request.texts) <= _SMALL_TEXTS and request.characters <= _SMALL_CHARACTERS:
            return begin()
        prepared = self._preparation.submit(begin, request.parts, request.terms.priority)
        return followed_by(prepared, lambda begun: begun)

    def _begin(self, request: _Request, part: range) -> Future[list[Translation]]:
        """Begin to translate some of a request's texts."""
        options, plan, terms = request.options, request.plan, request.terms
        pieces = self._pieces_of_all(request, part)
        sentences = self._sentences(request, pieces)
        if options.assessed:
            self._assessor.check(
                len(sentences) * plan.hypotheses, options, terms.priority, terms.deadline_s
            )
            lengths = [len(sentence.src_ids) for sentence in sentences]
            self._assessor.check_lengths(lengths, plan.hypotheses, options)
        if plan.coverage_penalty:
            self._assessor.check(
                len(sentences) * plan.width, options, terms.priority, terms.deadline_s
            )
        if part.start == 0:
            searches = len(sentences) * request.searches_each
            total = searches * len(request.texts) // len(part)
            # An estimate, where texts are split; too many are refused when they are known.
            self._engine.reserve(sentences, request.turns, min(total, self._limits.most_of_request))
        submit = partial(self._engine.submit, turns=request.turns)
        follow_up = FollowUp(plan, self._tokenizer, submit, self._scorer)
        futures = follow_up.submit(sentences)
        if not options.assessed:
            return when_all_done(
                futures, lambda found: self._composer.compose(pieces, found, plan.alpha)
            )
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
        scoring_alpha(options, self.manifest.limits)
        if not texts:
            raise InvalidRequest("text_input is empty: give at least one text")
        if len(texts) != len(targets):
            raise InvalidRequest(
                f"text_input has {len(texts)} texts and target_input {len(targets)}: "
                "give a target for each text"
            )
        _check_together((*texts, *targets))
        terms = terms or Terms()
        self._assessor.check(len(texts), options, terms.priority, terms.deadline_s)
        for index, (text, target) in enumerate(zip(texts, targets, strict=True)):
            _check_length(index, text)
            _check_length(index, target, "target")
        candidates = [
            self._given(index, text, target, language)
            for index, (text, target, (_, language)) in enumerate(
                zip(texts, targets, self._directions.of_texts(texts, options), strict=True)
            )
        ]
        return self._assessor.assess(candidates, options, terms.priority, terms.deadline_s)

    def _given(self, index: int, text: str, target: str, language: str) -> Candidate:
        """A given pair as ids."""
        limits = self.manifest.limits
        src_ids = self._tokenizer.encode_source(text, language)
        tgt_ids = self._tokenizer.target.encode(target)
        if len(src_ids) == self._tokenizer.tags + 1:
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
        _check_length(0, text)
        plan = SearchPlan(options, self.manifest.limits, self._tokenizer)
        if plan.hypotheses > 1 or plan.keeps_placeholders or plan.coverage_penalty:
            raise InvalidRequest(
                "a stream has one translation, as it comes: no num_return_sequences, "
                "keep_placeholders or coverage_penalty"
            )
        request = _Request([text], options, plan, terms or Terms())
        (pieces,) = self._pieces_of_all(request, range(1))
        stream = TextStream(pieces, self._tokenizer.target.decode, changed)
        sentences = self._sentences(request, [pieces])
        self._engine.reserve(sentences, request.turns, len(sentences))
        try:
            futures = self._engine.submit(sentences, stream.reports(len(sentences)), request.turns)
        finally:
            self._engine.release(request.turns)
        stream.follow(futures)
        stream.future = when_all_done(
            futures, lambda found: self._composer.compose([pieces], found, plan.alpha)
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
        self._preparation.close()
        self._engine.close()
        self._scorer.close()

    def _sentences(
        self, request: _Request, pieces: Sequence[Sequence[Piece]]
    ) -> list[SourceSentence]:
        """The sentences of some of a request's texts."""
        found = [one for of_text in pieces for one in of_text if isinstance(one, SourceSentence)]
        request.searches += request.searches_each * len(found)
        self._check_number(request.searches)
        return found

    def _check_number(self, sentences: int) -> None:
        """Refuse more sentences than one request may have."""
        if sentences > (most := self._limits.most_of_request):
            raise InvalidRequest(
                f"{sentences} sentences in one request, more than {most}: send fewer"
            )

    def _pieces_of_all(self, request: _Request, part: range) -> list[list[Piece]]:
        texts = [request.texts[index] for index in part]
        directions = self._directions.of_texts(texts, request.options, part.start)
        return [
            self._pieces(index, text, *languages, request.options, request.plan, request.terms)
            for index, text, languages in zip(part, texts, directions, strict=True)
        ]

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
            if len(src_ids) == self._tokenizer.tags + 1:
                pieces += [line_breaks.put_into(line_breaks.line), kept]
                continue
            if len(src_ids) > limits.max_source_tokens:
                or_else = "" if options.return_attention else ", or set split_sentences"
                raise InvalidRequest(
                    f"text {index} has {len(src_ids)} tokens, more than "
                    f"{limits.max_source_tokens}: shorten it{or_else}"
                )
            max_tokens, search = plan.of_sentence(index, line_breaks.line, src_ids)
            pieces.append(
                SourceSentence(
                    *(tuple(src_ids), max_tokens, search, terms.priority, terms.deadline_s),
                    text=line_breaks.line,
                    altered=plan.altered_placeholders(index, line_breaks.line),
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

    def _assessed(
        self,
        pieces: Sequence[Sequence[Piece]],
        found: Sequence[Hypothesis],
        options: RequestOptions,
        plan: SearchPlan,
        terms: Terms,
    ) -> Future[list[Translation]]:
        """Translations with what the model thinks of them."""
        translations = self._composer.compose(pieces, found, plan.alpha)
        candidates = self._composer.candidates(pieces, found)
        assessing = self._assessor.assess(candidates, options, terms.priority, terms.deadline_s)

        def attach(done: list[list[Assessment]]) -> list[Translation]:
            assessments = iter(done[0])
            return [with_assessment(one, assessments) for one in translations]

        return when_all_done([assessing], attach)


def _cut(texts: Sequence[str]) -> list[range]:
    """Parts of a request, as ranges of indices."""
    parts: list[range] = []
    start = characters = 0
    for index, text in enumerate(texts):
        full = index - start >= _PART_TEXTS or characters + len(text) > _PART_CHARACTERS
        if full and index > start:
            parts.append(range(start, index))
            start, characters = index, 0
        characters += len(text)
    return [*parts, range(start, len(texts))]


def _joined(parts: Sequence[list[Translation]]) -> list[Translation]:
    return [translation for part in parts for translation in part]


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
