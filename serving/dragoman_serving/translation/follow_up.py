"""Sentences that are searched for more than once: samples, alternatives, placeholders, faults."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

import numpy as np

from dragoman.kernel.errors import DragomanError
from dragoman.kernel.hypothesis import Hypothesis
from dragoman.kernel.manifest import AlignmentHeads
from dragoman.kernel.text import Tokenizer
from dragoman_serving.engine.constraints import Constraints
from dragoman_serving.engine.futures import result_or, when_all_done
from dragoman_serving.engine.sentence import Sentence
from dragoman_serving.request.placeholders import find_placeholders, split_at_placeholders
from dragoman_serving.request.plan import SearchPlan, with_alternatives, with_sample
from dragoman_serving.scoring.pair import Pair, Scored
from dragoman_serving.scoring.scorer import Scorer
from dragoman_serving.translation.faults import SHORT, fault_of
from dragoman_serving.translation.segments import SourceSentence
from dragoman_serving.translation.translation import scored_by_search

_LEAST_SEEN = 1e-6
"""What a source token counts as that nothing looked at, so that a score stays finite."""
_NGRAM_SIZE = 3
"""Tokens that the search for a translation without a loop does not repeat."""
_FEWEST_RATIO = 0.6
"""Tokens for each of the sentence's, in the search for a translation that is not too short."""
Submit = Callable[[Sequence[Sentence]], list[Future[Hypothesis]]]
"""Lets the engine translate sentences."""


