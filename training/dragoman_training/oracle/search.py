"""Greedy, beam and sampling search in PyTorch: the oracle that defines the correct tokens.

Written for clarity: every step runs the decoder over the whole prefix, without a cache, and each
option is applied token by token. Tests compare the serving engine with this, token by token.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np
import torch
from torch import Tensor

from dragoman.kernel.hypothesis import Hypothesis, length_penalty
from dragoman.kernel.manifest import Limits
from dragoman.kernel.text import BEGIN_ID, END_ID, PAD_ID, Tokenizer
from dragoman_training.network.transformer import Transformer
from dragoman_training.oracle.constraints import Options, constrain
from dragoman_training.text.examples import pad


@dataclass(frozen=True)
class _Live:
    """A hypothesis in the beam, or a continuation of one, which may have ended."""

    ids: tuple[int, ...] = ()
    score: float = 0.0
    """Sum of log-probabilities."""


@dataclass(frozen=True)
class _Finished:
    hypothesis: Hypothesis
    merit: float
    """The score that ranks hypotheses."""


Search = Generator[list[_Live], Tensor, list[Hypothesis]]
"""The search for one sentence, step by step: yields W hypotheses, receives the log-probabilities
[W, V] of their next tokens, and returns the results, best first."""


@torch.no_grad()
def search(
    model: Transformer, src: Sequence[Sequence[int]], limits: Sequence[int], options: Options
) -> list[list[Hypothesis]]:
    """Translate sentences by search; they step together.

    Args:
        model: in evaluation mode.
        src: source ids of each sentence, tag and end symbol included.
        limits: maximum tokens to generate for each sentence, the end symbol included.
        options: of every search.

    Returns:
        The hypotheses of each sentence, best first.
    """
    device = model.embedding.weight.device
    src_ids = pad(src).to(device)  # [B, S]
    src_keep_mask = src_ids != PAD_ID
    memory = model.encode(src_ids, src_keep_mask)
    begin = _sample if options.sampling else _beam
    searches = [begin(limit, options) for limit in limits]
    live = [next(running) for running in searches]
    finished: dict[int, list[Hypothesis]] = {}
    while len(finished) < len(src):
        rows = torch.tensor([i for i, beam in enumerate(live) for _ in beam], device=device)  # [R]
        prefixes = [[BEGIN_ID, *hypothesis.ids] for beam in live for hypothesis in beam]
        tgt_ids = torch.tensor(prefixes, device=device)  # [R, T]
        hidden = model.decode(tgt_ids, memory[rows], src_keep_mask[rows])
        log_probs = model.project(hidden[:, -1]).log_softmax(dim=-1)  # [R, V]
        for i, of_beam in enumerate(torch.split(log_probs, list(map(len, live)))):
            try:
                live[i] = searches[i].send(of_beam)
            except StopIteration as done:
                # Its rows stay: with fewer rows, the others' scores may differ in their last bits.
                finished.setdefault(i, done.value)
                live[i] = [
                    replace(hypothesis, ids=(*hypothesis.ids, PAD_ID)) for hypothesis in live[i]
                ]
    return [finished[i] for i in range(len(src))]


def greedy_search(
    model: Transformer, src: Sequence[Sequence[int]], limits: Sequence[int]
) -> list[Hypothesis]:
    """The most probable token at each step; arguments as for `search`, one hypothesis each."""
    return [
        hypotheses[0] for hypotheses in search(model, src, limits, Options(beam_width=1, alpha=0.0))
    ]


def beam_search(
    model: Transformer,
    src: Sequence[Sequence[int]],
    limits: Sequence[int],
    beam_width: int,
    alpha: float,
) -> list[Hypothesis]:
    """The best hypothesis of each sentence's beam search; arguments as for `search`."""
    options = Options(beam_width, alpha)
    # One by one, since padding may change the last bits of scores.
    return [
        search(model, [ids], [limit], options)[0][0] for ids, limit in zip(src, limits, strict=True)
    ]


def draw(scores: torch.Tensor, options: Options, number: float) -> int:
    """Sample a token: the first at which the cumulative probability, by id, exceeds a number.

    A token is in the smallest set of `top_p` if those before it, in the order of their
    probabilities, have less than that. If it is not, another one is drawn from those before it.

    Args:
        scores: [V], log-probabilities up to a constant.
        options: options of sampling.
        number: random number from 0 to 1, a multiple of 2^-53.
    """
    order = _best(scores, options.top_k or len(scores))
    probs = (scores[order].double() / options.temperature).softmax(dim=0)
    before = probs.cumsum(0) - probs
    while True:
        places = order.argsort()
        cumulative = probs[places].cumsum(0)
        index = int((cumulative <= number * cumulative[-1]).sum())
        place = int(places[min(index, len(order) - 1)])
        if options.top_p is None or before[place] < options.top_p:
            return int(order[place])
        order, probs = order[:place], probs[:place]
        number = _next_number(number)


def _next_number(number: float) -> float:
    """The next random number (SplitMix64, https://doi.org/10.1145/2660193.2660195)."""
    bits = (int(number * 2**53) + 0x9E3779B97F4A7C15) % 2**64
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB % 2**64
    return ((bits ^ bits >> 31) >> 11) / 2**53


