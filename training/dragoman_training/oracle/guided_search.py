"""Searches that heed more than the model's scores: the oracle for each of a request's options.

As in `dragoman_training.oracle.search`, every step runs the decoder over the whole prefix, and what
is forbidden is found by looking at each token in turn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

import numpy as np
import torch
from torch import Tensor

from dragoman.kernel.hypothesis import Hypothesis, length_penalty
from dragoman.kernel.text import BEGIN_ID, END_ID
from dragoman_training.network.transformer import Transformer


@dataclass(frozen=True)
class Wishes:
    """What a search shall heed. `pieces` [V] are the vocabulary's, for what is said of words."""

    beam_width: int = 4
    alpha: float = 0.6
    hypotheses: int = 1
    patience: float = 1.0
    early_stopping: bool = True
    prefix: tuple[int, ...] = ()
    min_tokens: int = 0
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int | None = None
    suppressed: tuple[str, ...] = ()
    terms: tuple[tuple[int, ...], ...] = ()
    after: tuple[int | None, ...] = ()
    """Of each term, which other one must stand before it."""
    pieces: tuple[str, ...] = field(default=(), repr=False)
    sampling: bool = False
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    numbers: tuple[int, ...] = (0,)
    """The seed."""


@dataclass(frozen=True)
class _State:
    """How far a hypothesis has come with its terms."""

    met: frozenset[int] = frozenset()
    """Those that were said."""
    saying: tuple[int, int] | None = None
    """A term, and how many of its tokens were said."""
    just_met: bool = False


_NOTHING_SAID = _State()


@dataclass(frozen=True)
class _Live:
    ids: tuple[int, ...]
    score: float
    """What it is compared by: without the tokens of its terms behind the first of each."""
    state: _State = _NOTHING_SAID
    given: float = 0.0
    """Score of those."""


@dataclass(frozen=True)
class _Finished:
    hypothesis: Hypothesis
    merit: float


def _finished(ids: tuple[int, ...], one: _Live, penalty: float, complete: bool) -> _Finished:
    return _Finished(Hypothesis(ids, one.score + one.given, complete), one.score / penalty)


NextScores = Callable[[Sequence[_Live]], Tensor]
"""Log-probabilities [W, V] of what comes after W hypotheses."""


@torch.no_grad()
def guided_search(
    model: Transformer, src: Sequence[int], limit: int, wishes: Wishes
) -> list[Hypothesis]:
    """Search one sentence's translation.

    Args:
        model: in evaluation mode.
        src: source ids, tag and end symbol included.
        limit: most tokens to generate, the end symbol included.
        wishes: what to heed.

    Returns:
        What was found, best first.
    """
    device = model.embedding.weight.device
    src_ids = torch.tensor([list(src)], device=device)  # [1, S]
    keep = torch.ones_like(src_ids, dtype=torch.bool)
    memory = model.encode(src_ids, keep)

    def next_scores(live: Sequence[_Live]) -> Tensor:
        tgt = torch.tensor([[BEGIN_ID, *one.ids] for one in live], device=device)  # [W, T]
        rows = len(live)
        hidden = model.decode(tgt, memory.expand(rows, -1, -1), keep.expand(rows, -1))
        return model.project(hidden[:, -1]).log_softmax(dim=-1)  # [W, V]

    if wishes.sampling:
        return [_sample(next_scores, limit, wishes)]
    return _beam(next_scores, limit, wishes)


def heed(log_probs: Tensor, said: tuple[int, ...], wishes: Wishes) -> Tensor:
    """Scores [V] of what may come after these tokens: -inf where it may not."""
    scores = log_probs.clone()
    if len(said) < len(wishes.prefix):
        wanted = wishes.prefix[len(said)]
        scores.fill_(-math.inf)
        scores[wanted] = log_probs[wanted]
        return scores
    for token in set(said):
        scores[token] *= wishes.repetition_penalty
    if n := wishes.no_repeat_ngram_size:
        for *beginning, token in (said[i : i + n] for i in range(len(said) - n + 1)):
            if tuple(beginning) == said[len(said) - n + 1 :]:
                scores[token] = -math.inf
    if wishes.suppressed:
        text = "".join(wishes.pieces[i] for i in said)
        for token, piece in enumerate(wishes.pieces):
            if piece and any(_ends_in(text + piece, word) for word in wishes.suppressed):
                scores[token] = -math.inf
    if len(said) < wishes.min_tokens:
        scores[END_ID] = -math.inf
    return scores


def _ends_in(text: str, word: str) -> bool:
    """Whether text in pieces ends in a word, or in several, from the word's beginning on."""
    written = text.replace("▁", " ")
    if not written.endswith(word):
        return False
    before = written[: len(written) - len(word)]
    return not before[-1:].isalnum()


def _sample(next_scores: NextScores, limit: int, wishes: Wishes) -> Hypothesis:
    numbers = np.random.Generator(np.random.Philox(wishes.numbers))
    ids: tuple[int, ...] = ()
    score, complete = 0.0, False
    while len(ids) < limit and not complete:
        scores = heed(next_scores([_Live(ids, 0.0)])[0], ids, wishes)
        order = scores.argsort(descending=True, stable=True)
        order = order[scores[order] > -math.inf][: wishes.top_k]
        chances = (scores[order].double() / wishes.temperature).softmax(dim=0)
        if wishes.top_p is not None:
            # The fewest that have so much together: all whose predecessors have less.
            order = order[chances.cumsum(0) - chances < wishes.top_p]
        order, _ = order.sort()
        chances = (scores[order].double() / wishes.temperature).softmax(dim=0)
        place = int((chances.cumsum(0) <= numbers.random()).sum())
        token = int(order[min(place, len(order) - 1)])
        score += scores[token].item()
        complete = token == END_ID
        if not complete:
            ids = (*ids, token)
    return Hypothesis(ids, score, complete)


