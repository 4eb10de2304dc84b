"""Random wishes of a request, as the oracle takes them and as the engine does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from dragoman_serving.engine.constraints import (
    FewestTokens,
    Guidance,
    NoRepeatedNgrams,
    RepetitionPenalty,
    Rule,
    Sampling,
    TermConstraints,
)
from dragoman_serving.engine.sentence import SearchOptions
from dragoman_serving.request.suppression import SuppressedWords
from dragoman_training.oracle.guided_search import Wishes
from hypothesis import strategies as st

from dragoman.kernel.text import END_ID

VOCAB = 320
PIECES = tuple(
    "" if i < 6 else ("▁" if i % 3 == 0 else "") + "abcdefghij"[i % 10] + "klmno"[i // 64]
    for i in range(VOCAB)
)
"""Of a vocabulary that words can be said in in several ways."""

tokens = st.integers(6, VOCAB - 1)
plain = st.builds(
    Wishes,
    beam_width=st.sampled_from([1, 1, 2, 4, 8]),
    alpha=st.sampled_from([0.0, 0.6, 1.0]),
    hypotheses=st.sampled_from([1, 1, 2, 8]),
)
guided = st.builds(
    Wishes,
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
    terms=st.one_of(
        st.just(()),
        st.lists(st.lists(tokens, min_size=1, max_size=3).map(tuple), min_size=1, max_size=3).map(
            tuple
        ),
    ),
    pieces=st.just(PIECES),
).flatmap(
    lambda asked: st.tuples(
        *(st.sampled_from([None, *range(i)]) if i else st.none() for i, _ in enumerate(asked.terms))
    ).map(lambda after: replace(asked, after=after))
)
sampled = st.builds(
    Wishes,
    beam_width=st.just(1),
    alpha=st.sampled_from([0.0, 0.6]),
    prefix=st.one_of(st.just(()), st.lists(tokens, max_size=3).map(tuple)),
    min_tokens=st.sampled_from([0, 4]),
    repetition_penalty=st.sampled_from([1.0, 1.3]),
    no_repeat_ngram_size=st.sampled_from([None, 2]),
    pieces=st.just(PIECES),
    sampling=st.just(True),
    temperature=st.sampled_from([0.3, 1.0, 2.0]),
    top_k=st.sampled_from([None, 1, 5, 50]),
    top_p=st.sampled_from([None, 0.1, 0.9, 1.0]),
    numbers=st.tuples(st.integers(0, 2**40)),
)
wishes = st.one_of(plain, guided, sampled)


def search_options(asked: Wishes) -> SearchOptions:
    """As the engine takes them."""
    return SearchOptions(
        asked.beam_width,
        asked.alpha,
        min(asked.hypotheses, asked.beam_width),
        None if is_plain(asked) else guidance(asked),
    )


def is_plain(asked: Wishes) -> bool:
    """Whether nothing but width and length penalty is asked."""
    return asked == Wishes(asked.beam_width, asked.alpha, asked.hypotheses)


def guidance(asked: Wishes) -> Guidance:
    """All that is not plain."""
    rules: list[Rule] = []
    if asked.repetition_penalty != 1.0:
        rules.append(RepetitionPenalty(asked.repetition_penalty))
    if asked.no_repeat_ngram_size is not None:
        rules.append(NoRepeatedNgrams(asked.no_repeat_ngram_size))
    if asked.suppressed:
        rules.append(SuppressedWords(asked.suppressed, PIECES))
    if asked.min_tokens:
        rules.append(FewestTokens(asked.min_tokens, END_ID))
    terms = None
    if asked.terms:
        terms = TermConstraints(
            asked.terms, np.array([piece[:1].isalnum() for piece in PIECES]), asked.after
        )
    sampling = None
    if asked.sampling:
        sampling = Sampling(asked.numbers, asked.temperature, asked.top_k, asked.top_p)
    return Guidance(
        asked.prefix, tuple(rules), terms, sampling, asked.patience, asked.early_stopping
    )
