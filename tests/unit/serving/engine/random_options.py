"""Random options of a search, in the oracle's form and in the engine's."""

from __future__ import annotations

import numpy as np
from dragoman_serving.engine.constraints import Constraints, Sampling
from dragoman_serving.engine.sentence import SearchOptions
from dragoman_serving.request.suppression import suppressed_words
from dragoman_training.oracle.constraints import Options
from hypothesis import strategies as st

VOCAB = 320
PIECES = tuple(
    "" if i < 6 else ("▁" if i % 3 == 0 else "") + "abcdefghij"[i % 10] + "klmno"[i // 64]
    for i in range(VOCAB)
)
"""Tokens of a vocabulary in which a word can be written in several ways."""

tokens = st.integers(6, VOCAB - 1)
not_first: st.SearchStrategy[frozenset[int]] = st.one_of(
    st.just(frozenset()),
    st.frozensets(st.integers(0, VOCAB - 1)),
    st.frozensets(st.integers(0, VOCAB - 1), max_size=3).map(frozenset(range(VOCAB)).difference),
)
"""None, some or nearly all tokens."""
plain = st.builds(
    Options,
    beam_width=st.sampled_from([1, 1, 2, 4, 8]),
    alpha=st.sampled_from([0.0, 0.6, 1.0]),
    hypotheses=st.sampled_from([1, 1, 2, 8]),
)
constrained = st.builds(
    Options,
    beam_width=st.sampled_from([1, 2, 4, 8]),
    alpha=st.sampled_from([0.0, 0.6, 1.0]),
    hypotheses=st.sampled_from([1, 1, 2, 8]),
    patience=st.sampled_from([1.0, 1.0, 0.3, 2.0]),
    early_stopping=st.sampled_from([True, True, False]),
    prefix=st.one_of(st.just(()), st.lists(tokens, max_size=4).map(tuple)),
    min_tokens=st.sampled_from([0, 0, 3, 30]),
    repetition_penalty=st.sampled_from([1.0, 1.3]),
    no_repeat_ngram_size=st.sampled_from([None, 1, 2, 3]),
    suppressed=st.lists(st.sampled_from(sorted(filter(None, PIECES))), max_size=3).map(
        lambda words: tuple(word.strip("▁") for word in words)
    ),
    not_first=not_first,
    pieces=st.just(PIECES),
)
sampled = st.builds(
    Options,
    beam_width=st.just(1),
    alpha=st.sampled_from([0.0, 0.6]),
    prefix=st.one_of(st.just(()), st.lists(tokens, max_size=3).map(tuple)),
    min_tokens=st.sampled_from([0, 4]),
    repetition_penalty=st.sampled_from([1.0, 1.3]),
    no_repeat_ngram_size=st.sampled_from([None, 2]),
    not_first=not_first.filter(lambda tokens: len(tokens) < VOCAB),
    pieces=st.just(PIECES),
    sampling=st.just(True),
    temperature=st.sampled_from([0.3, 1.0, 2.0]),
    top_k=st.sampled_from([None, 1, 5, 50]),
    top_p=st.sampled_from([None, 0.1, 0.9, 1.0]),
    seed=st.tuples(st.integers(0, 2**40)),
)
options = st.one_of(plain, constrained, sampled)


def search_options(options: Options) -> SearchOptions:
    """The options in the engine's form."""
    return SearchOptions(
        options.beam_width,
        options.alpha,
        min(options.hypotheses, options.beam_width),
        None if is_plain(options) else constraints(options),
    )


def is_plain(options: Options) -> bool:
    """Whether there are no constraints."""
    return options == Options(options.beam_width, options.alpha, options.hypotheses)


def constraints(options: Options) -> Constraints:
    """The constraints, in the engine's form."""
    not_first = None
    if options.not_first:
        not_first = np.zeros(VOCAB, np.float32)
        not_first[list(options.not_first)] = -np.inf
    sampling = None
    if options.sampling:
        sampling = Sampling(options.seed, options.temperature, options.top_k, options.top_p)
    suppressed = suppressed_words(options.suppressed, PIECES) if options.suppressed else None
    return Constraints(
        prefix=options.prefix,
        min_tokens=options.min_tokens,
        repetition_penalty=options.repetition_penalty,
        no_repeat_ngram_size=options.no_repeat_ngram_size,
        suppressed=suppressed,
        not_first=not_first,
        sampling=sampling,
        patience=options.patience,
        early_stopping=options.early_stopping,
        scored=True,
    )
