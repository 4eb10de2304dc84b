"""Digests of the tokens and scores that the compiled engine generates with the shipped model."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from dragoman_serving.engine.batching.engine import Engine
from dragoman_serving.engine.compiled.compiled_network import NativeNetwork
from dragoman_serving.engine.constraints import Constraints, Sampling
from dragoman_serving.engine.sentence import SearchOptions, Sentence
from dragoman_serving.engine.settings import BatchLimits

from dragoman.kernel.hypothesis import Hypothesis
from dragoman.kernel.manifest import Manifest
from dragoman.kernel.text import Tokenizer
from tests.compact_json import compact_json

BUNDLE = Path(__file__).parents[2] / "model_repository/translate/1/bundle"
BLOCK = 20
"""Number of sentences in a digest."""
DIGITS = 16
"""Hexadecimal digits that are kept of a digest; 64 bits tell any two results apart."""
LENGTH_PENALTY = 1.0
_FOLDER = Path(__file__).parent
_DIGESTS = _FOLDER / "digests.json"


PREFIX = (309,)
"""The token of "Ich"."""
SAMPLING = Sampling((0,), temperature=1.2, top_k=100, top_p=0.95)


@dataclass(frozen=True)
class Case:
    """How to search; `limit` is the maximum number of tokens, None: as many as the model allows.

    With sampling, each sentence's index is its seed.
    """

    width: int
    limit: int | None = None
    constraints: Constraints | None = None
    details: bool = False
    """Whether digests include each token's log-probability and attention."""
    alternatives: int = 0
    """Alternatives at the second token, after one that is given."""


CASES = {
    "greedy": Case(1),
    "greedy, 7 tokens at most": Case(1, 7),
    "beam 4": Case(4),
    "beam 4, 7 tokens at most": Case(4, 7),
    "sampling": Case(1, constraints=Constraints(sampling=SAMPLING, scored=True)),
    "beam 4, constraints, details": Case(
        width=4,
        constraints=Constraints(
            min_tokens=6, repetition_penalty=1.3, no_repeat_ngram_size=2, patience=1.5
        ),
        details=True,
    ),
    "beam 2, alternatives, details": Case(
        width=2, constraints=Constraints(prefix=PREFIX), details=True, alternatives=2
    ),
}


def read_sentences(case: Case, count: int | None = None) -> list[Sentence]:
    """The first sentences (by default all) as input of the engine, into German."""
    manifest = Manifest.load(BUNDLE)
    tokenizer = Tokenizer(BUNDLE / manifest.tokenizer)
    lines = (_FOLDER / "sentences.txt").read_text(encoding="utf-8").splitlines()[:count]
    limits = manifest.limits
    sentences = []
    for index, line in enumerate(lines):
        constraints = case.constraints
        if constraints is not None and constraints.sampling is not None:
            sampling = replace(constraints.sampling, seed=(index,))
            constraints = replace(constraints, sampling=sampling)
        options = SearchOptions(
            beam_width=case.width,
            length_penalty=LENGTH_PENALTY,
            hypotheses=max(1, case.alternatives),
            constraints=constraints,
            token_scores=case.details,
            alignment=case.details,
            alternatives=range(case.alternatives),
        )
        src_ids = tuple(tokenizer.encode_source(line, "de"))
        limit = case.limit or limits.target_tokens(len(src_ids))
        sentences.append(Sentence(src_ids, limit, options))
    return sentences


def translate(sentences: Sequence[Sentence]) -> list[Hypothesis]:
    """Search with the chosen instruction set, in two threads, all sentences in flight."""
    manifest = Manifest.load(BUNDLE)
    network = NativeNetwork(BUNDLE, manifest)
    limits = BatchLimits(waiting=len(sentences))
    engine = Engine(network, manifest.special_ids, workers=2, limits=limits)
    try:
        return [future.result() for future in engine.submit(sentences)]
    finally:
        engine.close()


def digests(hypotheses: Sequence[Hypothesis]) -> list[str]:
    """One digest for each block of hypotheses: of their tokens, log-probabilities and scores."""
    return [
        _digest(hypotheses[begin : begin + BLOCK]) for begin in range(0, len(hypotheses), BLOCK)
    ]


def _digest(hypotheses: Sequence[Hypothesis]) -> str:
    digest = hashlib.sha256()
    for hypothesis in (each for first in hypotheses for each in (first, *first.others)):
        digest.update(
            struct.pack(
                f"<q{len(hypothesis.ids)}q?",
                len(hypothesis.ids),
                *hypothesis.ids,
                hypothesis.complete,
            )
        )
        if hypothesis.log_prob is not None:
            digest.update(struct.pack("<2d", hypothesis.log_prob, hypothesis.score(LENGTH_PENALTY)))
        if hypothesis.token_log_probs is not None:
            digest.update(np.array(hypothesis.token_log_probs, "<f4").tobytes())
        if hypothesis.attention is not None:
            digest.update(hypothesis.attention.astype("<f4").tobytes())
    return digest.hexdigest()[:DIGITS]


def read() -> dict[str, list[str]]:
    """The committed digests, by case."""
    hashes: dict[str, list[str]] = json.loads(_DIGESTS.read_text(encoding="utf-8"))
    return hashes


def write(hashes: dict[str, list[str]]) -> None:
    """Replace the committed digests."""
    _DIGESTS.write_text(compact_json(hashes) + "\n", encoding="utf-8")
