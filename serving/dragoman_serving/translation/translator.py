"""A loaded model: translates texts, streams translations, scores given ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from dragoman.kernel.errors import InvalidRequest, UsageError
from dragoman.kernel.hypothesis import Hypothesis
from dragoman.kernel.manifest import Manifest
from dragoman_serving.engine.batching.statistics import Counts, Statistics
from dragoman_serving.engine.batching.waiting_queue import Turns
from dragoman_serving.engine.errors import EngineFailure
from dragoman_serving.engine.futures import Future, when_all_done
from dragoman_serving.engine.settings import EngineSettings
from dragoman_serving.models.loading import open_engine
from dragoman_serving.request.plan import (
    ScoringPlan,
    SearchPlan,
    plan_request,
    plan_scoring,
    plan_stream,
)
from dragoman_serving.request.urgency import DEFAULT_URGENCY, Urgency
from dragoman_serving.scoring.assessment import Assessment, Assessor
from dragoman_serving.scoring.scorer import Scorer
from dragoman_serving.translation.follow_up import FollowUp
from dragoman_serving.translation.marking import Marker
from dragoman_serving.translation.preparation import Preparation, cut, is_small
from dragoman_serving.translation.segments import SourceSentence, SourceText
from dragoman_serving.translation.source_texts import SourceTexts, check_length, check_together
from dragoman_serving.translation.streaming import TextStream
from dragoman_serving.translation.translation import (
    Composer,
    Translation,
    with_assessment,
    with_tags,
)

_PerText = TypeVar("_PerText")
_Result = TypeVar("_Result")
_NO_OPTIONS: Mapping[str, Any] = {}
_FEW_CODES = 64
"""More codes are placed in a separate thread: each takes about half a millisecond, during which the
engine's thread would decode nothing."""
_Outcome = list[Translation] | Future[list[Translation]]
"""Translations, or a future of them if more must be searched for or computed."""


@dataclass  # not frozen: that is three times slower, and each request has one
class Submitted(Generic[_PerText]):
    """A running request: its resolved options, and the future of its results, one per text."""

    plan: ScoringPlan
    future: Future[list[_PerText]]
    """Cancelling it cancels the request."""


class _Request:
    """A running request."""

    def __init__(self, texts: Sequence[str], plan: SearchPlan, is_small: bool = True) -> None:
        """Start with nothing submitted."""
        self.texts, self.plan = texts, plan
        self.turns, self.parts = Turns(), Turns()
        """Turns of its sentences in the engine, and of its parts in the preparation."""
        self.is_small = is_small
        """Whether it is prepared immediately."""
        self.searches_each = max(plan.samples, plan.alternatives, 1)
        """Searches for each sentence."""
        self.searches = 0
        """Searches that are known so far."""


