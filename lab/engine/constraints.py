"""The cost of each option for each row and step, in the compiled code.

It measures the shipped model on real sentences, and the base size with random weights and sources,
on one core with 32 rows. All translations have the same number of tokens, since the end symbol is
not in the vocabulary. So a search has the same number of rows and steps with an option and without,
which `lab.engine.options` does not guarantee. The time is from the first step to the last result.
Rounds alternate between a search with an option and the plain search of the same width; the result
is the speed relative to the plain search.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from dragoman_serving.engine.batching.batch import Batch
from dragoman_serving.engine.batching.job import Job
from dragoman_serving.engine.batching.pace import PaceMeter
from dragoman_serving.engine.batching.statistics import Statistics
from dragoman_serving.engine.compiled.compiled_network import NativeNetwork
from dragoman_serving.engine.compiled.library import choose_instruction_set
from dragoman_serving.engine.constraints import Constraints, Sampling
from dragoman_serving.engine.sentence import SearchOptions, Sentence
from dragoman_serving.request.suppression import suppressed_words

from dragoman.kernel.manifest import AlignmentHeads, Manifest
from lab.measurement import SHIPPED, Results, alternate, number, program, progress, ratios
from lab.peers.models.base_model import BASE, write_random_bundle
from lab.report import markdown_table, search_name, spread

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

    @property
    def options(self) -> SearchOptions:
        """The search's options."""
        return SearchOptions(
            beam_width=self.width,
            length_penalty=0.6,
            hypotheses=1,
            constraints=self.constraints,
            token_scores=self.token_scores,
            alignment=self.alignment,
        )


def cases(vocabulary: Sequence[str]) -> list[Case]:
    """All cases, for a vocabulary."""
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
    }
    sampling = {
        "temperature": Sampling((1,), 0.8),
        "top_k": Sampling((1,), 1.0, top_k=50),
        "top_p": Sampling((1,), 1.0, top_p=0.9),
        "top_k, top_p, temperature": Sampling((1,), 0.7, 200, 0.9),
    }
    scored = Constraints(scored=True)
    return [
        *(Case(name, 4, constraints) for name, constraints in {**both, **beam}.items()),
        Case("token scores", 4, token_scores=True),
        Case("alignment", 4, alignment=True),
        *(Case(name, 1, constraints) for name, constraints in both.items()),
        *(Case(name, 1, Constraints(sampling=options)) for name, options in sampling.items()),
        Case("token scores", 1, scored, token_scores=True),
        Case("alignment", 1, alignment=True),
    ]


class Bench:
    """A model on one core, whose translations all have the same number of tokens."""

    def __init__(self, bundle: Path, sources: Sequence[Sequence[int]], tokens: int) -> None:
        """Load a bundle, for sentences whose translations all have this many tokens."""
        manifest = Manifest.load(bundle)
        if manifest.alignment is None:
            manifest = replace(manifest, alignment=_HEADS)
        self.manifest, self.sources, self._tokens = manifest, sources, tokens
        self._network = NativeNetwork(bundle, manifest)
        self._never = replace(manifest.special_ids, end=-1)

    def run_s(self, options: SearchOptions, sentences: int, first: int = 0) -> tuple[float, float]:
        """Seconds to translate this many sentences at once: of all steps, and with the encoder."""
        sources = self.sources[first : first + sentences]
        jobs = [Job(Sentence(tuple(src_ids), self._tokens, options)) for src_ids in sources]
        begin_s = time.perf_counter()
        decoding = self._network.begin(options.beam_width, self._never, len(jobs))
        batch = Batch(decoding, Statistics(), PaceMeter(1))
        batch.join(jobs, alone=False)
        joined_s = time.perf_counter()
        while batch.jobs:
            batch.step(alone=False)
        end_s = time.perf_counter()
        assert all(len(job.future.result().ids) == self._tokens for job in jobs)
        return end_s - joined_s, end_s - begin_s


def real_sources() -> list[list[int]]:
    """Sentences with about as many tokens as their translations get."""
    tokenizer = Manifest.load(SHIPPED).open_tokenizer(SHIPPED)
    lines = SENTENCES.read_text(encoding="utf-8").splitlines()
    sources = (tokenizer.encode_source(line, "de") for line in lines)
    return [ids for ids in sources if abs(len(ids) - SHIPPED_TOKENS) <= 2][:ROWS]


def any_sources(vocab_size: int) -> list[list[int]]:
    """Any tokens."""
    ids = np.random.default_rng(0).integers(20, vocab_size, (ROWS, BASE_TOKENS))
    return [row.tolist() for row in ids]


@program(number("--rounds", 9))
def main(arguments: argparse.Namespace) -> Results:
    """Measure and print."""
    vocabulary = Manifest.load(SHIPPED).open_tokenizer(SHIPPED).target.vocabulary
    results: dict[tuple[str, int], dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder, progress(2 * len(cases(vocabulary))) as advance:
        base = write_random_bundle(Path(folder))
        benches = {
            "shipped": Bench(SHIPPED, real_sources(), SHIPPED_TOKENS),
            "base": Bench(base, any_sources(BASE.vocab_size), BASE_TOKENS),
        }
        for model, bench in benches.items():
            vocab_size = bench.manifest.dimensions.vocab_size
            for case in cases((*vocabulary, *[""] * vocab_size)[:vocab_size]):
                both = {"plain": Case("plain", case.width), "option": case}
                runs = {
                    name: partial(bench.run_s, each.options, ROWS // each.width)
                    for name, each in both.items()
                }
                taken = alternate(runs, arguments.rounds, warm_up=1)
                plain, option = ([steps_s for steps_s, _ in taken[name]] for name in both)
                results.setdefault((case.name, case.width), {})[model] = ratios(plain, option)
                advance(case.name)
    rows = [
        (name, search_name(width), *map(spread, by_model.values()))
        for (name, width), by_model in results.items()
    ]
    print(f"{choose_instruction_set()}, speed over that of the plain search:\n")
    print(markdown_table(("option", "beside", "shipped", "base"), rows))
    return {
        "results": [
            {"option": name, "beam_width": width, "ratios": by_model}
            for (name, width), by_model in results.items()
        ]
    }


if __name__ == "__main__":
    sys.exit(main())
