"""The model's soft alignment of a sentence and its translation, by subword tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from dragoman_options.markup import Span

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Evidence:
    """The soft alignment of one sentence pair.

    Attributes:
        weights: [T, S], how much each target token attended to each source token.
        source: spans of the S source tokens in the source text.
        target: spans of the T target tokens in the target text.
        reverse: [S, T], the weights of the other direction: the source scored as a translation of
            the target; None if the bundle does not have that direction.
    """

    weights: Floats
    source: Sequence[Span]
    target: Sequence[Span]
    reverse: Floats | None = None