class FollowUp:
    """Gets the translations that a plan wants, in as many rounds as that takes."""

    def __init__(
        self,
        plan: SearchPlan,
        tokenizer: Tokenizer,
        submit: Submit,
        scorer: Scorer,
        alignment: AlignmentHeads | None,
        most_rows: int,
    ) -> None:
        """Know whom to ask.

        Args:
            plan: of the request.
            tokenizer: of the model.
            submit: asks the engine.
            scorer: tells the attention of translations whose search does not.
            alignment: which heads align; None: unknown.
            most_rows: that a sentence's searches should have.
        """
        self._alignment = alignment
        self._most_rows = most_rows
        self._scorer = scorer
        self._plan = plan
        self._tokenizer = tokenizer
        self._submit = submit

    def submit(self, sentences: Sequence[SourceSentence]) -> list[Future[Hypothesis]]:
        """Begin to translate sentences.

        Args:
            sentences: what to translate.

        Returns:
            A future a sentence, in their order. Cancelling it gives the sentence up.

        Raises:
            DragomanError: as the engine's `submit`.
        """
        if self._plan.samples > 1:
            return self._sample(sentences)
        if self._plan.alternatives:
            return self._alternatives(sentences)
        if self._plan.terms.keeps_placeholders:
            return self._keep(sentences)
        if self._plan.coverage_penalty:
            return self._cover(sentences)
        return self._submit(sentences)

    def repair(
        self, sentences: Sequence[SourceSentence], found: Sequence[Hypothesis]
    ) -> Future[list[Hypothesis]] | None:
        """Search again for sentences whose translations are faulty; None if there are none.

        A first translation is kept if the second one is faulty too, or if there is none because
        the engine is overloaded or the request's time is over.

        Args:
            sentences: that were translated.
            found: their translations.
        """
        faults = {
            index: fault
            for index, (sentence, one) in enumerate(zip(sentences, found, strict=True))
            if (fault := fault_of(sentence.src_ids, one)) is not None
        }
        if not faults:
            return None
        again = [_guarded(sentences[index], fault) for index, fault in faults.items()]
        futures: list[Future[Hypothesis]] = []
        with contextlib.suppress(DragomanError):
            futures = self._submit(again)

        def join(second: list[Hypothesis]) -> list[Hypothesis]:
            repaired = list(found)
            for index, one in zip(faults, second, strict=False):
                if one.complete and fault_of(sentences[index].src_ids, one) is None:
                    repaired[index] = one
            return repaired

        firsts = (found[index] for index in faults)
        return when_all_done(list(map(result_or, futures, firsts)), join)

    def _sample(self, sentences: Sequence[Sentence]) -> list[Future[Hypothesis]]:
        """Each sentence several times, every time by other chances."""
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
        """The best tokens behind the prefix, and what comes after each.

        A sentence whose searches have more rows than may be in flight has them in several parts.
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
        """What was found, ranked once more by what each hypothesis says of its source.

        Source: Wu et al. 2016, equation 14, https://arxiv.org/abs/1609.08144, of what a search has
        found, and by the heads that align.
        """
        return [
            when_all_done([future], partial(self._look, sentence))
            for sentence, future in zip(sentences, self._submit(sentences), strict=True)
        ]

    def _look(self, sentence: Sentence, searched: list[Hypothesis]) -> Future[Hypothesis]:
        (found,) = searched
        # Where there were too few, the last was repeated.
        hypotheses = list({one.ids: one for one in (found, *found.others)}.values())
        known = [scored_by_search(one, self._alignment) for one in hypotheses]
        pairs = [
            Pair(
                *(sentence.src_ids, one.ids, one.complete, True),
                *(sentence.priority, sentence.deadline_s),
                trace=sentence.trace,
            )
            for one, scored in zip(hypotheses, known, strict=True)
            if scored is None or scored.attention is None
        ]

        def rank(computed: list[Scored]) -> Hypothesis:
            rest = iter(computed)
            scored = [one if one and one.attention is not None else next(rest) for one in known]
            covered = [
                replace(one, rescored=self._covered(one, seen), others=())
                for one, seen in zip(hypotheses, scored, strict=True)
            ]
            best = sorted(covered, key=lambda one: one.score(self._plan.alpha), reverse=True)
            missing = self._plan.hypotheses - len(best)
            return _together([*best, *best[-1:] * missing][: self._plan.hypotheses])

        return when_all_done(self._scorer.submit(pairs), rank)

    def _covered(self, one: Hypothesis, scored: Scored) -> float:
        assert scored.attention is not None  # it was asked for
        seen = scored.attention[:, self._tokenizer.tags : -1].sum(axis=0)  # without the end symbol
        coverage = float(np.log(np.clip(seen, _LEAST_SEEN, 1.0)).sum())
        return one.score(self._plan.alpha) + self._plan.coverage_penalty * coverage

    def _keep(self, sentences: Sequence[SourceSentence]) -> list[Future[Hypothesis]]:
        """Where a placeholder was lost after all, what stands between them is translated apart."""
        return [
            when_all_done([future], partial(self._check, sentence))
            for sentence, future in zip(sentences, self._submit(sentences), strict=True)
        ]

    def _check(
        self, sentence: SourceSentence, searched: list[Hypothesis]
    ) -> Hypothesis | Future[Hypothesis]:
        (found,) = searched
        tag, end = sentence.src_ids[: self._tokenizer.tags], sentence.src_ids[-1]
        # As the target writes them: the source's vocabulary may lack some of their characters.
        placeholders = self._plan.terms.placeholders(sentence.text)
        translated = self._tokenizer.target.decode(found.ids)
        kept = Counter(find_placeholders(translated))
        if all(kept[one] == count for one, count in Counter(placeholders).items()):
            return found
        between = split_at_placeholders(sentence.text)
        parts = [self._tokenizer.encode(part) for part in between]
        futures = self._submit(
            [
                self._part(sentence, part, (*tag, *ids, end))
                for part, ids in zip(between, parts, strict=True)
                if ids
            ]
        )

        def join(translations: list[Hypothesis]) -> Hypothesis:
            remaining = iter(translations)
            ids: list[int] = []
            for part, placeholder in zip(parts, [*placeholders, ""], strict=True):
                ids += next(remaining).ids if part else ()
                ids += self._tokenizer.target.encode(placeholder)
            whole = all(one.complete for one in translations) and len(ids) < sentence.max_tokens
            # What was put between the parts has no log-probability.
            log_prob = sum(one.log_prob or 0.0 for one in translations)
            uncut = Hypothesis(tuple(ids), log_prob, complete=True)
            return replace(
                uncut,
                ids=uncut.ids[: sentence.max_tokens],
                complete=whole,
                rescored=uncut.score(self._plan.alpha),
            )

        return when_all_done(futures, join)

    def _part(self, sentence: SourceSentence, text: str, src_ids: tuple[int, ...]) -> Sentence:
        """What stands between two placeholders, as a sentence by itself."""
        most, search = self._plan.of_part(text, src_ids)
        most = min(most, sentence.max_tokens)
        return replace(sentence, src_ids=src_ids, max_tokens=most, options=search)


def _guarded(sentence: SourceSentence, fault: str) -> SourceSentence:
    """A sentence with a search that is guarded against a fault."""
    constraints = sentence.options.constraints or Constraints()
    if fault == SHORT:
        fewest = min(int(_FEWEST_RATIO * len(sentence.src_ids)), sentence.max_tokens - 1)
        constraints = replace(constraints, min_tokens=max(constraints.min_tokens, fewest))
    else:
        size = min(constraints.no_repeat_ngram_size or _NGRAM_SIZE, _NGRAM_SIZE)
        constraints = replace(constraints, no_repeat_ngram_size=size)
    return replace(sentence, options=replace(sentence.options, constraints=constraints))


def _together(found: list[Hypothesis]) -> Hypothesis:
    """The first, with the others."""
    every = [one for first in found for one in (replace(first, others=()), *first.others)]
    return replace(every[0], others=tuple(every[1:]))
