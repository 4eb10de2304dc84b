"""Prefixes that end inside a word: lets the model complete the word with its usual tokens.

`Ich möch` has the tokens `▁Ich`, `▁mö` and `ch`, but `möchte` is one token, so a search that kept
all three would seldom find it. Instead, the last tokens are left out, and the first token after the
others must begin with their text.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice, takewhile

import numpy as np
import numpy.typing as npt

_SPACE = "▁"


def unfinished_word(
    prefix: Sequence[int], pieces: tuple[str, ...], any_case: bool = False
) -> tuple[tuple[int, ...], npt.NDArray[np.float32]] | None:
    """Returns how to complete the last word of a prefix; None if no token continues it.

    Args:
        prefix: tokens of a translation's beginning, the last one of text that ends with a letter.
        pieces: the vocabulary [V].
        any_case: whether the word may begin with a small letter or a capital.

    Returns:
        The tokens to keep, and an array [V]: -inf for tokens that must not follow them directly,
        and 0 for others. It is shared, and must not be changed.
    """
    texts = [pieces[token] for token in prefix]
    begin = max((at for at, text in enumerate(texts) if text[:1] == _SPACE), default=0)
    for kept in range(begin, len(texts)):
        text = "".join(texts[kept:])
        forms = {text, text.lower(), text.title()} if any_case and kept == begin else {text}
        not_first = _not_first(tuple(sorted(forms)), pieces)
        if not_first is not None:
            return tuple(prefix[:kept]), not_first
    return None


@lru_cache(maxsize=256)
def _not_first(texts: tuple[str, ...], pieces: tuple[str, ...]) -> npt.NDArray[np.float32] | None:
    """The array for tokens that begin with one of the texts, which are of one length.

    None if no token continues one with a letter.
    """
    usable = [
        token
        for text in texts
        for piece, token in _beginning_with(text, pieces)
        if piece[len(text) :].isalpha() or piece == text
    ]
    if all(pieces[token] in texts for token in usable):
        return None
    not_first = np.full(len(pieces), -np.inf, np.float32)
    not_first[usable] = 0.0
    return not_first


def _beginning_with(text: str, pieces: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    ordered = _sorted(pieces)
    first = bisect_left(ordered, (text, -1))
    return takewhile(lambda entry: entry[0].startswith(text), islice(ordered, first, None))


@lru_cache(maxsize=4)
def _sorted(pieces: tuple[str, ...]) -> list[tuple[str, int]]:
    return sorted((piece, token) for token, piece in enumerate(pieces) if piece)
