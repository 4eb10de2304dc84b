"""Speed of Firefox's models in our engine, in Marian (`bergamot` 0.4.5) and in slimt.

    python3.10 -m venv .venv-bergamot && .venv-bergamot/bin/pip install bergamot==0.4.5
    python3.10 -m venv .venv-slimt && .venv-slimt/bin/pip install slimt==0.1.0
    python -m lab.peers.firefox

The models have the true sizes and made-up weights. Sentences have 25 tokens; all translations have
26, the limit, since the end symbol is improbable. All contenders use int8 and the same shortlists
on one processor. The time is that of the processor, from texts to texts: it depends less than wall
time on what else runs. Words and shortlists are sampled by Zipf's law, as in text. Marian scores
the tokens that any sentence of a batch lists; our engine those of each sentence, with all 16
tokens of every vector that has one. With `--even`, all words are equally frequent, the worst case.

slimt is compared if it is installed, without beams, which it does not have. Rounds alternate. One
sentence without a shortlist reads all weights of the decoder in each step: its speed is compared
with that of reading them from memory, which only a large enough cache can exceed.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from dragoman_export.bundle import export_bundle
from dragoman_serving.engine.compiled.library import LANES, choose_instruction_set
from dragoman_serving.engine.compiled.shortlists import Shortlists
from dragoman_training.firefox.student_importing import import_student

from dragoman.kernel.errors import CheckFailed, UsageError
from dragoman.kernel.manifest import Manifest
from dragoman.kernel.processors import usable_processors
from lab.measurement import (
    PROJECT,
    Results,
    alternate,
    memory_gb_per_s,
    number,
    option,
    program,
    progress,
    ratios,
)
from lab.peers.processes import WorkerProcess, start_engine
from lab.peers.workers.worker_protocol import BatchSearch, Texts
from lab.processor_time import cpu_s
from lab.report import markdown_table, search_name, spread
from tests.marian_lines import interpreter
from tests.marian_students import FIRST, LISTS, Student, as_ids, as_text, write_lists, write_student

TOKENS = 25
"""Of a source sentence, without the end symbol."""
LISTED = 32
"""Samples of a source token's list: as many as Firefox's en-de has on average."""
MODELS = {
    "tiny": Student(256, 1536, 8, 6, 2, entries=32_000, end_bias=-100),
    "base-memory": Student(384, 1536, 8, 6, 4, entries=32_000, end_bias=-100),
}
CASES = ((1, 1), (1, 32), (1, 64), (4, 1), (4, 32))
"""Beam width and sentences at a time."""
_BOUND = ("model", "MB a step", "GB/s from memory", "tokens/s from memory", "our tokens/s")
OURS, MARIAN, SLIMT = "Dragoman", "bergamot", "slimt"
SENTENCES = 256
_OPTIONS = {"shortlist": True, "keep_placeholders": False}
"""The made-up words have digits, which would have to be in the translations."""
_SLIMT = PROJECT / ".venv-slimt/bin/python"

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Words:
    """Samples ids of words; frequent ones have low ids, as in a SentencePiece model."""

    entries: int
    even: bool
    seed: int = 0

    def sample(self, *shape: int) -> Ids:
        """Ids of any words but the special ones."""
        ranks = np.arange(1, self.entries - 1)
        shares = np.ones(len(ranks)) if self.even else 1.0 / (ranks + 2.7)
        limits = np.cumsum(shares) / shares.sum()
        rng = np.random.default_rng(self.seed + len(shape) + shape[0])
        return 2 + np.searchsorted(limits, rng.random(shape))

    def lists(self) -> list[list[int]]:
        """Every source token's list."""
        return [np.unique(ids).tolist() for ids in self.sample(self.entries, LISTED)]

    def texts(self) -> list[str]:
        """The sentences."""
        return [as_text(ids) for ids in self.sample(SENTENCES, TOKENS).tolist()]


@dataclass(frozen=True)
class Run:
    """Seconds of a run, and the tokens that it wrote."""

    processor_s: float
    elapsed_s: float
    tokens: int


def write_models(folder: Path, student: Student, words: Words) -> None:
    """Write a model, and our bundle of it; their translations have the same limit."""
    model, bundle = folder / "model", folder / "bundle"
    write_student(model, student)
    write_lists(model / LISTS, words.lists(), FIRST)
    import_student(model, folder / "checkpoint")
    manifest = export_bundle(folder / "checkpoint", bundle, "int8")
    limits = dataclasses.replace(manifest.limits, target_ratio=1.0, target_margin_tokens=0)
    dataclasses.replace(manifest, limits=limits).write(bundle)


def shortlist_sizes(bundle: Path, words: Words) -> tuple[float, float]:
    """Mean number of tokens that Marian computes for a sentence alone, and that we compute."""
    manifest = Manifest.load(bundle)
    assert manifest.shortlist is not None
    tokenizer = manifest.open_tokenizer(bundle)
    shortlists, lists = Shortlists(bundle / manifest.shortlist, manifest), words.lists()
    theirs, ours = 0, 0
    for text in words.texts():
        ids = as_ids(text)
        theirs += len(set(range(FIRST)).union(ids, *(lists[token_id] for token_id in ids)))
        bits = shortlists.of_sentence(tokenizer.encode_source(text, "de"), ())
        ours += LANES * int(np.unpackbits(bits.view(np.uint8)).sum())
    return theirs / SENTENCES, ours / SENTENCES