def _sample(limit: int, options: Options) -> Search:
    """Sample each token."""
    numbers = np.random.Generator(np.random.Philox(options.seed))
    ids: tuple[int, ...] = ()
    log_prob, complete = 0.0, False
    while len(ids) < limit and not complete:
        (log_probs,) = yield [_Live(ids)]
        scores = constrain(log_probs, ids, options)
        token = draw(scores, options, numbers.random())
        log_prob += scores[token].item()
        complete = token == END_ID
        if not complete:
            ids = (*ids, token)
    return [Hypothesis(ids, log_prob, complete)]


def _beam(limit: int, options: Options) -> Search:
    """Keep the W best prefixes at each step.

    Of the 2W best continuations, those among the first W that end are finished; the first W that do
    not end stay in the beam. At the limit, or if all tokens are forbidden before any hypothesis has
    finished, the hypotheses in the beam count as they are.
    """
    width, alpha = options.beam_width, options.alpha
    live = [_Live()]
    finished: list[_Finished] = []
    for _ in range(limit):
        continuations = _continuations(live, (yield live), options)
        if not continuations and not finished:
            break  # all tokens are forbidden
        finished += [
            _finish(hypothesis, alpha)
            for hypothesis in continuations[:width]
            if hypothesis.ids[-1] == END_ID
        ]
        live = [hypothesis for hypothesis in continuations if hypothesis.ids[-1] != END_ID][:width]
        if not live or _is_enough(finished, live, limit, options):
            return _ranked(finished)
    return _ranked([*finished, *(_finish(hypothesis, alpha) for hypothesis in live)])


def _continuations(live: Sequence[_Live], log_probs: Tensor, options: Options) -> list[_Live]:
    """The best continuations, best first."""
    continuations: list[_Live] = []
    for hypothesis, raw in zip(live, log_probs, strict=True):
        scores = constrain(raw, hypothesis.ids, options)
        # No more than these can stay in the beam, or end.
        tokens = _best(scores, 2 * options.beam_width)
        totals = (scores[tokens] + hypothesis.score).tolist()
        continuations += [
            _Live((*hypothesis.ids, token), total)
            for token, total in zip(tokens.tolist(), totals, strict=True)
        ]
    return sorted(continuations, key=attrgetter("score"), reverse=True)


def _best(scores: Tensor, count: int) -> Tensor:
    """Indices of the `count` highest scores [V], best first; ties by index; none of -inf."""
    least = scores.topk(min(count, len(scores))).values[-1]
    candidates = ((scores >= least) & (scores > -math.inf)).nonzero()[:, 0]
    return candidates[scores[candidates].argsort(descending=True, stable=True)[:count]]


def _finish(live: _Live, alpha: float) -> _Finished:
    complete = live.ids[-1:] == (END_ID,)
    ids = live.ids[:-1] if complete else live.ids
    hypothesis = Hypothesis(ids, live.score, complete)
    return _Finished(hypothesis, live.score / length_penalty(len(live.ids), alpha))


def _is_enough(
    finished: Sequence[_Finished], live: Sequence[_Live], limit: int, options: Options
) -> bool:
    if options.early_stopping:
        enough = max(math.ceil(options.patience * options.beam_width), options.hypotheses)
        return len(finished) >= enough
    kept = max(options.beam_width, options.hypotheses)
    if len(finished) < kept:
        return False
    # The best score that a hypothesis in the beam can still reach.
    penalty = length_penalty(limit, options.alpha)
    worst = sorted((hypothesis.merit for hypothesis in finished), reverse=True)[kept - 1]
    return max(hypothesis.score for hypothesis in live) / penalty <= worst


def _ranked(finished: Sequence[_Finished]) -> list[Hypothesis]:
    best = sorted(finished, key=attrgetter("merit"), reverse=True)
    return [candidate.hypothesis for candidate in best]


@dataclass(frozen=True)
class Translator:
    """A model, its vocabulary and its limits, as a function from text to text."""

    model: Transformer
    tokenizer: Tokenizer
    limits: Limits
    beam_width: int = 4
    alpha: float | None = None
    """Exponent of the length penalty; None: the limits' default."""
    batch_size: int = 32

    def translate(self, texts: Sequence[str], target_language: str) -> list[Hypothesis]:
        """Translate texts, batched by length; results in the order given.

        Raises:
            UsageError: the vocabulary has no tag for the language.
        """
        src = [self.tokenizer.encode_source(text, target_language) for text in texts]
        order = sorted(range(len(src)), key=lambda index: len(src[index]))
        alpha = self.limits.length_penalty if self.alpha is None else self.alpha
        by_index: dict[int, Hypothesis] = {}
        for start in range(0, len(order), self.batch_size):
            chosen = order[start : start + self.batch_size]
            batch = [src[index] for index in chosen]
            limits = [self.limits.target_tokens(len(ids)) for ids in batch]
            if self.beam_width == 1:
                hypotheses = greedy_search(self.model, batch, limits)
            else:
                hypotheses = beam_search(self.model, batch, limits, self.beam_width, alpha)
            by_index.update(zip(chosen, hypotheses, strict=True))
        return [by_index[index] for index in range(len(src))]
