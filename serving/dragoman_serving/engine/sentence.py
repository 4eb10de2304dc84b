"""What goes into the engine."""

from __future__ import annotations

from dataclasses import dataclass, field

from dragoman_serving.engine.constraints import Constraints
from dragoman_serving.engine.request_trace import RequestTrace


@dataclass(frozen=True)
class SearchOptions:
    """How to search for one sentence's translation.

    `beam_width` 1 is greedy search. `length_penalty` is the exponent of Wu et al. 2016, equation
    14. `hypotheses` is how many are wanted, at most `beam_width`. `token_scores` and `alignment`
    request each token's log-probability, and the attention of the steps that generate them, which a
    runtime that does not know it leaves out. `shortlist` computes the scores of the sentence's
    shortlist alone, which takes a runtime and a model that have one. `alternatives` are ranks, from
    0, of the tokens behind the prefix: behind each of these tokens a search goes on by itself, and
    all they find are the `hypotheses`. Not with sampling or terms.
    """

    beam_width: int = 4
    length_penalty: float = 0.6
    hypotheses: int = 1
    constraints: Constraints | None = None
    token_scores: bool = False
    alignment: bool = False
    shortlist: bool = False
    alternatives: range = range(0)

    @property
    def searches(self) -> int:
        """Searches of the sentence."""
        return max(1, len(self.alternatives))

    @property
    def rows(self) -> int:
        """Rows that all its searches have."""
        return self.beam_width * self.searches


@dataclass(frozen=True)
class Sentence:
    """Source ids, tag and end symbol included, and the most tokens to generate for them.

    Of two that wait, the one of higher `priority` goes first. `deadline_s`, on the clock of
    `time.monotonic`, is when nobody wants the translation any more. `trace` is that of its request,
    if it is traced.
    """

    src_ids: tuple[int, ...]
    max_tokens: int
    options: SearchOptions
    priority: int = 0
    deadline_s: float | None = None
    trace: RequestTrace | None = field(default=None, compare=False, repr=False)
