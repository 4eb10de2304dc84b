"""Greedy and beam search in PyTorch: the oracle that says what the right tokens are.

Written for clarity alone: every step runs the decoder over the whole prefix, with no cache. The
serving engine is checked against this, token by token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from dragoman.kernel.hypothesis import Hypothesis
from dragoman.kernel.manifest import Limits
from dragoman.kernel.text import BEGIN_ID, END_ID, PAD_ID, Tokenizer
from dragoman_training.network.transformer import Transformer
from dragoman_training.text.examples import pad


@torch.no_grad()
def greedy_search(
    model: Transformer, src: Sequence[Sequence[int]], limits: Sequence[int]
) -> list[Hypothesis]:
    """Take the likeliest token at each step.

    Args:
        model: in evaluation mode.
        src: source ids a sentence, tag and end symbol included.
        limits: most tokens to generate a sentence, the end symbol included.

    Returns:
        One hypothesis a sentence.
    """
    device = model.embedding.weight.device
    src_ids = pad(src).to(device)  # [B, S]
    src_keep_mask = src_ids != PAD_ID
    memory = model.encode(src_ids, src_keep_mask)
    prefix = torch.full((len(src), 1), BEGIN_ID, device=device)  # [B, T]
    score = torch.zeros(len(src), device=device)
    limit = torch.tensor(limits, device=device)
    done = torch.zeros(len(src), dtype=torch.bool, device=device)
    complete = done.clone()
    lengths = torch.zeros(len(src), dtype=torch.int64, device=device)
    while not done.all():
        logits = model.project(model.decode(prefix, memory, src_keep_mask)[:, -1])  # [B, V]
        best_score, best_id = logits.log_softmax(dim=-1).max(dim=-1)
        score += best_score.masked_fill(done, 0.0)
        complete |= ~done & (best_id == END_ID)
        lengths += (~done & (best_id != END_ID)).long()
        done |= complete | (prefix.size(1) >= limit)
        prefix = torch.cat((prefix, best_id[:, None]), dim=1)
    return [
        Hypothesis(tuple(row[1 : 1 + length].tolist()), total, whole)
        for row, length, total, whole in zip(
            prefix, lengths.tolist(), score.tolist(), complete.tolist(), strict=True
        )
    ]


@torch.no_grad()
def beam_search(
    model: Transformer,
    src: Sequence[Sequence[int]],
    limits: Sequence[int],
    beam_width: int,
    alpha: float,
) -> list[Hypothesis]:
    """Keep the best few prefixes at each step.

    Of the 2W best continuations of W live prefixes, those among the first W that end are finished;
    the first W that do not end live on. A sentence is done once W have finished, or at its limit,
    where the live ones count as they are. The best score over its length penalty wins.

    Args:
        model: in evaluation mode.
        src: source ids a sentence, tag and end symbol included.
        limits: most tokens to generate a sentence, the end symbol included.
        beam_width: W.
        alpha: exponent of the length penalty.

    Returns:
        The best hypothesis of each sentence.
    """
    return [found[0] for found in n_best_search(model, src, limits, beam_width, alpha)]


@torch.no_grad()
def n_best_search(
    model: Transformer,
    src: Sequence[Sequence[int]],
    limits: Sequence[int],
    beam_width: int,
    alpha: float,
) -> list[list[Hypothesis]]:
    """As `beam_search`: all that each sentence's search finished, best first, at least W."""
    return [
        _beam_search_one(model, ids, limit, beam_width, alpha)
        for ids, limit in zip(src, limits, strict=True)
    ]


def _beam_search_one(
    model: Transformer, src: Sequence[int], limit: int, beam_width: int, alpha: float
) -> list[Hypothesis]:
    device = model.embedding.weight.device
    src_ids = torch.tensor([list(src)], device=device)  # [1, S]
    src_keep_mask = torch.ones_like(src_ids, dtype=torch.bool)
    memory = model.encode(src_ids, src_keep_mask)
    live = torch.full((1, 1), BEGIN_ID, device=device)  # [W, T], one row at first
    live_score = torch.zeros(1, device=device)
    finished: list[Hypothesis] = []
    for _ in range(1, limit + 1):
        rows = live.size(0)
        hidden = model.decode(live, memory.expand(rows, -1, -1), src_keep_mask.expand(rows, -1))
        log_probs = model.project(hidden[:, -1]).log_softmax(dim=-1)  # [W, V]
        vocab_size = log_probs.size(1)
        total = (live_score[:, None] + log_probs).flatten()  # [W * V]
        best, index = total.topk(min(2 * beam_width, len(total)))
        parent, token = index // vocab_size, index % vocab_size
        ends = token == END_ID
        for rank in range(min(beam_width, len(best))):
            if ends[rank]:
                ids = tuple(live[parent[rank], 1:].tolist())
                score = best[rank].item()
                finished.append(Hypothesis(ids, score, complete=True))
        goes_on = (~ends).nonzero()[:beam_width, 0]
        live = torch.cat((live[parent[goes_on]], token[goes_on, None]), dim=1)
        live_score = best[goes_on]
        if len(finished) >= beam_width:
            break
    else:
        for row, score in zip(live[:, 1:].tolist(), live_score.tolist(), strict=True):
            finished.append(Hypothesis(tuple(row), score, complete=False))
    return sorted(finished, key=lambda one: one.score(alpha), reverse=True)


@dataclass(frozen=True)
class Translator:
    """A model, its vocabulary and its limits, as a function from text to text."""

    model: Transformer
    tokenizer: Tokenizer
    limits: Limits
    beam_width: int = 4
    alpha: float | None = None
    """Exponent of the length penalty; None: that of the limits."""
    batch_size: int = 32

    def translate(self, texts: Sequence[str], target_language: str) -> list[Hypothesis]:
        """Translate texts, those of like length together, in the order given.

        Raises:
            UsageError: the vocabulary has no tag for the language.
        """
        src = [self.tokenizer.encode_source(text, target_language) for text in texts]
        order = sorted(range(len(src)), key=lambda index: len(src[index]))
        alpha = self.limits.length_penalty if self.alpha is None else self.alpha
        found: dict[int, Hypothesis] = {}
        for start in range(0, len(order), self.batch_size):
            chosen = order[start : start + self.batch_size]
            batch = [src[index] for index in chosen]
            limits = [self.limits.target_tokens(len(ids)) for ids in batch]
            if self.beam_width == 1:
                hypotheses = greedy_search(self.model, batch, limits)
            else:
                hypotheses = beam_search(self.model, batch, limits, self.beam_width, alpha)
            found.update(zip(chosen, hypotheses, strict=True))
        return [found[index] for index in range(len(src))]
