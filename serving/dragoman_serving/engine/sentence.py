"""The input of the engine: sentences and their search options."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from dragoman_serving.engine.constraints import Constraints
from dragoman_serving.engine.request_trace import RequestTrace


@dataclass(frozen=True)
class SearchOptions:
    """Search options of one sentence.

    `beam_width` 1 is greedy search. `length_penalty` is the exponent of Wu et al. 2016, equation
    14. `hypotheses` is the requested number of translations, at most `beam_width`. `token_scores`
    and `alignment` request each token's log-probability, and the attention of the steps that
    generate them; a runtime that cannot provide them leaves them out. `shortlist` limits the scores
    to the sentence's shortlist; the runtime and the model must support it. `alternatives` are
    ranks, from 0, of the tokens after the prefix: a separate search continues each of these tokens,
    and their results are the `hypotheses`. They exclude sampling.
    """

    beam_width: int = 4
    length_penalty: float = 0.6
    hypotheses: int = 1
    constraints: Constraints | None = None
    token_scores: bool = False
    alignment: bool = False
    shortlist: bool = False
    alternatives: range = range(0)

    @cached_property
    def searches(self) -> int:
        """Number of searches of the sentence."""
        return max(1, len(self.alternatives))

    @cached_property
    def rows(self) -> int:
        """Rows of all its searches."""
        return self.beam_width * self.searches


@dataclass  # not frozen: that is three times slower, and there is one for each sentence
class Sentence:
    """Source ids, tag and end symbol included, and the maximum number of tokens to generate.

    Waiting sentences of higher `priority` go first. A sentence is cancelled after `deadline_s`, a
    time of `time.monotonic`. `trace` is that of its request, if it is traced.
    """

    src_ids: tuple[int, ...]
    max_tokens: int
    options: SearchOptions
    priority: int = 0
    deadline_s: float | None = None
    trace: RequestTrace | None = field(default=None, compare=False, repr=False)
