"""Searches that heed more than the model's scores, for one sentence each.

They see all scores of their rows at every step. `dragoman_training.oracle.search` defines
what they find.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from dragoman.kernel.hypothesis import Hypothesis, length_penalty
from dragoman_serving.engine.arrays import Floats, Rank
from dragoman_serving.engine.constraints import Guidance, TermConstraints
from dragoman_serving.engine.sampling import Sampling
from dragoman_serving.engine.search.plain_search import Continuation, common_beginning, place
from dragoman_serving.engine.search.progress import Progress
from dragoman_serving.engine.sentence import Sentence


class GuidedSearch(Protocol):
    """One sentence's search, over as many rows as its beam is wide."""

    @property
    def length(self) -> int:
        """Tokens that each row has said."""
        ...

    def advance(self, log_probs: Floats) -> Continuation | None:
        """Choose what the rows say next, of their log-probabilities [W, V]; None: it is done."""
        ...

    def found(self) -> Sequence[Hypothesis]:
        """What a search that is done has found, best first."""
        ...

    def certain(self) -> tuple[int, ...]:
        """The tokens that the translation will begin with."""
        ...


def begin_guided_search(
    sentence: Sentence, guidance: Guidance, end_id: int, rank: Rank
) -> GuidedSearch:
    """The search that a sentence's guidance asks for; `rank` finds the best scores."""
    if guidance.sampling is not None:
        return SamplingSearch(sentence, guidance, guidance.sampling, end_id, rank)
    if guidance.terms is not None:
        return TermSearch(sentence, guidance, guidance.terms, end_id, rank)
    return GuidedBeamSearch(sentence, guidance, end_id, rank)


class SamplingSearch:
    """Samples each token: that at which the cumulative probability, by id, passes a number.

    The numbers are those of Philox (Salmon et al. 2011) under the seed, one a token.
    """

    def __init__(
        self, sentence: Sentence, guidance: Guidance, sampling: Sampling, end_id: int, rank: Rank
    ) -> None:
        """Begin to draw up to the sentence's `max_tokens`."""
        self._guidance = guidance
        self._sampling = sampling
        self._limit = sentence.max_tokens
        self._end_id = end_id
        self._rank = rank
        self._numbers = np.random.Generator(np.random.Philox(sampling.seed))
        self._said: tuple[int, ...] = ()
        self._score = np.float32(0.0)
        self._complete = False

    def advance(self, log_probs: Floats) -> Continuation | None:
        """See `GuidedSearch`."""
        scores = log_probs[0].copy()
        self._guidance.heed(self._said, scores)
        token = self._sampling.token(scores, self._numbers.random(), self._rank)
        if token is None:
            return None
        self._score += scores[token]
        self._complete = token == self._end_id
        if self._complete:
            return None
        self._said = (*self._said, token)
        return None if len(self._said) == self._limit else Continuation([token], [0])

    @property
    def length(self) -> int:
        """See `GuidedSearch`."""
        return len(self._said)

    def found(self) -> Sequence[Hypothesis]:
        """See `GuidedSearch`."""
        return [Hypothesis(self._said, float(self._score), self._complete)]

    def certain(self) -> tuple[int, ...]:
        """See `GuidedSearch`."""
        return self._said


_NOTHING_SAID = Progress()
_ZERO = np.float32(0.0)


@dataclass(frozen=True)
class _Live:
    """A hypothesis that goes on, and the row that it has."""

    ids: tuple[int, ...]
    score: np.float32
    row: int
    progress: Progress = _NOTHING_SAID
    given: np.float32 = _ZERO
    """Score of tokens that it had no choice but to say, which it is not compared by."""


@dataclass(frozen=True)
class _Candidate:
    """A hypothesis and a token behind it."""

    score: np.float32
    parent: _Live
    token: int
    progress: Progress = _NOTHING_SAID
    given: np.float32 = _ZERO


@dataclass(frozen=True)
class _Finished:
    """A hypothesis that is done, and what it is compared by."""

    hypothesis: Hypothesis
    merit: float


