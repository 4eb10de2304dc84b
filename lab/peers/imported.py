"""Speed of an imported model compared with `transformers` and CTranslate2, on CPUs.

Run from the project's folder on an otherwise idle machine:

    CT2_FORCE_CPU_ISA=AVX512 python -m lab.peers.imported [--rounds N] [--json FILE]

The model has the size of Helsinki-NLP/opus-mt-en-de and random weights. `dragoman import-marian`
and CTranslate2's own converter read the same folder. Sources have 32 ids and all translations 32
tokens, since the end symbol is suppressed everywhere; nothing is tokenized. Each contender has its
own process. `transformers` runs in fp32 on all cores; CTranslate2 gets its fastest setting for each
case, as in `lab.peers.engine`. Rounds alternate.

Before the speed, all contenders translate the same sentences greedily in fp32. The report says how
many tokens equal the first contender's, up to the first difference: random weights make near ties.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from dragoman.kernel.errors import CheckFailed, DragomanError
from dragoman.kernel.processors import usable_processors
from lab.conditions import conditions
from lab.console import positive, progress
from lab.peers.base_model import SOURCE_TOKENS, TARGET_TOKENS, random_sources
from lab.peers.contenders import LENGTH_PENALTY
from lab.peers.engine_race import (
    TRIAL_ROUNDS,
    Field,
    PeerProcess,
    Worker,
    Workload,
    best_setting,
    peer_processes,
    peer_settings,
)
from lab.peers.imported_model import Sizes, write_random_model
from lab.peers.processes import EngineProcess, Threads, WorkerProcess
from lab.peers.racing import alternate
from lab.peers.worker_protocol import BatchSearch, TokenIds
from lab.report import Sample, markdown_table, median_s, search_name, spread

CASES = ((1, 1), (1, 8), (1, 32), (4, 1), (4, 8))
"""Beam width and batch size."""
SMALL = Sizes(vocab_size=2000, model_size=64, feed_forward_size=128, heads=4, layers=2)
_LEAST_SENTENCES = 8
_COMPARED = 4
_MORE_PACKAGES = ("torch", "transformers")
OURS, PLAIN = "Dragoman int8", "transformers"


class ImportedPeer(WorkerProcess):
    """A peer with the same model."""

    def __init__(
        self, peer: str, model: Path, bundle: Path, threads: Threads, compute_type: str = "float32"
    ) -> None:
        """Start the process and wait until it has loaded the model.

        Raises:
            DragomanError: it did not start.
        """
        words = [
            *("--peer", peer, "--model", str(model), "--bundle", str(bundle)),
            *("--intra-threads", str(threads.intra), "--inter-threads", str(threads.inter)),
            *("--compute-type", compute_type),
        ]
        super().__init__("lab.peers.imported_worker", words)


@dataclass(frozen=True)
class ImportedCase:
    """The rounds of one search and batch size, by contender; round N of all ran together."""

    beam_width: int
    batch_size: int
    sentences: int
    peer_setting: str
    samples: Mapping[str, tuple[Sample, ...]]

    def ratios(self, peer: str) -> list[float]:
        """Our speed over a peer's, for each round."""
        rounds = zip(self.samples[OURS], self.samples[peer], strict=True)
        return [theirs.elapsed_s / ours.elapsed_s for ours, theirs in rounds]

    def cells(self) -> list[str]:
        """A row of the table."""
        ours = self.sentences * TARGET_TOKENS / median_s(self.samples[OURS])
        peers = [spread(self.ratios(name)) for name in (self.peer_setting, PLAIN)]
        name = search_name(self.beam_width)
        return [name, str(self.batch_size), f"{ours:.0f}", *peers, self.peer_setting]


def measure(sizes: Sizes, cases: Sequence[tuple[int, int]], rounds: int) -> Iterator[ImportedCase]:
    """Make the model, import and convert it, and race.

    Yields:
        The cases, as they are finished.

    Raises:
        DragomanError: a contender ended, or generated another number of tokens than requested.
    """
    from ctranslate2.converters import TransformersConverter
    from dragoman_export.bundle import export_bundle
    from dragoman_training.marian.importing import import_marian

    with contextlib.ExitStack() as held:
        parent = Path(held.enter_context(tempfile.TemporaryDirectory()))
        folder, bundle, model = (parent / name for name in ("opus-mt-en-de", "bundle", "model"))
        write_random_model(folder, sizes)
        import_marian(folder, parent / "checkpoint")
        vocab_size = export_bundle(parent / "checkpoint", bundle).dimensions.vocab_size
        TransformersConverter(str(folder)).convert(str(model))
        cores = len(usable_processors())
        start = held.enter_context
        peers: dict[PeerProcess, Worker] = {
            process: start(
                ImportedPeer("ctranslate2", model, bundle, process.threads, process.compute_type)
            )
            for process in peer_processes(cores)
        }
        plain = start(ImportedPeer("transformers", folder, bundle, Threads(cores, 1)))
        ours = start(EngineProcess(bundle, "int8", "ids", endless=True))
        with EngineProcess(bundle, "fp32", "ids", endless=True) as exact:
            compared: dict[str, Worker] = {"Dragoman fp32": exact, PLAIN: plain}
            float_peer = next(one for one in peers if one.compute_type == "float32")
            compared["CTranslate2 float32"] = peers[float_peer]
            print(_likeness(compared, vocab_size), flush=True)
        field = Field({"int8": ours}, peers)
        for case in cases:
            yield _race(case, field, plain, rounds, vocab_size)


