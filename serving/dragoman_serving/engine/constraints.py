"""Constraints on a translation: what a request changes in a search, as data.

`compiled/kernels.h` says what the compiled code makes of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SuppressedWords:
    """Words that a translation must not contain, whatever tokens spell them.

    Texts are arrays of characters: twice the code point, plus 1 for a letter or a digit. Of several
    texts or lists in one array, `*_begins` has where each begins, and the end of the last.

    Attributes:
        text: of all tokens of the vocabulary.
        text_begins: [V + 1].
        always: ids of tokens that contain a word.
        beginning_text: of the beginnings of words that some tokens complete.
        beginning_begins: [N + 1].
        ids: of the tokens that complete each beginning.
        ids_begins: [N + 1].
    """

    text: Int32s
    text_begins: Int64s
    always: Int32s
    beginning_text: Int32s
    beginning_begins: Int64s
    ids: Int32s
    ids_begins: Int64s


@dataclass(frozen=True, eq=False)
class TermConstraints:
    """Sequences of tokens that a translation must contain, each as words of their own.

    `continuing` [V] is -inf for tokens that continue the word before them, which none may do behind
    a term, and 0 for others. `after` has for each term the one that must come before it, if any.
    """

    sequences: tuple[tuple[int, ...], ...]
    continuing: npt.NDArray[np.float32] = field(repr=False)
    after: tuple[int | None, ...] = ()


@dataclass(frozen=True)
class Sampling:
    """How tokens are sampled; the same `seed` samples the same tokens.

    A token is that at which the cumulative probability, by id, passes a random number. The numbers
    are those of Philox (Salmon et al. 2011) under the seed, one a token. A `temperature` above 1
    flattens the distribution; `top_k` keeps that many of the most probable tokens; `top_p` keeps
    the fewest most probable tokens that have this probability together (Holtzman et al. 2020,
    https://arxiv.org/abs/1904.09751).
    """

    seed: tuple[int, ...]
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None


@dataclass(frozen=True)
class Constraints:
    """What changes one sentence's search.

    Attributes:
        prefix: tokens with which the translation begins.
        min_tokens: it does not end before it has so many.
        repetition_penalty: multiplies the log-probability of every token that occurred before
            (Keskar et al. 2019, section 4.1, https://arxiv.org/abs/1909.05858).
        no_repeat_ngram_size: no n-gram of this size occurs twice.
        suppressed: words that it must not contain.
        terms: what it must contain.
        sampling: how tokens are sampled; None: a search for the most probable ones.
        patience: beam search ends once this many times as many hypotheses as its beam is wide have
            ended (Kasai et al. 2022, https://arxiv.org/abs/2204.05424).
        early_stopping: if false, it ends once no other can become better than the best so many.
        scored: whether log-probabilities are needed even if the search does not compare them.
    """

    prefix: tuple[int, ...] = ()
    min_tokens: int = 0
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int | None = None
    suppressed: SuppressedWords | None = None
    terms: TermConstraints | None = None
    sampling: Sampling | None = None
    patience: float = 1.0
    early_stopping: bool = True
    scored: bool = False
