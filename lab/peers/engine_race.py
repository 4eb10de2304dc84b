"""Compares our engine with the best setting of CTranslate2, for each workload."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from dragoman.kernel.errors import CheckFailed
from dragoman.kernel.processors import usable_processors
from lab.measurement import alternate, progress, ratios
from lab.peers.processes import PeerSetting, Precision, Threads, start_engine, start_peer
from lab.peers.workers.worker_protocol import Answer, Batching, BatchSearch, Inputs, Sample, Texts
from lab.report import markdown_table, percent, search_name, spread

PAUSE_S = 0.5
"""Pause between runs: the threads of the last run spin for a while before they sleep."""
TRIAL_ROUNDS = 2
"""Rounds of the trial; the first is a warm-up."""
_LEAST_TRIAL_SENTENCES = 4
_TRIAL_SHARE = 4
_MIB = 2**20


class Worker(Protocol):
    """The part of `lab.peers.processes.WorkerProcess` that a race needs."""

    def run(self, inputs: Inputs, search: BatchSearch) -> Answer:
        """Translate sentences in order, one batch after the other."""
        ...


@dataclass(frozen=True)
class Workload:
    """The input of all contenders, and the peer's length penalty.

    `source_tokens` are without specials.
    """

    model: str
    inputs: Inputs
    search: BatchSearch
    source_tokens: int
    peer_length_penalty: float

    @property
    def name(self) -> str:
        """Its name in progress bars."""
        search = self.search
        return f"{self.model}: {search_name(search.beam_width)}, batch {search.batch_size}"

    @property
    def trial(self) -> Inputs:
        """The part of it that is used to choose the best setting."""
        sentences = max(len(self.inputs) // _TRIAL_SHARE, self.search.batch_size)
        return self.inputs.first(max(sentences, _LEAST_TRIAL_SENTENCES))


@dataclass(frozen=True)
class Best:
    """The fastest setting of CTranslate2: its process, and how it splits batches."""

    process: PeerSetting
    batching: Batching

    def __str__(self) -> str:
        """Its name in the tables."""
        return f"{self.process}{', by tokens' * (self.batching == 'tokens')}"


@dataclass(frozen=True)
class Case:
    """The rounds of one workload and precision; round N of both ran together."""

    model: str
    beam_width: int
    batch_size: int
    precision: str
    sentences: int
    source_tokens: int
    setting: str
    dragoman: Sequence[Sample]
    ctranslate2: Sequence[Sample]

    @property
    def ratios(self) -> list[float]:
        """Dragoman's sentences per second over CTranslate2's, for each round.

        It counts sentences, not tokens, so that longer translations of the same text are no
        advantage.
        """
        sides = (self.ctranslate2, self.dragoman)
        return ratios(*([sample.elapsed_s for sample in side] for side in sides))

    def summary(self) -> dict[str, Any]:
        """All samples and ratios, for JSON."""
        return {**asdict(self), "ratios": self.ratios}

    def per_s(self, samples: Sequence[Sample]) -> tuple[float, float]:
        """Sentences and tokens per second, of the median duration."""
        elapsed_s = statistics.median(sample.elapsed_s for sample in samples)
        return self.sentences / elapsed_s, samples[0].output_tokens / elapsed_s


def peer_settings(cores: int) -> list[PeerSetting]:
    """The settings with which CTranslate2's process may be started on this many cores."""
    threads = dict.fromkeys((Threads(1, cores), Threads(cores, 1), Threads(1, 1)))
    return [PeerSetting(kind, each) for kind in ("int8", "float32") for each in threads]


def race(
    workload: Workload,
    ours: Mapping[Precision, Worker],
    peers: Mapping[PeerSetting, Worker],
    rounds: int,
    advance: Callable[[], None] = lambda: None,
) -> tuple[list[Case], PeerSetting]:
    """Find CTranslate2's best setting for a workload, then compare with it.

    Returns:
        A case for each precision of our engine, and CTranslate2's setting.
    """
    best = best_setting(workload, peers, advance)
    runs: dict[Precision | Best, Callable[[], Answer]] = {
        precision: partial(worker.run, workload.inputs, workload.search)
        for precision, worker in ours.items()
    }
    for worker in ours.values():  # the peer is warm from the trial
        worker.run(workload.trial, workload.search)
        advance()
    runs[best] = peer_run(workload, peers, best, workload.inputs)
    answers = alternate(runs, rounds, pause_s=PAUSE_S, advance=advance)
    samples = {
        name: [answer.sample for answer in of_contender] for name, of_contender in answers.items()
    }
    search = workload.search
    return [
        Case(
            model=workload.model,
            beam_width=search.beam_width,
            batch_size=search.batch_size,
            precision=precision,
            sentences=len(workload.inputs),
            source_tokens=workload.source_tokens,
            setting=str(best),
            dragoman=samples[precision],
            ctranslate2=samples[best],
        )
        for precision in ours
    ], best.process


