"""Options of a search, and how they change the scores of the next token."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field

from torch import Tensor

from dragoman.kernel.text import END_ID


@dataclass(frozen=True)
class Options:
    """Options of a search; the defaults give plain beam search.

    `alpha` is the exponent of the length penalty. `pieces` [V] are the vocabulary's subword tokens,
    for `suppressed`. `not_first` are tokens that must not follow the prefix directly.
    """

    beam_width: int = 4
    alpha: float = 0.6
    hypotheses: int = 1
    patience: float = 1.0
    early_stopping: bool = True
    prefix: tuple[int, ...] = ()
    min_tokens: int = 0
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int | None = None
    suppressed: tuple[str, ...] = ()
    not_first: frozenset[int] = field(default=frozenset(), repr=False)
    pieces: tuple[str, ...] = field(default=(), repr=False)
    sampling: bool = False
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: tuple[int, ...] = (0,)


def constrain(log_probs: Tensor, ids: tuple[int, ...], options: Options) -> Tensor:
    """Scores [V] of the token after `ids`, from its log-probabilities [V]; -inf means forbidden."""
    scores = log_probs.clone()
    if len(ids) < len(options.prefix):
        token = options.prefix[len(ids)]
        scores.fill_(-math.inf)
        scores[token] = log_probs[token]
        return scores
    if options.repetition_penalty != 1.0:
        for token in set(ids):
            scores[token] *= options.repetition_penalty
    if n := options.no_repeat_ngram_size:
        for *beginning, token in (ids[i : i + n] for i in range(len(ids) - n + 1)):
            if tuple(beginning) == ids[len(ids) - n + 1 :]:
                scores[token] = -math.inf
    if options.suppressed:
        pieces = _with_spaces(options.pieces)
        text = "".join(pieces[i] for i in ids)
        for token, piece in enumerate(pieces):
            if piece and _ends_in_any(text + piece, options.suppressed):
                scores[token] = -math.inf
    if len(ids) == len(options.prefix):
        scores[list(options.not_first)] = -math.inf
    if len(ids) < options.min_tokens:
        scores[END_ID] = -math.inf
    return scores


@functools.lru_cache(maxsize=1)
def _with_spaces(pieces: tuple[str, ...]) -> tuple[str, ...]:
    """The tokens' texts."""
    return tuple(piece.replace("▁", " ") for piece in pieces)


def _ends_in_any(text: str, phrases: tuple[str, ...]) -> bool:
    """Whether a text ends in one of these words or phrases, starting at a word boundary."""
    return text.endswith(phrases) and any(
        text.endswith(phrase) and not text[: len(text) - len(phrase)][-1:].isalnum()
        for phrase in phrases
    )
