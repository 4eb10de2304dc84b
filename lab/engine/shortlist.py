"""Speed-up by a lexical shortlist, at batch sizes 1 and 32, greedy and beam 4.

Run from the project's folder on an otherwise idle machine:

    dragoman shortlist BUNDLE --data-dir CORPORA --text tatoeba-en-de/train tatoeba-en-fr/train
    python -m lab.engine.shortlist BUNDLE [--rounds N] [--json FILE]

BUNDLE is a copy of the shipped one, measured on real sentences. The base size has random weights
and sources of 32 tokens, whose shortlists have about 1,000 tokens of 32,000: either at any index,
or within a fifth of the 16-token vectors, as in the shipped vocabulary, where frequent tokens are
adjacent. All translations have the same number of tokens, since the end symbol is not in the
vocabulary. The time is from the source ids to the last result, on one core. Rounds alternate
between a search with shortlists and one without; the result is the speed relative to the latter.
BLEU is that of `dragoman evaluate BUNDLE --runtime engine`, with `--shortlist` and without.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from dragoman_export.shortlist import FILE_NAME
from dragoman_serving.engine.batching.batch import Batch
from dragoman_serving.engine.batching.job import Job
from dragoman_serving.engine.batching.pace import PaceMeter
from dragoman_serving.engine.batching.statistics import Statistics
from dragoman_serving.engine.compiled.compiled_network import NativeNetwork
from dragoman_serving.engine.compiled.library import LANES, choose_instruction_set
from dragoman_serving.engine.compiled.shortlists import Shortlists
from dragoman_serving.engine.sentence import SearchOptions, Sentence
from safetensors.numpy import save_file

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Manifest, digests
from lab.conditions import close
from lab.console import positive, progress
from lab.engine.constraints import (
    BASE_TOKENS,
    ROWS,
    SHIPPED_TOKENS,
    random_sources,
    real_sources,
)
from lab.peers.base_model import BASE, write_random_bundle
from lab.report import markdown_table, spread

LISTED = 1000
"""Tokens of a shortlist of the base size."""
_SHARE = 0.2
"""Share of the vectors that contain them."""
_CASES = ((1, 1), (1, 4), (ROWS, 1), (ROWS, 4))
"""Number of sentences, and beam width."""


@dataclass(frozen=True)
class Result:
    """A model's speed-up by shortlists at this batch size."""

    model: str
    computed: float
    """Share of the output layer that is computed."""
    sentences: int
    beam_width: int
    ratios: list[float]

    @property
    def row(self) -> tuple[str, ...]:
        """A row of the table."""
        search = "greedy" if self.beam_width == 1 else f"beam {self.beam_width}"
        share = f"{self.computed:.0%}"
        return self.model, share, str(self.sentences), search, spread(self.ratios)


class _Bench:
    def __init__(self, bundle: Path, sources: Sequence[Sequence[int]], tokens: int) -> None:
        manifest = Manifest.load(bundle)
        if manifest.shortlist is None:
            raise UsageError(f"{bundle} has no shortlists: make them with `dragoman shortlist`")
        self._network = NativeNetwork(bundle, manifest)
        self._never = replace(manifest.special_ids, end=-1)
        self._sources, self._tokens = sources, tokens
        shortlists = Shortlists(bundle / manifest.shortlist, manifest)
        words = [shortlists.of_sentence(src_ids, ()) for src_ids in sources]
        listed = np.unpackbits(np.array(words).view(np.uint8)).sum() / len(words)
        self.share = float(listed * LANES / manifest.dimensions.vocab_size)
        """Share of the output layer that is computed."""

    def run_s(self, sentences: int, width: int, shortlist: bool) -> float:
        """Time for all batches of this many sentences."""
        begin_s = time.perf_counter()
        for first in range(0, len(self._sources), sentences):
            self._translate(self._sources[first : first + sentences], width, shortlist)
        return time.perf_counter() - begin_s

    def ratios(self, sentences: int, width: int, rounds: int) -> list[float]:
        """Speed with shortlists over that without, for each round."""
        both = [(sentences, width, shortlist) for shortlist in (False, True)]
        for case in both:
            self.run_s(*case)  # warm up, so that memory is allocated
        times = [[self.run_s(*case) for case in both] for _ in range(rounds)]
        return [plain_s / listed_s for plain_s, listed_s in times]

    def _translate(self, sources: Sequence[Sequence[int]], width: int, shortlist: bool) -> None:
        options = SearchOptions(width, 0.6, shortlist=shortlist)
        jobs = [Job(Sentence(tuple(src_ids), self._tokens, options)) for src_ids in sources]
        decoding = self._network.begin(width, self._never, len(jobs))
        batch = Batch(decoding, Statistics(), PaceMeter(1))
        batch.join(jobs, alone=False)
        while batch.jobs:
            batch.step(alone=False)
        assert all(len(job.future.result().ids) == self._tokens for job in jobs)


def add_random_shortlist(bundle: Path, folder: Path, share: float) -> Path:
    """A copy of the base model with random shortlists within a share of the vectors."""
    copy = folder / f"share-{share}"
    shutil.copytree(bundle, copy)
    generator = np.random.default_rng(1)
    each = LISTED // BASE_TOKENS
    vectors = generator.random((BASE.vocab_size, each)) * int(share * BASE.vocab_size / LANES)
    ids = vectors.astype(np.int64) * LANES + generator.integers(0, LANES, vectors.shape)
    manifest = Manifest.load(copy)
    tags = list(manifest.special_ids.tags.values())
    arrays = {
        "tags": np.array(tags, np.int32),
        "begins": np.arange(len(tags) * BASE.vocab_size + 1, dtype=np.int32) * each,
        "ids": np.tile(ids.ravel().astype(np.uint16), len(tags)),
    }
    save_file(arrays, copy / FILE_NAME)
    files = {**manifest.files, **digests(copy, [FILE_NAME])}
    replace(manifest, shortlist=FILE_NAME, files=files).write(copy)
    return copy


def _benches(shipped: Path, folder: Path) -> Iterator[tuple[str, _Bench]]:
    yield "shipped", _Bench(shipped, real_sources(), SHIPPED_TOKENS)
    base, sources = write_random_bundle(folder), random_sources(BASE.vocab_size)
    for kind, share in (("close together", _SHARE), ("anywhere", 1.0)):
        bundle = add_random_shortlist(base, folder, share)
        yield f"base, {kind}", _Bench(bundle, sources, BASE_TOKENS)


def main() -> None:
    """Measure and print."""
    load_1min = os.getloadavg()[0]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("bundle", type=Path, help="a copy of the shipped bundle, with shortlists")
    parser.add_argument("--rounds", type=positive, default=7)
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    arguments = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as name, progress(3 * len(_CASES)) as advance:
        for model, bench in _benches(arguments.bundle, Path(name)):
            for sentences, width in _CASES:
                ratios = bench.ratios(sentences, width, arguments.rounds)
                results.append(Result(model, bench.share, sentences, width, ratios))
                advance(model)
    print(f"{choose_instruction_set()}, speed over that without shortlists:\n")
    head = ("model", "computed", "sentences", "search", "speed")
    print(markdown_table(head, [one.row for one in results]))
    close(
        "lab.engine.shortlist",
        sys.argv[1:],
        load_1min,
        {"results": list(map(asdict, results))},
        arguments.json,
    )


if __name__ == "__main__":
    main()
