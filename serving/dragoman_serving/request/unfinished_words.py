"""Prefixes that end inside a word: lets the model complete the word with its usual tokens.

`Ich möch` has the tokens `▁Ich`, `▁mö` and `ch`, but `möchte` is one token, so a search that kept
all three would seldom find it. Instead, the last tokens are left out, and the first token after the
others must begin with their text.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice, takewhile

import numpy as np
import numpy.typing as npt

_SPACE = "▁"


def unfinished_word(
    prefix: Sequence[int], pieces: tuple[str, ...]
) -> tuple[tuple[int, ...], npt.NDArray[np.float32]] | None:
    """Returns how to complete the last word of a prefix; None if no token continues it.

    Args:
        prefix: tokens of a translation's beginning, the last one of text that ends with a letter.
        pieces: the vocabulary [V].

    Returns:
        The tokens to keep, and an array [V]: -inf for tokens that must not follow them directly,
        and 0 for others. It is shared, and must not be changed.
    """
    texts = [pieces[token] for token in prefix]
    begin = max((at for at, text in enumerate(texts) if text[:1] == _SPACE), default=0)
    for kept in range(begin, len(texts)):
        not_first = _not_first("".join(texts[kept:]), pieces)
        if not_first is not None:
            return tuple(prefix[:kept]), not_first
    return None


@lru_cache(maxsize=256)
def _not_first(text: str, pieces: tuple[str, ...]) -> npt.NDArray[np.float32] | None:
    """The array for tokens that begin with a text; None if no token continues it with a letter."""
    ordered = _sorted(pieces)
    first = bisect_left(ordered, (text, -1))
    usable = [
        token
        for piece, token in takewhile(
            lambda entry: entry[0].startswith(text), islice(ordered, first, None)
        )
        if piece[len(text) :].isalpha() or piece == text
    ]
    if all(pieces[token] == text for token in usable):
        return None
    not_first = np.full(len(pieces), -np.inf, np.float32)
    not_first[usable] = 0.0
    return not_first


@lru_cache(maxsize=4)
def _sorted(pieces: tuple[str, ...]) -> list[tuple[str, int]]:
    return sorted((piece, token) for token, piece in enumerate(pieces) if piece)