@contextlib.contextmanager
def contenders(folder: Path, student: Student, beam: int) -> Iterator[dict[str, WorkerProcess]]:
    """All contenders, with the files of `write_models`.

    Raises:
        UsageError: Marian is not installed.
    """
    model, bundle = folder / "model", folder / "bundle"
    layers = [str(student.encoder_layers), str(student.decoder_layers)]
    with contextlib.ExitStack() as held:

        def start(peer: str, python: Path, *options: str) -> WorkerProcess:
            command = [peer, str(model), *options]
            return held.enter_context(
                WorkerProcess("lab.peers.workers.firefox_worker", command, python)
            )

        python = interpreter()
        if python is None:
            raise UsageError("bergamot is not installed: see --help")
        workers = {OURS: held.enter_context(start_engine(bundle, "int8", "texts"))}
        workers[MARIAN] = start(MARIAN, python, "--beam-width", str(beam))
        if _SLIMT.exists() and beam == 1:
            workers[SLIMT] = start(SLIMT, _SLIMT, "--layers", *layers)
        yield workers


def run(worker: WorkerProcess, texts: Texts, search: BatchSearch) -> Run:
    """Translate all texts."""
    begin_s = cpu_s([worker.pid])
    answer = worker.run(texts, search)
    return Run(cpu_s([worker.pid]) - begin_s, answer.elapsed_s, sum(answer.tokens))


def race(
    workers: Mapping[str, WorkerProcess], texts: Texts, search: BatchSearch, rounds: int
) -> dict[str, list[Run]]:
    """Runs of all contenders in turn.

    Raises:
        CheckFailed: one wrote another number of tokens.
    """
    runs = {name: partial(run, worker, texts, search) for name, worker in workers.items()}
    taken = alternate(runs, rounds, warm_up=1)
    for name, of_contender in taken.items():
        expected = len(texts) * (TOKENS + 1)
        if {sample.tokens for sample in of_contender} != {expected}:
            raise CheckFailed(f"{name}: wrote {of_contender[0].tokens} tokens, not {expected}")
    return taken


def row(model: str, search: BatchSearch, taken: Mapping[str, Sequence[Run]]) -> list[str]:
    """A row of the table: tokens per processor second, and our speed over the peers'."""
    processor_s = {name: [sample.processor_s for sample in runs] for name, runs in taken.items()}
    elapsed_s = {name: [sample.elapsed_s for sample in runs] for name, runs in taken.items()}
    tokens = taken[OURS][0].tokens
    over = [
        spread(ratios(of[peer], of[OURS])) if peer in of else ""
        for peer, of in ((MARIAN, processor_s), (MARIAN, elapsed_s), (SLIMT, processor_s))
    ]
    speeds = [tokens / statistics.median(processor_s[name]) for name in (OURS, MARIAN)]
    cells = [search_name(search.beam_width), str(search.batch_size)]
    return [model, *cells, *(f"{speed:.0f}" for speed in speeds), *over]


def bound(model: str, bundle: Path, texts: Texts) -> list[str]:
    """A row of the table of speed without shortlists."""
    student = MODELS[model]
    e, f = student.model_size, student.feed_forward_size
    step_bytes = student.decoder_layers * (4 * e * e + 2 * e * f) + student.entries * e
    search = BatchSearch(1, 1, 0.0, options={**_OPTIONS, "shortlist": False})
    with start_engine(bundle, "int8", "texts") as worker:
        taken = [run(worker, texts, search) for _ in range(3)][1:]
    gb_per_s = memory_gb_per_s()
    speed = taken[0].tokens / min(sample.processor_s for sample in taken)
    limit = gb_per_s * 1e9 / step_bytes
    return [model, f"{step_bytes / 1e6:.1f}", f"{gb_per_s:.1f}", f"{limit:.0f}", f"{speed:.0f}"]


@program(
    number("--rounds", 5),
    option("--models", nargs="+", choices=MODELS, default=list(MODELS)),
    option("--even", action="store_true", help="all words are equally frequent"),
)
def main(arguments: argparse.Namespace) -> Results:
    """Measure and print."""
    os.sched_setaffinity(0, {max(usable_processors())})
    rows, results, bounds = [], [], []
    steps = len(arguments.models) * len(CASES)
    with tempfile.TemporaryDirectory() as scratch, progress(steps) as advance:
        for model in arguments.models:
            folder, student = Path(scratch) / model, MODELS[model]
            words = Words(student.entries, arguments.even)
            write_models(folder, student, words)
            listed, computed = shortlist_sizes(folder / "bundle", words)
            print(
                f"{model}: {listed:.0f} tokens are listed for a sentence, we score {computed:.0f}"
            )
            for beam, batch in CASES:
                search = BatchSearch(beam, batch, 0.0, options=_OPTIONS)
                with contenders(folder, student, beam) as workers:
                    taken = race(workers, Texts(words.texts(), "de"), search, arguments.rounds)
                rows.append(row(model, search, taken))
                runs = {
                    name: [asdict(sample) for sample in of_peer] for name, of_peer in taken.items()
                }
                results.append({"model": model, "beam": beam, "batch": batch, "runs": runs})
                advance(model)
            bounds.append(bound(model, folder / "bundle", Texts(words.texts(), "de")))
    print("\nWithout a shortlist, greedy, one sentence at a time:\n")
    print(markdown_table(_BOUND, bounds))
    head = ["model", "search", "at a time", "our tokens/s", "bergamot's", "over bergamot"]
    head += ["by wall time", "over slimt"]
    print(f"\n{choose_instruction_set()}:\n\n{markdown_table(head, rows)}")
    return {"results": results}


if __name__ == "__main__":
    sys.exit(main())
