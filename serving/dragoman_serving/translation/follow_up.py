"""Requests with several searches per sentence: samples, alternatives, corrections, repairs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial

import numpy as np

from dragoman.kernel.errors import DragomanError
from dragoman.kernel.hypothesis import Hypothesis
from dragoman.kernel.manifest import AlignmentHeads
from dragoman.kernel.text import Tokenizer
from dragoman_serving.engine.constraints import Constraints
from dragoman_serving.engine.futures import Future, result_or, when_all_done
from dragoman_serving.engine.sentence import Sentence
from dragoman_serving.fidelity.casing import Casing
from dragoman_serving.fidelity.letter_case import with_capital
from dragoman_serving.fidelity.reading import StandIns
from dragoman_serving.request.plan import SearchPlan, with_alternatives, with_sample
from dragoman_serving.scoring.scorer import Scorer
from dragoman_serving.scoring.token_pair import Scored, TokenPair
from dragoman_serving.translation.corrections import Corrections, Submit
from dragoman_serving.translation.faults import SHORT, UNTRANSLATED, fault_of, is_copy
from dragoman_serving.translation.losses import NEGATION, SIGNS, is_opposite
from dragoman_serving.translation.segments import SourceSentence
from dragoman_serving.translation.translation import scored_by_search

_LEAST_SEEN = 1e-6
"""Least coverage of a source token, so that a score stays finite."""
_NGRAM_SIZE = 3
"""No n-gram of this size is repeated in the second search after a loop."""
_FEWEST_RATIO = 0.6
"""Least tokens per source token in the second search after a translation that was too short."""


class FollowUp:
    """Gets the translations of a plan, in one or more rounds of searches."""

    def __init__(
        self,
        plan: SearchPlan,
        tokenizer: Tokenizer,
        submit: Submit,
        scorer: Scorer,
        alignment: AlignmentHeads | None,
        stand_ins: StandIns,
        most_rows: int,
    ) -> None:
        """Store the parts that later calls need.

        Args:
            plan: plan of the request.
            tokenizer: tokenizer of the model.
            submit: submits sentences to the engine.
            scorer: computes the attention of translations if the search did not return it.
            alignment: the alignment heads; None: unknown.
            stand_ins: stand-ins of literals.
            most_rows: most rows that the searches for a sentence should have together.
        """
        self._alignment = alignment
        self._most_rows = most_rows
        self._scorer = scorer
        self._plan = plan
        self._tokenizer = tokenizer
        self._submit = submit
        self._stand_ins = stand_ins

    def submit(self, sentences: Sequence[SourceSentence]) -> list[Future[Hypothesis]]:
        """Start translating sentences.

        Args:
            sentences: sentences to translate.

        Returns:
            One future per sentence, in their order. Cancelling it cancels the sentence.

        Raises:
            DragomanError: as from the engine's `submit`.
        """
        if self._plan.samples > 1:
            futures = self._sample(sentences)
        elif self._plan.alternatives:
            futures = self._alternatives(sentences)
        elif self._plan.coverage_penalty:
            futures = self._cover(sentences)
        else:
            futures = self._submit(sentences)
        return self.correct(sentences, futures)

    def correct(
        self, sentences: Sequence[SourceSentence], futures: Sequence[Future[Hypothesis]]
    ) -> list[Future[Hypothesis]]:
        """Returns futures of the sentences' translations with all that they must have."""
        if not any(sentence.needs_check for sentence in sentences):
            return list(futures)
        return list(map(self._corrections.follow, sentences, futures))

    @cached_property
    def _corrections(self) -> Corrections:
        return Corrections(
            self._plan,
            self._tokenizer,
            self._submit,
            self._scorer,
            self._alignment,
            self._stand_ins,
        )

    def repair(
        self, sentences: Sequence[SourceSentence], hypotheses: Sequence[Hypothesis]
    ) -> Future[list[Hypothesis]] | None:
        """Search again for faulty translations; returns None if there are none.

        The first translation is kept if the second one is faulty too, or if there is none because
        the engine is overloaded or the deadline has passed.

        Args:
            sentences: the translated sentences.
            hypotheses: their translations.
        """
        faults = {
            index: fault
            for index, (sentence, hypothesis) in enumerate(zip(sentences, hypotheses, strict=True))
            if (fault := self._fault(sentence, hypothesis)) is not None
        }
        if not faults:
            return None
        again = [
            self._another(sentences[i], fault) for i, fault in faults.items() if fault != SIGNS
        ]
        searched: Iterator[Future[Hypothesis]] = iter(())
        with contextlib.suppress(DragomanError):
            searching = list(map(self._chosen, again, self._submit(again) if again else ()))
            # Corrections need one hypothesis.
            single = [_with_hypotheses(sentence, 1) for sentence in again]
            searched = iter(self.correct(single, searching))
        futures: dict[int, Future[Hypothesis]] = {}
        for index, fault in faults.items():
            if fault == SIGNS:
                futures[index] = self._corrections.spell(sentences[index], hypotheses[index])
            elif future := next(searched, None):
                futures[index] = result_or(future, hypotheses[index])
        indices = tuple(futures)

        def join(second: list[Hypothesis]) -> list[Hypothesis]:
            repaired = list(hypotheses)
            for index, hypothesis in zip(indices, second, strict=True):
                if hypothesis.complete and self._fault(sentences[index], hypothesis) is None:
                    if faults[index] == UNTRANSLATED:
                        hypothesis = self._with_capital(hypothesis, sentences[index])
                    repaired[index] = hypothesis
            return repaired

        return when_all_done(list(futures.values()), join)

    def _fault(self, sentence: SourceSentence, hypothesis: Hypothesis) -> str | None:
        """A fault of a translation; `SIGNS` if it has bytes that form no character."""
        if (fault := fault_of(sentence.src_ids, hypothesis)) is not None:
            return fault
        target = self._tokenizer.target
        if target.is_broken(hypothesis.ids):
            return SIGNS
        written = target.decode(hypothesis.ids)
        if is_opposite(sentence, written):
            return NEGATION
        may_be_label = not sentence.terms and is_copy(sentence.text, written)
        if may_be_label and self._in_small_letters(sentence) is not None:
            return UNTRANSLATED
        return None

    def _in_small_letters(self, sentence: SourceSentence) -> str | None:
        return self._casing.in_small_letters(sentence.text, sentence.languages[0])

    @cached_property
    def _casing(self) -> Casing:
        return Casing(self._tokenizer)

    def _with_capital(self, hypothesis: Hypothesis, sentence: SourceSentence) -> Hypothesis:
        written = self._tokenizer.target.decode(hypothesis.ids)
        return self._corrections.with_text(hypothesis, with_capital(written, sentence.languages[1]))

    def _another(self, sentence: SourceSentence, fault: str) -> SourceSentence:
        """A sentence whose search may avoid a fault."""
        if fault == UNTRANSLATED:
            small = self._in_small_letters(sentence)
            assert small is not None  # otherwise it has no such fault
            src_ids = self._tokenizer.encode_source(small, sentence.languages[1])
            reading = sentence.reading.with_text(small)
            return replace(sentence, reading=reading, src_ids=tuple(src_ids))
        if fault != NEGATION:
            return _guarded(sentence, fault)
        width = min(self._plan.lengths.limits.max_beam_width, self._most_rows)
        wide = replace(sentence, options=replace(sentence.options, beam_width=width))
        return _with_hypotheses(wide, width)

    def _chosen(
        self, sentence: SourceSentence, searching: Future[Hypothesis]
    ) -> Future[Hypothesis]:
        """The best of several translations that does not say the opposite; else the best one."""

        def choose(searched: list[Hypothesis]) -> Hypothesis:
            best, *others = (replace(searched[0], others=()), *searched[0].others)
            decode = self._tokenizer.target.decode
            right = (
                candidate
                for candidate in (best, *others)
                if not is_opposite(sentence, decode(candidate.ids))
            )
            return next(right, best)

        return when_all_done([searching], choose) if sentence.options.hypotheses > 1 else searching

    def _sample(self, sentences: Sequence[Sentence]) -> list[Future[Hypothesis]]:
        """Search for each sentence several times, each time with other random numbers."""
        count = self._plan.samples
        futures = self._submit(
            [
                replace(sentence, options=with_sample(sentence.options, number))
                for sentence in sentences
                for number in range(count)
            ]
        )
        return [
            when_all_done(futures[i : i + count], _together) for i in range(0, len(futures), count)
        ]

    def _alternatives(self, sentences: Sequence[Sentence]) -> list[Future[Hypothesis]]:
        """Search for continuations of the top tokens after the prefix.

        If the searches for a sentence need too many rows, they are split into several parts.
        """
        count, together = self._plan.alternatives, max(1, self._most_rows // self._plan.width)
        parts = [range(i, min(i + together, count)) for i in range(0, count, together)]
        futures = self._submit(
            [
                replace(sentence, options=with_alternatives(sentence.options, part))
                for sentence in sentences
                for part in parts
            ]
        )
        return [
            when_all_done(futures[i : i + len(parts)], _together)
            for i in range(0, len(futures), len(parts))
        ]

    def _cover(self, sentences: Sequence[Sentence]) -> list[Future[Hypothesis]]:
        """Search, and rank the hypotheses again with a coverage penalty.

        The penalty is applied after the search, with the attention of the alignment heads.

        Source: Wu et al. 2016, equation 14, https://arxiv.org/abs/1609.08144
        """
        return [
            when_all_done([future], partial(self._look, sentence))
            for sentence, future in zip(sentences, self._submit(sentences), strict=True)
        ]

    def _look(self, sentence: Sentence, searched: list[Hypothesis]) -> Future[Hypothesis]:
        (first,) = searched
        # If there were too few hypotheses, the last one was repeated.
        hypotheses = list(
            {hypothesis.ids: hypothesis for hypothesis in (first, *first.others)}.values()
        )
        known = [scored_by_search(hypothesis, self._alignment) for hypothesis in hypotheses]
        pairs = [
            TokenPair(
                sentence.src_ids,
                hypothesis.ids,
                hypothesis.complete,
                True,
                sentence.priority,
                sentence.deadline_s,
                trace=sentence.trace,
            )
            for hypothesis, scored in zip(hypotheses, known, strict=True)
            if scored is None or scored.attention is None
        ]

        def rank(computed: list[Scored]) -> Hypothesis:
            rest = iter(computed)
            scored = [
                scores if scores and scores.attention is not None else next(rest)
                for scores in known
            ]
            covered = [
                replace(hypothesis, rescored=self._covered(hypothesis, seen), others=())
                for hypothesis, seen in zip(hypotheses, scored, strict=True)
            ]
            best = sorted(
                covered, key=lambda hypothesis: hypothesis.score(self._plan.alpha), reverse=True
            )
            return _together(best)

        return when_all_done(self._scorer.submit(pairs), rank)

    def _covered(self, hypothesis: Hypothesis, scored: Scored) -> float:
        assert scored.attention is not None  # it was requested
        seen = scored.attention[:, self._tokenizer.tags : -1].sum(axis=0)  # without the end symbol
        coverage = float(np.log(np.clip(seen, _LEAST_SEEN, 1.0)).sum())
        return hypothesis.score(self._plan.alpha) + self._plan.coverage_penalty * coverage


def _guarded(sentence: SourceSentence, fault: str) -> SourceSentence:
    """A sentence with constraints that prevent a fault."""
    constraints = sentence.options.constraints or Constraints()
    if fault == SHORT:
        fewest = min(int(_FEWEST_RATIO * len(sentence.src_ids)), sentence.max_tokens - 1)
        constraints = replace(constraints, min_tokens=max(constraints.min_tokens, fewest))
    else:
        size = min(constraints.no_repeat_ngram_size or _NGRAM_SIZE, _NGRAM_SIZE)
        constraints = replace(constraints, no_repeat_ngram_size=size)
    return replace(sentence, options=replace(sentence.options, constraints=constraints))


def _with_hypotheses(sentence: SourceSentence, count: int) -> SourceSentence:
    return replace(sentence, options=replace(sentence.options, hypotheses=count))


def _together(hypotheses: list[Hypothesis]) -> Hypothesis:
    """The first hypothesis, with the others attached."""
    every = [
        hypothesis
        for first in hypotheses
        for hypothesis in (replace(first, others=()), *first.others)
    ]
    return replace(every[0], others=tuple(every[1:]))