def best_setting(
    workload: Workload,
    peers: Mapping[PeerSetting, Worker],
    advance: Callable[[], None] = lambda: None,
) -> Best:
    """CTranslate2's fastest setting on the beginning of a workload.

    Splitting by tokens is only tried if there are sub-batches. The fastest is the one with the
    fastest single run, since disturbances only make runs slower.
    """
    runs = {}
    for setting in peers:
        has_parts = setting.threads.inter > 1 and workload.search.batch_size > 1
        batchings: tuple[Batching, ...] = ("examples", "tokens") if has_parts else ("examples",)
        for batching in batchings:
            best = Best(setting, batching)
            runs[best] = peer_run(workload, peers, best, workload.trial)
    answers = alternate(runs, TRIAL_ROUNDS, pause_s=PAUSE_S, advance=advance)
    return min(answers, key=lambda best: min(answer.elapsed_s for answer in answers[best]))


def peer_run(
    workload: Workload, peers: Mapping[PeerSetting, Worker], best: Best, inputs: Inputs
) -> Callable[[], Answer]:
    """A run of CTranslate2 with a setting."""
    penalty = workload.peer_length_penalty
    search = replace(workload.search, length_penalty=penalty, batching=best.batching)
    return partial(peers[best.process].run, inputs, search)


Memory = tuple[str, str, str, int]
"""The model, the contender, its setting, and the peak resident bytes of its process."""


def race_all(
    workloads: Sequence[Workload],
    bundle: Path,
    model: Path,
    precisions: Sequence[Precision],
    rounds: int,
    check_ours: Callable[[str | None], None],
) -> tuple[list[Case], list[Memory]]:
    """Start all contenders, and race them on workloads of one model.

    Args:
        workloads: all with texts, or all with ids; translations of ids never end early.
        bundle: of the model.
        model: the same for CTranslate2.
        precisions: of our engine; each is a contender.
        rounds: in each round, every contender runs once.
        check_ours: called with the instruction set of our int8; raises if it is another one.

    Raises:
        DragomanError: a contender ended.
    """
    endless = not isinstance(workloads[0].inputs, Texts)
    with contextlib.ExitStack() as held, progress(len(workloads)) as advance:
        ours = {
            precision: held.enter_context(
                start_engine(bundle, precision, "ids" if endless else "texts", endless)
            )
            for precision in precisions
        }
        if "int8" in ours:  # fp32 runs on ONNX Runtime
            check_ours(ours["int8"].instruction_set)
        peers = {
            setting: held.enter_context(start_peer(model, bundle, setting, endless))
            for setting in peer_settings(len(usable_processors()))
        }
        cases: list[Case] = []
        chosen: dict[PeerSetting, None] = {}
        for workload in workloads:
            of_workload, setting = race(workload, ours, peers, rounds)
            cases += of_workload
            chosen[setting] = None
            advance(workload.name)
        named = [("Dragoman", str(precision), process) for precision, process in ours.items()]
        named += [("CTranslate2", str(setting), peers[setting]) for setting in chosen]
        memories = [
            (workloads[0].model, contender, setting, process.peak_bytes)
            for contender, setting, process in named
        ]
    return cases, memories


def check_lengths(cases: Sequence[Case], tokens: int) -> None:
    """Check that every translation has this many tokens: suppressing the end had its effect.

    Raises:
        CheckFailed: a contender generated more or fewer tokens than requested.
    """
    for case in cases:
        expected = case.sentences * tokens
        written = {sample.output_tokens for sample in (*case.dragoman, *case.ctranslate2)}
        if written != {expected}:
            raise CheckFailed(f"{case.model}: wrote {sorted(written)} tokens instead of {expected}")


def token_table(cases: Sequence[Case]) -> str:
    """Speed of both if all translations have the same length."""
    header = ("search", "batch", "precision", "Dragoman tok/s", "CTranslate2 tok/s", "its setting")
    rows = []
    for case in cases:
        tokens_per_s = (f"{case.per_s(side)[1]:.0f}" for side in (case.dragoman, case.ctranslate2))
        rows.append((*_names(case), *tokens_per_s, case.setting, spread(case.ratios)))
    return markdown_table((*header, "ratio (min..max)"), rows)


def text_table(cases: Sequence[Case]) -> str:
    """Speed of both on text; the ratio is of sentences per second."""
    header = (
        *("search", "batch", "precision", "Dragoman sent/s", "tok/s", "CTranslate2 sent/s"),
        *("tok/s", "its setting", "ratio (min..max)", "output/input tokens", "cut"),
    )
    rows = []
    for case in cases:
        sides = (case.dragoman, case.ctranslate2)
        speeds = [
            cell
            for per_s, tokens_per_s in map(case.per_s, sides)
            for cell in (f"{per_s:.1f}", f"{tokens_per_s:.0f}")
        ]
        lengths = (f"{side[0].output_tokens / case.source_tokens:.2f}" for side in sides)
        cut = (percent(side[0].cut / case.sentences) for side in sides)
        last = (spread(case.ratios), " / ".join(lengths), " / ".join(cut))
        rows.append((*_names(case), *speeds, case.setting, *last))
    return markdown_table(header, rows)


def memory_table(memories: Sequence[Memory]) -> str:
    """Memory of each contender."""
    header = ("model", "contender", "setting", "peak resident MiB")
    rows = [(*names, f"{peak_bytes / _MIB:.0f}") for *names, peak_bytes in memories]
    return markdown_table(header, rows)


def _names(case: Case) -> tuple[str, str, str]:
    return search_name(case.beam_width), str(case.batch_size), case.precision