def _beam(next_scores: NextScores, limit: int, wishes: Wishes) -> list[Hypothesis]:
    width, terms = wishes.beam_width, len(wishes.terms)
    live = [_Live((), 0.0)]
    finished: list[_Finished] = []
    for length in range(1, limit + 1):
        found = _continuations(live, next_scores(live), wishes)
        if not terms:
            found = found[: 2 * width]
        penalty = length_penalty(length, wishes.alpha)
        whole = [one for one in found if _begun(one) == terms]
        finished += [
            _finished(one.ids[:-1], one, penalty, complete=True)
            for one in whole[:width]
            if one.ids[-1] == END_ID
        ]
        live = _share([one for one in found if one.ids[-1] != END_ID], width, terms)
        if not live or _is_enough(finished, live, length, limit, wishes):
            return _ranked(finished)
    penalty = length_penalty(limit, wishes.alpha)
    if not terms:
        cut = [_finished(one.ids, one, penalty, complete=False) for one in live]
        return _ranked([*finished, *cut])
    by_terms = sorted(live, key=lambda one: (len(one.state.met), one.score), reverse=True)
    cut = [_finished(one.ids, one, penalty, complete=False) for one in by_terms]
    return [*_ranked(finished), *(one.hypothesis for one in cut)]


def _continuations(live: Sequence[_Live], log_probs: Tensor, wishes: Wishes) -> list[_Live]:
    """All that may come next, best first."""
    found: list[_Live] = []
    for one, raw in zip(live, log_probs, strict=True):

        def said(token: int, scores: Tensor, state: _State, one: _Live = one) -> _Live:
            total = (scores.new_tensor(one.score) + scores[token]).item()
            return _Live((*one.ids, token), total, state, one.given)

        if one.state.saying is not None:
            term, place = one.state.saying
            token, state = wishes.terms[term][place], _after(one.state, wishes)
            given = (raw.new_tensor(one.given) + raw[token]).item()
            found.append(_Live((*one.ids, token), one.score, state, given))
            continue
        scores = heed(raw, one.ids, wishes)
        if len(one.state.met) < len(wishes.terms):
            scores[END_ID] = -math.inf
        if one.state.just_met:
            for token, piece in enumerate(wishes.pieces):
                if _continues_a_word(piece):
                    scores[token] = -math.inf
        # No more than these can live on, or end.
        for token in scores.argsort(descending=True, stable=True)[: 2 * wishes.beam_width].tolist():
            if scores[token] > -math.inf:
                found.append(said(token, scores, _State(one.state.met)))
        if len(one.ids) >= len(wishes.prefix):
            left = [term for term in range(len(wishes.terms)) if term not in one.state.met]
            for term in left:
                if wishes.after and wishes.after[term] in left:
                    continue
                if wishes.terms[term] not in [wishes.terms[i] for i in left if i < term]:
                    beginning = _State(one.state.met, (term, 0))
                    found.append(said(wishes.terms[term][0], raw, _after(beginning, wishes)))
    return _without_equals(sorted(found, key=lambda one: one.score, reverse=True))


def _without_equals(found: Sequence[_Live]) -> list[_Live]:
    """Of those that say the same and have the same to say, the best; free to go on if any is."""
    groups: dict[object, list[_Live]] = {}
    for one in found:
        groups.setdefault((one.ids, one.state.met, one.state.saying), []).append(one)
    freest = (
        min((one.state for one in group), key=attrgetter("just_met")) for group in groups.values()
    )
    best = (group[0] for group in groups.values())
    return [replace(one, state=state) for one, state in zip(best, freest, strict=True)]


def _after(state: _State, wishes: Wishes) -> _State:
    """When the next token of the term was said."""
    assert state.saying is not None
    term, said = state.saying
    if said + 1 == len(wishes.terms[term]):
        return _State(state.met | {term}, just_met=True)
    return _State(state.met, (term, said + 1))


def _continues_a_word(piece: str) -> bool:
    return piece[:1].isalnum()


def _begun(one: _Live) -> int:
    return len(one.state.met) + (one.state.saying is not None)


def _share(found: Sequence[_Live], width: int, terms: int) -> list[_Live]:
    """Those that live on: the best, in turn of those that have begun most terms, fewer, none."""
    banks = [[one for one in found if _begun(one) == n] for n in range(terms, -1, -1)]
    in_turn = [bank[turn] for turn in range(width) for bank in banks if turn < len(bank)]
    return sorted(in_turn[:width], key=lambda one: one.score, reverse=True)


def _is_enough(
    finished: Sequence[_Finished],
    live: Sequence[_Live],
    length: int,
    limit: int,
    wishes: Wishes,
) -> bool:
    if not wishes.terms and wishes.early_stopping:
        wanted = max(math.ceil(wishes.patience * wishes.beam_width), wishes.hypotheses)
        return len(finished) >= wanted
    kept = wishes.hypotheses if wishes.terms else max(wishes.beam_width, wishes.hypotheses)
    if len(finished) < kept:
        return False
    reach = length_penalty(length if wishes.terms else limit, wishes.alpha)
    worst = sorted((one.merit for one in finished), reverse=True)[kept - 1]
    return max(one.score for one in live) / reach <= worst


def _ranked(found: Sequence[_Finished]) -> list[Hypothesis]:
    best = sorted(found, key=lambda one: one.merit, reverse=True)
    return [one.hypothesis for one in best]