def _sources(sentences: int, vocab_size: int) -> TokenIds:
    """Random ids of subword tokens only; padding entries have no name in the other models."""
    return random_sources(sentences, vocab_size - vocab_size // 10)


def _likeness(workers: Mapping[str, Worker], vocab_size: int) -> str:
    """How many tokens of the translations agree."""
    inputs = _sources(_COMPARED, vocab_size)
    search = BatchSearch(1, _COMPARED, LENGTH_PENALTY)
    found = {
        name: [output.ids or () for output in worker.run(inputs, search).outputs]
        for name, worker in workers.items()
    }
    first, *others = found
    lines = []
    for name in others:
        agreed = [
            next((i for i, (a, b) in enumerate(zip(*pair, strict=True)) if a != b), len(pair[0]))
            for pair in zip(found[first], found[name], strict=True)
        ]
        lines.append(f"{name}: {sum(agreed)} of {_COMPARED * TARGET_TOKENS} tokens as {first}")
    return "\n".join(lines)


def _race(
    case: tuple[int, int], field: Field, plain: Worker, rounds: int, vocab_size: int
) -> ImportedCase:
    width, size = case
    inputs = _sources(max(2 * size, _LEAST_SENTENCES), vocab_size)
    search = BatchSearch(width, size, LENGTH_PENALTY)
    tokens = len(inputs) * (SOURCE_TOKENS - 1)
    workload = Workload("imported", inputs, search, tokens, LENGTH_PENALTY)
    (ours,) = field.ours.values()
    trials = TRIAL_ROUNDS * len(peer_settings(field.peers, size))
    with progress(trials + 3 * rounds) as told:
        advance = partial(told, f"{search_name(width)}, {size} at a time")
        best = best_setting(workload, field, advance)
        for worker in (ours, plain):  # the peer is warm from the trial
            worker.run(workload.trial, search)
        peer = field.peers[best.process]
        runners = {
            OURS: partial(ours.run, inputs, search),
            str(best): partial(
                peer.run, inputs, BatchSearch(width, size, LENGTH_PENALTY, best.batching)
            ),
            PLAIN: partial(plain.run, inputs, search),
        }
        samples = alternate(runners, rounds, advance)
    for name, of_one in samples.items():
        wrote = {sample.output_tokens for sample in of_one}
        if wrote != {len(inputs) * TARGET_TOKENS}:
            raise CheckFailed(f"{name}: wrote {sorted(wrote)} tokens, not {TARGET_TOKENS} each")
    return ImportedCase(width, size, len(inputs), str(best), samples)


def main(words: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Args:
        words: the command line without the module's name; None: `sys.argv`.

    Returns:
        0 done, 1 something failed, 2 usage.
    """
    words = sys.argv[1:] if words is None else words
    parser = argparse.ArgumentParser(
        prog="python -m lab.peers.imported",
        description="Speed of an imported model compared with transformers and CTranslate2.",
    )
    parser.add_argument("--rounds", type=positive, default=3, help="default: 3")
    parser.add_argument("--small", action="store_true", help="a tiny model, for a quick test")
    parser.add_argument("--json", type=Path, help="file for all results")
    arguments = parser.parse_args(words)
    load_1min = os.getloadavg()[0]
    sizes = SMALL if arguments.small else Sizes()
    cases: list[ImportedCase] = []
    try:
        for case in measure(sizes, CASES, arguments.rounds):
            cases.append(case)
            print("  ".join(case.cells()), flush=True)
    except DragomanError as error:
        print(f"lab.peers.imported: {error}", file=sys.stderr)
        return error.exit_code
    head = ["search", "at a time", "our tokens/s", "over CTranslate2", "over transformers"]
    print(f"\n{markdown_table([*head, 'CTranslate2'], [case.cells() for case in cases])}")
    found = conditions("lab.peers.imported", words, load_1min)
    found["versions"] |= {name: importlib.metadata.version(name) for name in _MORE_PACKAGES}
    print(f"\n{found['cpu']}, {found['cores']} cores: {found['command']}")
    if arguments.json:
        values: dict[str, Any] = {**found, "cases": [asdict(case) for case in cases]}
        arguments.json.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
