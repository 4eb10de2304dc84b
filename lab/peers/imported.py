"""Speed of an imported model compared with `transformers` and CTranslate2, on CPUs.

    CT2_FORCE_CPU_ISA=AVX512 python -m lab.peers.imported

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
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from dragoman.kernel.errors import CheckFailed
from dragoman.kernel.processors import usable_processors
from lab.measurement import Results, alternate, number, option, program, progress, ratios
from lab.peers.contenders import LENGTH_PENALTY
from lab.peers.engine_race import (
    PAUSE_S,
    Worker,
    Workload,
    best_setting,
    peer_run,
    peer_settings,
)
from lab.peers.models.base_model import SOURCE_TOKENS, TARGET_TOKENS, random_sources
from lab.peers.models.imported_model import Sizes, write_random_model
from lab.peers.processes import (
    PeerSetting,
    Threads,
    WorkerProcess,
    peer_words,
    start_engine,
)
from lab.peers.workers.worker_protocol import Answer, BatchSearch, Sample, TokenIds
from lab.report import markdown_table, search_name, spread

CASES = ((1, 1), (1, 8), (1, 32), (4, 1), (4, 8))
"""Beam width and batch size."""
SMALL = Sizes(vocab_size=2000, model_size=64, feed_forward_size=128, heads=4, layers=2)
_LEAST_SENTENCES = 8
_COMPARED = 4
OURS, PLAIN = "Dragoman int8", "transformers"


@dataclass(frozen=True)
class Case:
    """The rounds of one search and batch size, by contender; round N of all ran together."""

    beam_width: int
    batch_size: int
    sentences: int
    peer_setting: str
    samples: Mapping[str, Sequence[Sample]]

    def ratios(self, peer: str) -> list[float]:
        """Our speed over a peer's, for each round."""
        return ratios(self._seconds(peer), self._seconds(OURS))

    def cells(self) -> list[str]:
        """A row of the table."""
        ours = self.sentences * TARGET_TOKENS / statistics.median(self._seconds(OURS))
        peers = [spread(self.ratios(name)) for name in (self.peer_setting, PLAIN)]
        name = search_name(self.beam_width)
        return [name, str(self.batch_size), f"{ours:.0f}", *peers, self.peer_setting]

    def _seconds(self, name: str) -> list[float]:
        return [sample.elapsed_s for sample in self.samples[name]]


@dataclass(frozen=True)
class _Contenders:
    ours: Worker
    plain: Worker
    peers: Mapping[PeerSetting, Worker]
    vocab_size: int

    def sources(self, sentences: int) -> TokenIds:
        """Random ids of subword tokens; padding entries have no name in the other models."""
        return random_sources(sentences, self.vocab_size - self.vocab_size // 10)


def measure(sizes: Sizes, cases: Sequence[tuple[int, int]], rounds: int) -> Iterator[Case]:
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

        def start(peer: str, source: Path, setting: PeerSetting) -> Worker:
            words = ["--peer", peer, *peer_words(source, bundle, setting, True)]
            return held.enter_context(WorkerProcess("lab.peers.workers.imported_worker", words))

        peers = {setting: start("ctranslate2", model, setting) for setting in peer_settings(cores)}
        plain = start("transformers", folder, PeerSetting("float32", Threads(cores, 1)))
        ours = held.enter_context(start_engine(bundle, "int8", "ids", endless=True))
        contenders = _Contenders(ours, plain, peers, vocab_size)
        with start_engine(bundle, "fp32", "ids", endless=True) as exact:
            float_peer = next(peer for peer in peers if peer.compute_type == "float32")
            compared: dict[str, Worker] = {"Dragoman fp32": exact, PLAIN: plain}
            compared["CTranslate2 float32"] = peers[float_peer]
            print(_likeness(compared, contenders.sources(_COMPARED)), flush=True)
        for width, size in cases:
            yield _race(BatchSearch(width, size, LENGTH_PENALTY), contenders, rounds)


def _likeness(workers: Mapping[str, Worker], inputs: TokenIds) -> str:
    """How many tokens of the translations agree."""
    search = BatchSearch(1, _COMPARED, LENGTH_PENALTY)
    translations = {name: worker.run(inputs, search).ids or [] for name, worker in workers.items()}
    first, *others = translations
    lines = []
    for name in others:
        agreed = [
            next((i for i, (a, b) in enumerate(zip(*pair, strict=True)) if a != b), len(pair[0]))
            for pair in zip(translations[first], translations[name], strict=True)
        ]
        lines.append(f"{name}: {sum(agreed)} of {_COMPARED * TARGET_TOKENS} tokens as {first}")
    return "\n".join(lines)


def _race(search: BatchSearch, contenders: _Contenders, rounds: int) -> Case:
    inputs = contenders.sources(max(2 * search.batch_size, _LEAST_SENTENCES))
    tokens = len(inputs) * (SOURCE_TOKENS - 1)
    workload = Workload("imported", inputs, search, tokens, LENGTH_PENALTY)
    best = best_setting(workload, contenders.peers)
    for worker in (contenders.ours, contenders.plain):  # the peer is warm from the trial
        worker.run(workload.trial, search)
    runs: dict[str, Callable[[], Answer]] = {
        OURS: partial(contenders.ours.run, inputs, search),
        str(best): peer_run(workload, contenders.peers, best, inputs),
        PLAIN: partial(contenders.plain.run, inputs, search),
    }
    answers = alternate(runs, rounds, pause_s=PAUSE_S)
    samples = {
        name: [answer.sample for answer in of_contender] for name, of_contender in answers.items()
    }
    for name, of_contender in samples.items():
        written = {sample.output_tokens for sample in of_contender}
        if written != {len(inputs) * TARGET_TOKENS}:
            raise CheckFailed(f"{name}: wrote {sorted(written)} tokens, not {TARGET_TOKENS} each")
    return Case(search.beam_width, search.batch_size, len(inputs), str(best), samples)


@program(
    number("--rounds", 3),
    option("--small", action="store_true", help="a tiny model, for a quick test"),
)
def main(arguments: argparse.Namespace) -> Results:
    """Measure and print."""
    sizes = SMALL if arguments.small else Sizes()
    cases = []
    with progress(len(CASES)) as advance:
        for case in measure(sizes, CASES, arguments.rounds):
            cases.append(case)
            advance(f"{search_name(case.beam_width)}, {case.batch_size} at a time")
    head = ["search", "at a time", "our tokens/s", "over CTranslate2", "over transformers"]
    print(f"\n{markdown_table([*head, 'CTranslate2'], [case.cells() for case in cases])}")
    return {"cases": [asdict(case) for case in cases]}


if __name__ == "__main__":
    sys.exit(main())
