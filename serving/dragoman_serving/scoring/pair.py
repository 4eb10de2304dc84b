"""Given translations to be scored, and what scoring them tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dragoman.kernel.manifest import AlignmentHeads
from dragoman_serving.engine.request_trace import RequestTrace

MOST_TOKENS = 1024
"""Of pairs that are scored together, with padding, on each side: it bounds their memory."""
_MOST_PADDED = 1.25
"""Padded over real tokens that they may have."""

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Pair:
    """A source and a translation of it, as token ids.

    `src_ids` are with tag and end symbol, `tgt_ids` without start and end symbol. `complete` says
    whether the end symbol belongs to the translation. Of two that wait, the one of higher
    `priority` goes first; after `deadline_s`, on the clock of `time.monotonic`, nobody wants it.
    `trace` is that of its request, if it is traced.
    """

    src_ids: tuple[int, ...]
    tgt_ids: tuple[int, ...]
    complete: bool = True
    attention: bool = False
    """Whether the attention of the heads that align is requested."""
    priority: int = 0
    deadline_s: float | None = None
    heads: bool = False
    """Whether that of every head is requested."""
    trace: RequestTrace | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Scored:
    """What the model tells of a pair.

    Attributes:
        log_probs: of the target's tokens, the end symbol's at the end if the pair is complete.
        attention: [T, S], how much each of the T tokens before the end symbol attended to each
            source id, tag and end symbol included; None if it was not requested.
        heads: weights [L, H, S, S], [L, H, N, N] and [L, H, N, S] of encoder, decoder and
            cross-attention, where N is T, and one more of a complete pair; None if not requested.
    """

    log_probs: tuple[float, ...]
    attention: Floats | None = None
    heads: tuple[Floats, ...] | None = None


class PairScoring(Protocol):
    """Scores pairs on the thread that asks."""

    def run(self, pairs: Sequence[Pair]) -> list[Scored]:
        """Score pairs together, of like lengths; `heads` are left out."""
        ...


def attention_of_tokens(steps: Floats, heads: AlignmentHeads, tokens: int) -> Floats:
    """How much each token of a translation attended to each source id.

    Args:
        steps: [N, S], the mean of the heads that align, at the steps that generate the tokens, and
            the end symbol behind them if there was such a step.
        heads: which step tells of a token: the one that generates it, or the one that reads it.
        tokens: T, without the end symbol.

    Returns:
        [T, S].
    """
    if not heads.when_read:
        return steps[:tokens]
    if len(steps) == tokens:  # no step reads the last token: the one that generates it is nearest
        steps = np.concatenate([steps, steps[-1:]])
    return steps[1:]


def like_lengths(lengths: Sequence[tuple[int, int]]) -> list[slice]:
    """Cut pairs of lengths, sorted, into groups that waste little when each is padded by itself.

    No group has more than a bounded number of tokens on a side, with padding, unless it is of one.
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
