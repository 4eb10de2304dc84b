"""The cost of each option for each row and step, in the compiled code.

Run from the project's folder on an otherwise idle machine:

    python -m lab.engine.constraints [--rounds N] [--json FILE]

It measures the shipped model on real sentences, and the base size with random weights and sources,
on one core with 32 rows. All translations have the same number of tokens, since the end symbol is
not in the vocabulary. So a search has the same number of rows and steps with an option and without,
which `lab.engine.options` does not guarantee. The time is from the first step to the last
result. Rounds alternate between a search with an option and the plain search of the same width; the
result is the speed relative to the plain search.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from dragoman_serving.engine.batching.batch import Batch
from dragoman_serving.engine.batching.job import Job
from dragoman_serving.engine.batching.pace import PaceMeter
from dragoman_serving.engine.batching.statistics import Statistics
from dragoman_serving.engine.compiled.compiled_network import NativeNetwork
from dragoman_serving.engine.compiled.library import choose_instruction_set
from dragoman_serving.engine.constraints import Constraints, Sampling, TermConstraints
from dragoman_serving.engine.sentence import SearchOptions, Sentence
from dragoman_serving.request.suppression import suppressed_words

from dragoman.kernel.manifest import AlignmentHeads, Manifest
from lab.conditions import close
from lab.console import positive, progress
from lab.peers.base_model import BASE, write_random_bundle
from lab.report import markdown_table, spread

SHIPPED = Path("model_repository/translate/1/bundle")
SENTENCES = Path("tests/digests/sentences.txt")
ROWS = 32
SHIPPED_TOKENS, BASE_TOKENS = 12, 32
"""Tokens of each translation; sources have about as many."""
_WORDS = ("Haus", "Tom", "Vereinigte Staaten")
_HEADS = AlignmentHeads(((0, 0), (1, 1)), True, "anchors", 1.0, 1, "nothing")


@dataclass(frozen=True)
class Case:
    """A search, and the search that it is compared with."""

    name: str
    width: int
    constraints: Constraints | None = None
    token_scores: bool = False
    alignment: bool = False


def cases(vocabulary: Sequence[str]) -> list[Case]:
    """All cases, for a vocabulary."""
    continuing = np.zeros(len(vocabulary), np.float32)
    continuing[[piece[:1].isalnum() for piece in vocabulary]] = -np.inf
    terms = TermConstraints(((500, 501),), continuing)
    both: Mapping[str, Constraints] = {
        "prefix": Constraints(prefix=tuple(range(500, 504))),
        "min_tokens": Constraints(min_tokens=40),
        "repetition_penalty": Constraints(repetition_penalty=1.2),
        "no_repeat_ngram_size": Constraints(no_repeat_ngram_size=3),
        "suppress": Constraints(suppressed=suppressed_words(_WORDS, tuple(vocabulary))),
    }
    beam = {
        "patience": Constraints(patience=2.0),
        "early_stopping": Constraints(early_stopping=False),
        "glossary": Constraints(terms=terms),
    }
    sampling = {
        "temperature": Sampling((1,), 0.8),
        "top_k": Sampling((1,), 1.0, top_k=50),
        "top_p": Sampling((1,), 1.0, top_p=0.9),
        "top_k, top_p, temperature": Sampling((1,), 0.7, 200, 0.9),
    }
    scored = Constraints(scored=True)
    return [
        *(Case(name, 4, one) for name, one in {**both, **beam}.items()),
        Case("token scores", 4, token_scores=True),
        Case("alignment", 4, alignment=True),
        *(Case(name, 1, one) for name, one in both.items()),
        *(Case(name, 1, Constraints(sampling=one)) for name, one in sampling.items()),
        Case("token scores", 1, scored, token_scores=True),
        Case("alignment", 1, alignment=True),
    ]


class _Bench:
    def __init__(self, bundle: Path, sources: Sequence[Sequence[int]], tokens: int) -> None:
        manifest = Manifest.load(bundle)
        if manifest.alignment is None:
            manifest = replace(manifest, alignment=_HEADS)
        self.vocab_size = manifest.dimensions.vocab_size
        self._network = NativeNetwork(bundle, manifest)
        self._never = replace(manifest.special_ids, end=-1)
        self._sources, self._tokens = sources, tokens

    def run_s(self, case: Case) -> float:
        options = SearchOptions(
            *(case.width, 0.6, 1, case.constraints),
            token_scores=case.token_scores,
            alignment=case.alignment,
        )
        sources = self._sources[: ROWS // case.width]
        jobs = [Job(Sentence(tuple(src_ids), self._tokens, options)) for src_ids in sources]
        decoding = self._network.begin(case.width, self._never, len(jobs))
        batch = Batch(decoding, Statistics(), PaceMeter(1))
        batch.join(jobs, alone=False)
        begin_s = time.perf_counter()
        while batch.jobs:
            batch.step(alone=False)
        elapsed_s = time.perf_counter() - begin_s
        assert all(len(job.future.result().ids) == self._tokens for job in jobs)
        return elapsed_s


def real_sources() -> list[list[int]]:
    """Sentences with about as many tokens as their translations get."""
    tokenizer = Manifest.load(SHIPPED).open_tokenizer(SHIPPED)
    lines = SENTENCES.read_text(encoding="utf-8").splitlines()
    sources = (tokenizer.encode_source(line, "de") for line in lines)
    return [ids for ids in sources if abs(len(ids) - SHIPPED_TOKENS) <= 2][:ROWS]


def random_sources(vocab_size: int) -> list[list[int]]:
    """Any tokens."""
    found: list[list[int]] = (
        np.random.default_rng(0).integers(20, vocab_size, (ROWS, BASE_TOKENS)).tolist()
    )
    return found


def main() -> None:
    """Measure and print."""
    load_1min = os.getloadavg()[0]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=positive, default=9)
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    arguments = parser.parse_args()
    vocabulary = Manifest.load(SHIPPED).open_tokenizer(SHIPPED).target.vocabulary
    found: dict[tuple[str, int], dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder, progress(2 * len(cases(vocabulary))) as advance:
        base = write_random_bundle(Path(folder))
        benches = {
            "shipped": _Bench(SHIPPED, real_sources(), SHIPPED_TOKENS),
            "base": _Bench(base, random_sources(BASE.vocab_size), BASE_TOKENS),
        }
        for model, bench in benches.items():
            of_size = (*vocabulary, *[""] * bench.vocab_size)[: bench.vocab_size]
            for case in cases(of_size):
                plain = Case("plain", case.width)
                bench.run_s(plain), bench.run_s(case)  # warm up, so that memory is allocated
                pairs = [(bench.run_s(plain), bench.run_s(case)) for _ in range(arguments.rounds)]
                ratios = [plain_s / case_s for plain_s, case_s in pairs]
                found.setdefault((case.name, case.width), {})[model] = ratios
                advance(case.name)
    rows = [
        (name, "greedy" if width == 1 else f"beam {width}", *map(spread, by_model.values()))
        for (name, width), by_model in found.items()
    ]
    print(f"{choose_instruction_set()}, speed over that of the plain search:\n")
    print(markdown_table(("option", "beside", "shipped", "base"), rows))
    results = [
        {"option": name, "beam_width": width, "ratios": by_model}
        for (name, width), by_model in found.items()
    ]
    close(
        "lab.engine.constraints",
        sys.argv[1:],
        load_1min,
        {"results": results},
        arguments.json,
    )


if __name__ == "__main__":
    main()