@dataclass(frozen=True)
class Load:
    """The current load of an engine."""

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
        statistics: Statistics | None = None,
        manifest: Manifest | None = None,
    ) -> None:
        """Check and load a bundle, and start its engine.

        Args:
            bundle: folder of the bundle.
            settings: settings of the engine.
            on_failure: called once if the engine fails.
            statistics: counters to use; None: the engine's own.
            manifest: manifest of the bundle, if its files are checked; None: check them here.

        Raises:
            UsageError: the bundle is damaged, or does not fit this version.
        """
        self.manifest = manifest or Manifest.load(bundle)
        self._tokenizer = self.manifest.open_tokenizer(bundle)
        for language, tag_id in self.manifest.special_ids.tags.items():
            if self._tokenizer.tag_id(language) != tag_id:
                raise UsageError(
                    f"{bundle / self.manifest.tokenizer}: the tag of {language!r} has id "
                    f"{self._tokenizer.tag_id(language)}, the manifest says {tag_id}"
                )
        self._composer = Composer(self._tokenizer, self.manifest.alignment)
        self._texts = SourceTexts(self.manifest, self._tokenizer)
        self._settings = settings or EngineSettings()
        opened = open_engine(
            bundle=bundle,
            manifest=self.manifest,
            settings=self._settings,
            on_failure=on_failure,
            statistics=statistics,
        )
        self._engine, self.layout, self._limits = opened.engine, opened.layout, opened.limits
        self._scorer = Scorer(
            bundle=bundle,
            manifest=self.manifest,
            most_waiting=self._limits.waiting,
            tuning=self._settings.tuning,
            scoring=opened.scoring,
        )
        self._assessor = Assessor(
            tokenizer=self._tokenizer,
            manifest=self.manifest,
            scorer=self._scorer,
            searches_attend=self.layout.runtime == "native",
        )
        self._marker = Marker(self._tokenizer, self._scorer, self.manifest.alignment)
        self._preparation = Preparation()
        self._placement = Preparation("placement")

    def translate(
        self, texts: Sequence[str], options: Mapping[str, Any] = _NO_OPTIONS
    ) -> list[Translation]:
        """Translate texts, and wait for the result.

        Raises:
            DragomanError: as from `submit`, or the engine failed.
        """
        return self.submit(texts, options).future.result()

    def submit(
        self, texts: Sequence[str], options: Mapping[str, Any], urgency: Urgency = DEFAULT_URGENCY
    ) -> Submitted[Translation]:
        """Start translating texts.

        For a large request, the future may raise the first three errors.

        Args:
            texts: texts of the request.
            options: options by name; `dragoman_options.table` lists them.
            urgency: see `Urgency`.

        Raises:
            InvalidRequest: a text or an option cannot be served.
            Overloaded: too much work is waiting.
            DeadlineExceeded: the request would exceed its deadline.
            Closed: the translator was closed.
        """
        return self.begin(texts, self.plan(options, len(texts)), urgency)

    def plan(self, options: Mapping[str, Any], texts: int) -> SearchPlan:
        """Resolve the options of a request with this number of texts, for `begin`.

        Raises:
            InvalidRequest: an option cannot be served.
        """
        plan = plan_request(options, self.manifest.limits, self._tokenizer, texts)
        self._check_model(plan)
        return plan

    def begin(
        self, texts: Sequence[str], plan: SearchPlan, urgency: Urgency
    ) -> Submitted[Translation]:
        """As `submit`, with the result of `plan` for the same number of texts; it can be reused."""
        check_together(texts)
        for index, text in enumerate(texts):
            check_length(index, text)
        plan = plan.at(urgency)
        request = _Request(texts, plan, is_small(texts, self._settings.tuning))
        self._check_number(request.searches_each * len(texts))
        if self._engine.waiting:
            sentences = request.searches_each * sum(not text.isspace() for text in texts if text)
            self._engine.check_space(sentences, urgency.priority, urgency.deadline_s)
        # The limits of an assessment are for the whole request.
        parts = [range(len(texts))]
        if not (request.is_small or plan.assessed or plan.coverage_penalty):
            parts = cut(texts, self._settings.tuning)
        try:
            begun = [self._begin_part(request, part) for part in parts]
        except BaseException:
            self._engine.release(request.turns)
            raise
        whole = begun[0] if len(begun) == 1 else when_all_done(begun, _joined)
        if len(begun) > 1 or request.turns.reserved or not request.is_small:
            whole.add_done_callback(lambda _: self._engine.release(request.turns))
        return Submitted(plan, whole)

    def score(
        self,
        texts: Sequence[str],
        targets: Sequence[str],
        options: Mapping[str, Any],
        urgency: Urgency = DEFAULT_URGENCY,
    ) -> Submitted[Assessment]:
        """Start scoring given translations.

        Args:
            texts: source texts.
            targets: a translation of each text.
            options: options by name.
            urgency: see `Urgency`.

        Raises:
            InvalidRequest: a text, a target or an option cannot be served.
            Overloaded: too many pairs wait to be scored.
            Closed: the translator was closed.
        """
        plan = plan_scoring(options, self.manifest.limits, urgency)
        if texts and len(texts) != len(targets):
            raise InvalidRequest(
                f"text_input has {len(texts)} texts and target_input {len(targets)}: "
                "give a target for each text",
                option="target_input",
            )
        check_together((*texts, *targets) if texts else ())
        self._assessor.check(len(texts), plan, given=True)
        for index, (text, target) in enumerate(zip(texts, targets, strict=True)):
            check_length(index, text)
            check_length(index, target, "target")
        candidates = self._texts.given_pairs(texts, targets, plan)
        return Submitted(plan, self._assessor.assess(candidates, plan))

    def stream(
        self,
        text: str,
        options: Mapping[str, Any],
        changed: Callable[[], None],
        urgency: Urgency = DEFAULT_URGENCY,
    ) -> TextStream:
        """Start translating a text; the translation can be read as it grows.

        Args:
            text: text to translate.
            options: options by name.
            changed: called in the engine's thread when there may be more to read, and at the end.
            urgency: see `Urgency`.

        Raises:
            DragomanError: as from `submit`.
        """
        check_length(0, text)
        plan = plan_stream(options, self.manifest.limits, self._tokenizer, urgency)
        self._check_model(plan)
        request = _Request([text], plan)
        (source,) = self._texts.pieces(request.texts, range(1), plan)
        correct = self._follow_up(plan, request).correct
        stream = TextStream(
            source.pieces, partial(with_tags, self._tokenizer.target), changed, plan.outputs
        )
        sentences = self._sentences(request, [source])
        self._check_assessment(sentences, plan)
        self._engine.reserve(sentences, request.turns, len(sentences))
        try:
            futures = self._engine.submit(sentences, stream.reports(len(sentences)), request.turns)
        finally:
            self._engine.release(request.turns)
        corrected = [
            self._with_placed_tags(future, sentence, partial(stream.put, number), plan)
            if sentence.tags
            else future
            for number, (sentence, future) in enumerate(
                zip(sentences, correct(sentences, futures), strict=True)
            )
        ]
        stream.follow(corrected)
        stream.future = when_all_done(
            corrected,
            lambda hypotheses: self._finished(
                [replace(source, pieces=stream.pieces)], hypotheses, plan
            ),
        )
        stream.future.add_done_callback(lambda _: changed())
        return stream

    def _with_placed_tags(
        self,
        future: Future[Hypothesis],
        sentence: SourceSentence,
        put: Callable[[SourceSentence], None],
        plan: SearchPlan,
    ) -> Future[Hypothesis]:
        """A future that is done when the tags of a sentence are placed in its translation."""

        def place(hypotheses: list[Hypothesis]) -> Hypothesis | Future[Hypothesis]:
            def note(placed: list[list[SourceText]]) -> Hypothesis:
                put(placed[0][0].sentences[0])
                return hypotheses[0]

            def work() -> Future[Hypothesis]:
                return when_all_done([self._marker.place_tags(texts, hypotheses, plan)], note)

            texts = [SourceText([sentence])]
            return self._placing(texts, work, plan)

        return when_all_done([future], place)

    @property
    def description(self) -> str:
        """One line with the layout of the engine, and the largest size of its caches."""
        most = self._engine.most_bytes(self.manifest.limits.max_beam_width)
        return (
            f"{self.layout}, workers: {self._engine.workers} of "
            f"{self._limits.rows} rows, caches of at most {most / 1e6:.0f} MB "
            f"for each beam width in use, {self._limits.waiting} sentences may wait"
        )

    @property
    def most_sentences(self) -> int:
        """Maximum number of sentences of one request."""
        return self._limits.most_of_request

    @property
    def load(self) -> Load:
        """The current load of the engine."""
        engine = self._engine
        return Load(engine.waiting, engine.rows, engine.most_rows, engine.nbytes)

    @property
    def counts(self) -> Counts:
        """The counters of the engine."""
        return self._engine.statistics.counts

    def close(self) -> None:
        """Finish all submitted work, then stop."""
        self._preparation.close()
        self._engine.close()
        self._placement.close()
        self._scorer.close()

    def _check_model(self, plan: SearchPlan) -> None:
        """Refuse options that the model or the runtime does not support."""
        if plan.markups and self.manifest.alignment is None:
            raise InvalidRequest(
                "markup: the bundle has no alignment heads; "
                "choose them with: dragoman align-heads BUNDLE --text PREFIX",
                "unsupported",
                "markup",
            )
        if not plan.shortlist:
            return
        if self.manifest.shortlist is None:
            raise InvalidRequest(
                "shortlist: the bundle has none; add one with: "
                "dragoman shortlist BUNDLE --text PREFIX",
                "unsupported",
                "shortlist",
            )
        if self.layout.runtime != "native":
            raise InvalidRequest(
                f"shortlist: not with the runtime {self.layout.runtime}; the runtime native has it",
                "unsupported",
                "shortlist",
            )

    def _begin_part(self, request: _Request, part: range) -> Future[list[Translation]]:
        """Start translating some of a request's texts; those of a small request immediately."""
        begin = partial(self._begin, request, part)
        if request.is_small:
            return begin()
        prepared = self._preparation.submit(begin, request.parts, request.plan.urgency.priority)
        return when_all_done([prepared], lambda begun: begun[0])

    def _begin(self, request: _Request, part: range) -> Future[list[Translation]]:
        """Start translating some of a request's texts."""
        plan = request.plan
        texts = self._texts.pieces(request.texts, part, plan)
        sentences = self._sentences(request, texts)
        self._check_assessment(sentences, plan)
        if part.start == 0:
            searches = len(sentences) * request.searches_each
            total = searches * len(request.texts) // len(part)
            # An estimate if texts are split; too many sentences are refused when they are known.
            self._engine.reserve(sentences, request.turns, min(total, self._limits.most_of_request))
        follow_up = self._follow_up(plan, request)

        def finish(hypotheses: Sequence[Hypothesis]) -> _Outcome:
            return self._finished(texts, self._composer.distinct(texts, hypotheses, plan), plan)

        def repair(hypotheses: Sequence[Hypothesis]) -> _Outcome:
            if (again := follow_up.repair(sentences, hypotheses)) is None:
                return finish(hypotheses)
            return when_all_done([again], lambda repaired: finish(repaired[0]))

        searching = follow_up.submit(sentences)
        return when_all_done(searching, repair if plan.repairs else finish)

    def _follow_up(self, plan: SearchPlan, request: _Request) -> FollowUp:
        submit = partial(self._engine.submit, turns=request.turns)
        return FollowUp(
            plan=plan,
            tokenizer=self._tokenizer,
            submit=submit,
            scorer=self._scorer,
            alignment=self.manifest.alignment,
            stand_ins=self._texts.stand_ins,
            most_rows=self._limits.rows,
        )

    def _finished(
        self, texts: Sequence[SourceText], hypotheses: Sequence[Hypothesis], plan: SearchPlan
    ) -> _Outcome:
        """Composes translations; in a separate thread if many codes must be placed."""
        return self._placing(texts, partial(self._completed, texts, hypotheses, plan), plan)

    def _placing(
        self,
        texts: Sequence[SourceText],
        work: Callable[[], _Result | Future[_Result]],
        plan: SearchPlan,
    ) -> _Result | Future[_Result]:
        """The result of a function that places codes, called in a thread if there are many."""
        marked = [
            sentence.marked for text in texts for sentence in text.sentences if sentence.marked
        ]
        if not marked or sum(len(sentence.codes) for sentence in marked) <= _FEW_CODES:
            return work()
        placing = self._placement.submit(work, Turns(), plan.urgency.priority)
        return when_all_done([placing], lambda completed: completed[0])

    def _completed(
        self, texts: Sequence[SourceText], hypotheses: Sequence[Hypothesis], plan: SearchPlan
    ) -> _Outcome:
        """Places codes, and composes translations with the other outputs of the request."""
        sentences = (sentence for text in texts for sentence in text.sentences)
        if all(sentence.tags is None or sentence.tags.placed is not None for sentence in sentences):
            return self._composed(texts, hypotheses, plan)
        return when_all_done(
            [self._marker.place_tags(texts, hypotheses, plan)],
            lambda placed: self._composed(placed[0], hypotheses, plan),
        )

    def _composed(
        self, texts: Sequence[SourceText], hypotheses: Sequence[Hypothesis], plan: SearchPlan
    ) -> _Outcome:
        translations = self._composer.compose(texts, hypotheses, plan)
        if plan.markups:
            marking = self._marker.mark(texts, hypotheses, translations, plan)
            if not plan.assessed:
                return marking
            return when_all_done(
                [marking], lambda marked: self._assessed(texts, hypotheses, marked[0], plan)
            )
        return (
            self._assessed(texts, hypotheses, translations, plan) if plan.assessed else translations
        )

    def _check_assessment(self, sentences: Sequence[SourceSentence], plan: SearchPlan) -> None:
        """Refuse early if the translations could not be assessed."""
        if plan.assessed:
            self._assessor.check(len(sentences) * plan.hypotheses, plan, given=False)
            lengths = [len(sentence.src_ids) for sentence in sentences]
            self._assessor.check_lengths(lengths, plan.hypotheses, plan)
        if plan.coverage_penalty:
            self._assessor.check(len(sentences) * plan.width, plan, given=False)

    def _sentences(self, request: _Request, texts: Sequence[SourceText]) -> list[SourceSentence]:
        """The sentences of some of a request's texts."""
        sentences = [sentence for text in texts for sentence in text.sentences]
        request.searches += request.searches_each * len(sentences)
        self._check_number(request.searches)
        return sentences

    def _check_number(self, sentences: int) -> None:
        """Refuse more sentences than one request may have."""
        if sentences > (most := self._limits.most_of_request):
            raise InvalidRequest(
                f"{sentences} sentences in one request, more than {most}: send fewer",
                "too_large",
            )

    def _assessed(
        self,
        texts: Sequence[SourceText],
        hypotheses: Sequence[Hypothesis],
        translations: Sequence[Translation],
        plan: SearchPlan,
    ) -> Future[list[Translation]]:
        """Translations with their assessments."""
        candidates = self._composer.candidates(texts, hypotheses, plan)
        assessing = self._assessor.assess(candidates, plan)

        def attach(done: list[list[Assessment]]) -> list[Translation]:
            assessments = iter(done[0])
            return [with_assessment(translation, assessments) for translation in translations]

        return when_all_done([assessing], attach)


def _joined(parts: Sequence[list[Translation]]) -> list[Translation]:
    return [translation for part in parts for translation in part]