class GuidedBeamSearch:
    """Beam search as `BeamSearch`, under guidance."""

    def __init__(self, sentence: Sentence, guidance: Guidance, end_id: int, rank: Rank) -> None:
        """Begin a search that may generate up to the sentence's `max_tokens`."""
        self._guidance = guidance
        self._width = sentence.options.beam_width
        self._alpha = sentence.options.length_penalty
        self._wanted = sentence.options.hypotheses
        self._limit = sentence.max_tokens
        self._end_id = end_id
        self._rank = rank
        self.length = 0
        """Tokens that each row has said."""
        self._live = [_Live((), _ZERO, 0)]
        """Best first."""
        self._finished: list[_Finished] = []

    def advance(self, log_probs: Floats) -> Continuation | None:
        """See `GuidedSearch`."""
        self.length += 1
        candidates = self._candidates(log_probs)
        self._finish(candidates)
        chosen = self._choose([one for one in candidates if one.token != self._end_id])
        if not chosen and not self._finished:  # all is forbidden: what was said so far stands
            self.length -= 1
            self._cut()
            return None
        rows = place([one.parent.row for one in chosen], self._width)
        self._live = [
            _Live((*one.parent.ids, one.token), one.score, row, one.progress, one.given)
            for one, row in zip(chosen, rows, strict=True)
        ]
        if not chosen or self._is_enough():
            return None
        if self.length == self._limit:
            self._cut()
            return None
        tokens, parents = [0] * self._width, list(range(self._width))
        for one, row in zip(chosen, rows, strict=True):
            tokens[row], parents[row] = one.token, one.parent.row
        return Continuation(tokens, parents)

    def found(self) -> Sequence[Hypothesis]:
        """See `GuidedSearch`."""
        return [one.hypothesis for one in sorted(self._finished, key=_merit, reverse=True)]

    def certain(self) -> tuple[int, ...]:
        """See `GuidedSearch`."""
        outcomes = [
            *(one.ids for one in self._live),
            *(one.hypothesis.ids for one in self._finished),
        ]
        return common_beginning(outcomes)

    def _candidates(self, log_probs: Floats) -> list[_Candidate]:
        """The best continuations, twice as many as the search is wide, best first."""
        vocab_size = log_probs.shape[1]
        total = np.empty((len(self._live), vocab_size), np.float32)
        for of_live, one in zip(total, self._live, strict=True):
            of_live[:] = log_probs[one.row]
            self._guidance.heed(one.ids, of_live)
            of_live += one.score
        flat = total.reshape(-1)
        return [
            _Candidate(flat[index], self._live[index // vocab_size], index % vocab_size)
            for index in self._rank(flat, 2 * self._width).tolist()
        ]

    def _finish(self, candidates: Sequence[_Candidate]) -> None:
        self._finished += [
            self._finished_by(one.parent.ids, one, complete=True)
            for one in candidates[: self._width]
            if one.token == self._end_id
        ]

    def _cut(self) -> None:
        self._finished += [self._finished_by(one.ids, one, complete=False) for one in self._live]

    def _finished_by(
        self, ids: tuple[int, ...], one: _Live | _Candidate, complete: bool
    ) -> _Finished:
        merit = float(one.score) / length_penalty(self.length, self._alpha)
        return _Finished(Hypothesis(ids, float(one.score + one.given), complete), merit)

    def _choose(self, candidates: Sequence[_Candidate]) -> Sequence[_Candidate]:
        return candidates[: self._width]

    def _is_enough(self) -> bool:
        guidance, finished = self._guidance, self._finished
        if guidance.early_stopping:
            enough = math.ceil(guidance.patience * self._width)
            return len(finished) >= max(enough, self._wanted)
        return self._are_beyond_reach(max(self._width, self._wanted), self._limit)

    def _are_beyond_reach(self, count: int, length: int) -> bool:
        """Whether no live hypothesis, grown to a length, can be among the best `count`."""
        if len(self._finished) < count:
            return False
        least = sorted(map(_merit, self._finished), reverse=True)[count - 1]
        # A score only falls with more tokens; what it is divided by only grows.
        return float(self._live[0].score) / length_penalty(length, self._alpha) <= least


class TermSearch(GuidedBeamSearch):
    """Beam search whose translations hold given terms.

    Hypotheses compete with those that have begun as many terms. The rows are shared out over these
    banks in turn, so that some go on as they like while others say a term at every place where it
    may stand. A term that was begun is said to its end, and no hypothesis is the worse for what it
    costs: that is much the same everywhere, and who has yet to pay would win.

    Source: Hokamp and Liu 2017, https://aclanthology.org/P17-1141, with the beam shared out as in
    Post and Vilar 2018, https://aclanthology.org/N18-1119.
    """

    def __init__(
        self,
        sentence: Sentence,
        guidance: Guidance,
        terms: TermConstraints,
        end_id: int,
        rank: Rank,
    ) -> None:
        """Begin a search that may generate up to the sentence's `max_tokens`."""
        super().__init__(sentence, guidance, end_id, rank)
        self._terms = terms
        self._all = len(terms.sequences)

    def found(self) -> Sequence[Hypothesis]:
        """See `GuidedSearch`: those with the most terms come first."""
        return [one.hypothesis for one in self._finished]

    def _candidates(self, log_probs: Floats) -> list[_Candidate]:
        found: list[_Candidate] = []
        for one in self._live:
            raw = log_probs[one.row]
            if one.progress.term is not None:
                token = self._terms.sequences[one.progress.term][one.progress.place]
                progress = one.progress.go_on(self._terms)
                found.append(_Candidate(one.score, one, token, progress, one.given + raw[token]))
                continue
            found += self._free(one, log_probs)
            if len(one.ids) < len(self._guidance.prefix):
                continue
            for term in one.progress.unmet(self._terms):
                token = self._terms.sequences[term][0]
                begun = one.progress.begin(term, self._terms)
                found.append(_Candidate(one.score + raw[token], one, token, begun, one.given))
        return _merge(sorted(found, key=_total, reverse=True))

    def _free(self, one: _Live, log_probs: Floats) -> list[_Candidate]:
        """What may follow a hypothesis that is not in the middle of a term."""
        scores = log_probs[one.row].copy()
        self._guidance.heed(one.ids, scores)
        if one.progress.just_met:
            scores[self._terms.continuing] = -math.inf
        if one.progress.bank < self._all:
            scores[self._end_id] = -math.inf
        scores += one.score
        progress = one.progress.say_else()
        return [
            _Candidate(scores[token], one, token, progress, one.given)
            for token in self._rank(scores, 2 * self._width).tolist()
        ]

    def _finish(self, candidates: Sequence[_Candidate]) -> None:
        whole = [one for one in candidates if one.progress.bank == self._all]
        super()._finish(whole)
        self._finished.sort(key=_merit, reverse=True)

    def _cut(self) -> None:
        """The live ones come behind those that are whole, in the order of their terms."""
        whole, self._finished = self._finished, []
        self._live.sort(key=lambda one: (one.progress.met.bit_count(), one.score), reverse=True)
        super()._cut()
        self._finished = [*whole, *self._finished]

    def _choose(self, candidates: Sequence[_Candidate]) -> Sequence[_Candidate]:
        banks: list[list[_Candidate]] = [[] for _ in range(self._all + 1)]
        for one in candidates:
            banks[one.progress.bank].append(one)
        in_turn = [bank for bank in reversed(banks) if bank]
        chosen = [bank[turn] for turn in range(self._width) for bank in in_turn if turn < len(bank)]
        return sorted(chosen[: self._width], key=_total, reverse=True)

    def _is_enough(self) -> bool:
        # To wait for a full beam would be long: few of its rows may end.
        return self._are_beyond_reach(self._wanted, self.length)


def _merge(candidates: Sequence[_Candidate]) -> list[_Candidate]:
    """Those that differ, in their order: the same may be said as a term or by chance before it."""
    merged: dict[object, _Candidate] = {}
    for one in candidates:
        key = (one.parent.ids, one.token, one.progress.state)
        known = merged.setdefault(key, one)
        if known.progress.just_met and not one.progress.just_met:
            merged[key] = replace(known, progress=one.progress)
    return list(merged.values())


def _total(candidate: _Candidate) -> float:
    return float(candidate.score)


def _merit(finished: _Finished) -> float:
    return finished.merit
