"""Minimum and maximum number of tokens of a translation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dragoman_options.arguments import OptionArguments

from dragoman.kernel.manifest import Limits

_WORD_TOKENS = 3
"""The translation of a text of so few tokens has at least one: that of a single word often had
none."""


@dataclass
class Lengths:
    """Limits of a translation's length. Ratios are target tokens per token of the text."""

    max_tokens: int | None
    min_tokens: int
    max_ratio: float | None
    min_ratio: float
    limits: Limits
    specials: int
    """Number of special source ids: the tag, if there are tags, and the end symbol."""

    @classmethod
    def of(cls, options: OptionArguments, limits: Limits, specials: int) -> Lengths:
        """Make the limits from a request's options."""
        return cls(
            options.get("max_tokens"),
            options.get("min_tokens") or 0,
            options.get("max_length_ratio"),
            options.get("min_length_ratio") or 0.0,
            limits,
            specials,
        )

    def most(self, src_ids: Sequence[int], given: int = 0) -> int:
        """Returns the maximum number of tokens; `given` of them are prescribed by the request."""
        if self.max_tokens is not None:
            return self.max_tokens
        if self.max_ratio is not None:
            most = max(int(self._times(self.max_ratio, src_ids)), 1) + 1  # the end symbol
        else:
            most = self.limits.target_tokens(len(src_ids)) + given
            most = max(most, self.fewest(src_ids) + 1)
        return min(most, self.limits.max_target_tokens)

    def fewest(self, src_ids: Sequence[int]) -> int:
        """Returns the minimum number of tokens."""
        fewest = max(self.min_tokens, int(len(src_ids) - self.specials <= _WORD_TOKENS))
        if not self.min_ratio:
            return fewest
        return max(fewest, math.ceil(self._times(self.min_ratio, src_ids)))

    def _times(self, ratio: float, src_ids: Sequence[int]) -> float:
        # Ratios arrive as fp32; rounding makes 0.3 times 10 exactly 3.
        return round(ratio * (len(src_ids) - self.specials), 4)
