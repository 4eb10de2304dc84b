"""Sentences for checks of a model without text in its language, generated from its vocabulary."""

from __future__ import annotations

import random

from dragoman.kernel.manifest import Manifest
from dragoman.kernel.text import Tokenizer

_SENTENCES = 16
_FEWEST_TOKENS, _MOST_TOKENS = 3, 14
_RARE = 20
"""Rank at which a token is half as frequent as the first one."""


def probe_texts(manifest: Manifest, tokenizer: Tokenizer) -> list[tuple[str, str]]:
    """Source sentences, always the same, each with its target language.

    Early entries of the vocabulary, which are the frequent ones, occur more often (Zipf's law).
    """
    drawn = random.Random(0)  # noqa: S311
    entries = [token_id for token_id, text in enumerate(tokenizer.vocabulary) if text]
    weights = [1 / (rank + _RARE) for rank in range(len(entries))]
    targets = list(dict.fromkeys(target for _, target in manifest.all_directions))
    texts = []
    for number in range(max(_SENTENCES, len(targets))):
        length = drawn.randint(_FEWEST_TOKENS, _MOST_TOKENS)
        text = tokenizer.decode(drawn.choices(entries, weights, k=length))
        texts.append((text, targets[number % len(targets)]))
    return texts
