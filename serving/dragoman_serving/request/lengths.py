"""How many tokens a translation may have, and must have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.kernel.manifest import Limits
from dragoman_serving.request.options import RequestOptions


@dataclass
class Lengths:
    """Bounds of a translation's length; a ratio is tokens for each token of the text."""

    options: RequestOptions
    limits: Limits
    specials: int
    """Source ids that are no text: the tag, if there are any, and the end symbol."""

    def most(self, src_ids: Sequence[int], given: int = 0) -> int:
        """The most tokens of a translation, of which so many are given."""
        options = self.options
        if options.max_tokens is not None:
            return options.max_tokens
        if options.max_length_ratio is not None:
            most = max(int(self._times(options.max_length_ratio, src_ids)), 1) + 1  # the end symbol
        else:
            most = self.limits.target_tokens(len(src_ids)) + given
            most = max(most, self.fewest(src_ids) + 1)
        return min(most, self.limits.max_target_tokens)

    def fewest(self, src_ids: Sequence[int]) -> int:
        """The fewest tokens of a translation."""
        least, ratio = self.options.min_tokens or 0, self.options.min_length_ratio
        return least if ratio is None else max(least, math.ceil(self._times(ratio, src_ids)))

    def _times(self, ratio: float, src_ids: Sequence[int]) -> float:
        # Ratios come as fp32, and 0.3 of 10 is to be 3 all the same.
        return round(ratio * (len(src_ids) - self.specials), 4)
