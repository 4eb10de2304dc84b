"""Speed-up by a lexical shortlist, at batch sizes 1 and 32, greedy and beam 4.

    dragoman shortlist BUNDLE --data-dir CORPORA --text tatoeba-en-de/train tatoeba-en-fr/train
    python -m lab.engine.shortlist BUNDLE

BUNDLE is a copy of the shipped one, measured on real sentences. The base size has random weights
and sources of 32 tokens, whose shortlists have about 1,000 tokens of 32,000: either at any index,
or within a fifth of the 16-token vectors, as in the shipped vocabulary, where frequent tokens are
adjacent. All translations have the same number of tokens (`lab.engine.constraints`). The time is
from the source ids to the last result, on one core. Rounds alternate between a search with
shortlists and one without; the result is the speed relative to the latter. BLEU is that of
`dragoman evaluate BUNDLE --runtime engine`, with `--shortlist` and without.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from dragoman_serving.engine.compiled.library import LANES, choose_instruction_set
from dragoman_serving.engine.compiled.shortlists import Shortlists
from dragoman_serving.engine.sentence import SearchOptions
from dragoman_training.run.checkpoint_folder import SHORTLIST
from safetensors.numpy import save_file

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Manifest, digests
from lab.engine.constraints import (
    BASE_TOKENS,
    ROWS,
    SHIPPED_TOKENS,
    Bench,
    any_sources,
    real_sources,
)
from lab.measurement import Results, alternate, number, option, program, progress, ratios
from lab.peers.models.base_model import BASE, write_random_bundle
from lab.report import markdown_table, search_name, spread

LISTED = 1000
"""Tokens of a shortlist of the base size."""
_SHARE = 0.2
"""Share of the vectors that contain them."""
_CASES = ((1, 1), (1, 4), (ROWS, 1), (ROWS, 4))
"""Number of sentences, and beam width."""


def computed_share(bundle: Path, bench: Bench) -> float:
    """Share of the output layer that is computed for a bench's sources.

    Raises:
        UsageError: the bundle has no shortlists.
    """
    manifest = bench.manifest
    if manifest.shortlist is None:
        raise UsageError(f"{bundle} has no shortlists: make them with `dragoman shortlist`")
    shortlists = Shortlists(bundle / manifest.shortlist, manifest)
    words = [shortlists.of_sentence(src_ids, ()) for src_ids in bench.sources]
    listed = np.unpackbits(np.array(words).view(np.uint8)).sum() / len(words)
    return float(listed * LANES / manifest.dimensions.vocab_size)


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
    save_file(arrays, copy / SHORTLIST)
    files = {**manifest.files, **digests(copy, [SHORTLIST])}
    replace(manifest, shortlist=SHORTLIST, files=files).write(copy)
    return copy


def _benches(shipped: Path, folder: Path) -> Iterator[tuple[str, Path, Bench]]:
    yield "shipped", shipped, Bench(shipped, real_sources(), SHIPPED_TOKENS)
    base, sources = write_random_bundle(folder), any_sources(BASE.vocab_size)
    for kind, share in (("close together", _SHARE), ("anywhere", 1.0)):
        bundle = add_random_shortlist(base, folder, share)
        yield f"base, {kind}", bundle, Bench(bundle, sources, BASE_TOKENS)


def _all_s(bench: Bench, sentences: int, options: SearchOptions) -> float:
    """Seconds for all sources, this many at once."""
    batches = range(0, len(bench.sources), sentences)
    return sum(bench.run_s(options, sentences, first)[1] for first in batches)


@program(
    option("bundle", type=Path, help="a copy of the shipped bundle, with shortlists"),
    number("--rounds", 7),
)
def main(arguments: argparse.Namespace) -> Results:
    """Measure and print."""
    results = []
    with tempfile.TemporaryDirectory() as folder, progress(3 * len(_CASES)) as advance:
        for model, bundle, bench in _benches(arguments.bundle, Path(folder)):
            share = computed_share(bundle, bench)
            for sentences, width in _CASES:
                runs = {
                    listed: partial(
                        _all_s, bench, sentences, SearchOptions(width, 0.6, shortlist=listed)
                    )
                    for listed in (False, True)
                }
                taken = alternate(runs, arguments.rounds, warm_up=1)
                results.append((model, share, sentences, width, ratios(taken[False], taken[True])))
                advance(model)
    rows = [
        (model, f"{share:.0%}", str(sentences), search_name(width), spread(speeds))
        for model, share, sentences, width, speeds in results
    ]
    names = ("model", "computed", "sentences", "beam_width", "ratios")
    print(f"{choose_instruction_set()}, speed over that without shortlists:\n")
    print(markdown_table(("model", "computed", "sentences", "search", "speed"), rows))
    return {"results": [dict(zip(names, result, strict=True)) for result in results]}


if __name__ == "__main__":
    sys.exit(main())
