"""Translations to score, and their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dragoman.kernel.manifest import AlignmentHeads
from dragoman_serving.engine.request_trace import RequestTrace

MOST_TOKENS = 1024
"""Limit of the tokens of a batch, with padding, on each side; it bounds the memory."""
_MOST_PADDED = 1.25
"""Limit of the ratio of padded to real tokens in a batch."""

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class TokenPair:
    """A source and its translation, as token ids.

    `src_ids` include tag and end symbol, `tgt_ids` have neither start nor end symbol. `complete`
    says whether the end symbol belongs to the translation. Waiting pairs of higher `priority` go
    first; a pair is cancelled after `deadline_s`, a time of `time.monotonic`. `trace` is that of
    its request, if it is traced.
    """

    src_ids: tuple[int, ...]
    tgt_ids: tuple[int, ...]
    complete: bool = True
    attention: bool = False
    """Whether the attention of the alignment heads is requested."""
    priority: int = 0
    deadline_s: float | None = None
    heads: bool = False
    """Whether the attention of every head is requested."""
    trace: RequestTrace | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Scored:
    """The scores of a pair.

    Attributes:
        log_probs: log-probabilities of the target's tokens, with the end symbol if the pair is
            complete.
        attention: [T, S], attention of each of the T tokens before the end symbol to each source
            id, tag and end symbol included; None if not requested.
        heads: weights [L, H, S, S], [L, H, N, N] and [L, H, N, S] of encoder, decoder and
            cross-attention, where N is T, or T + 1 for a complete pair; None if not requested.
    """

    log_probs: tuple[float, ...]
    attention: Floats | None = None
    heads: tuple[Floats, ...] | None = None


class PairScoring(Protocol):
    """Scores pairs in the calling thread."""

    def run(self, pairs: Sequence[TokenPair]) -> list[Scored]:
        """Score pairs of similar lengths as one batch, without `heads`."""
        ...


def attention_of_tokens(steps: Floats, heads: AlignmentHeads, tokens: int) -> Floats:
    """Returns the attention of each token of a translation to each source id.

    Args:
        steps: [N, S], the mean of the alignment heads at the steps that generate the tokens, and at
            the step for the end symbol, if there was one.
        heads: whether to use the step that generates a token, or the one that reads it.
        tokens: T, without the end symbol.

    Returns:
        [T, S].
    """
    if not heads.when_read:
        return steps[:tokens]
    if len(steps) == tokens:  # no step reads the last token, so use the step that generates it
        steps = np.concatenate([steps, steps[-1:]])
    return steps[1:]


def like_lengths(lengths: Sequence[tuple[int, int]]) -> list[slice]:
    """Split sorted pairs of lengths into batches with little padding.

    Each batch has a limited number of tokens per side, with padding, unless it is a single pair.
    """
    groups: list[slice] = []
    start = real = longest_tgt = longest_src = 0
    for index, (tgt, src) in enumerate(lengths):
        longest_tgt, longest_src = max(longest_tgt, tgt), max(longest_src, src)
        real += tgt + src
        pairs = index + 1 - start
        full = (
            pairs * max(longest_tgt, longest_src) > MOST_TOKENS
            or pairs * (longest_tgt + longest_src) > _MOST_PADDED * real
        )
        if full and pairs > 1:
            groups.append(slice(start, index))
            start, real, longest_tgt, longest_src = index, tgt + src, tgt, src
    return [*groups, slice(start, len(lengths))] if lengths else []
