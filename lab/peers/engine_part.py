"""Runs all cases of one model: loads the contenders, and lets them translate in turns."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from dragoman.kernel.errors import CheckFailed
from dragoman.kernel.processors import usable_processors
from lab.console import progress
from lab.peers.base_model import (
    SOURCE_TOKENS,
    TARGET_TOKENS,
    random_sources,
    write_random_bundle,
)
from lab.peers.contenders import LENGTH_PENALTY, TARGET_LANGUAGE, LengthPenalties
from lab.peers.engine_race import (
    Field,
    PeerProcess,
    Workload,
    count_runs,
    peer_processes,
    race,
)
from lab.peers.engine_report import EngineCase, Memory
from lab.peers.instruction_sets import InstructionSet, check_ours
from lab.peers.processes import (
    CTranslate2Process,
    EngineProcess,
    Precision,
    WorkerProcess,
    convert_for_ctranslate2,
)
from lab.peers.test_set import TestSet
from lab.peers.worker_protocol import BatchSearch, Texts
from lab.report import search_name

CASES = ((1, 1), (1, 8), (1, 32), (1, 64), (4, 1), (4, 8), (4, 32), (4, 64))
"""Beam width and batch size."""
_LEAST_SENTENCES = 12


@dataclass(frozen=True)
class Models:
    """One model in both formats; `endless` if translations must reach the limit."""

    bundle: Path
    converted: Path
    endless: bool


@dataclass(frozen=True)
class Plan:
    """How to measure.

    Attributes:
        precisions: of our engine; each is a contender.
        rounds: in each round, every contender runs once.
        instruction_set: the one that our int8 must use.
    """

    precisions: Sequence[Precision]
    rounds: int
    instruction_set: InstructionSet


@dataclass(frozen=True)
class Part:
    """Results of one model; `instruction_sets` are those that our processes reported."""

    cases: list[EngineCase]
    memories: list[Memory]
    instruction_sets: Mapping[Precision, str | None]


def base_workloads() -> list[Workload]:
    """Two batches for each case, and some more sentences if batches are small."""
    workloads = []
    for width, size in CASES:
        inputs = random_sources(max(2 * size, _LEAST_SENTENCES))
        search = BatchSearch(width, size, LENGTH_PENALTY)
        source_tokens = len(inputs) * (SOURCE_TOKENS - 1)
        workloads.append(Workload("base", inputs, search, source_tokens, LENGTH_PENALTY))
    return workloads


def shipped_workloads(test: TestSet, penalties: LengthPenalties) -> list[Workload]:
    """All sentences of a test set, in every case."""
    inputs = Texts(test.texts, TARGET_LANGUAGE)
    searches = [BatchSearch(width, size, penalties.ours) for width, size in CASES]
    return [
        Workload("shipped", inputs, search, test.source_tokens, penalties.peer)
        for search in searches
    ]


def check_lengths(cases: Sequence[EngineCase]) -> None:
    """Check that suppressing the end symbol had its effect.

    Raises:
        CheckFailed: a contender generated more or fewer tokens than requested.
    """
    for case in cases:
        (peer,) = case.ctranslate2.values()
        wanted = case.sentences * TARGET_TOKENS
        found = {sample.output_tokens for sample in (*case.dragoman, *peer)}
        if found != {wanted}:
            raise CheckFailed(f"{case.test}: wrote {sorted(found)} tokens instead of {wanted}")


def measure_shipped(test: TestSet, models: Models, plan: Plan, penalties: LengthPenalties) -> Part:
    """Run all cases on a test set.

    Args:
        test: its sentences.
        models: the shipped model.
        plan: how to measure.
        penalties: of both sides.

    Raises:
        DragomanError: a contender ended, or ours uses another instruction set.
    """
    return _measure(shipped_workloads(test, penalties), models, plan)


def measure_base(plan: Plan) -> Part:
    """Make a model of base size, and run all cases on random ids.

    Args:
        plan: how to measure.

    Raises:
        DragomanError: a contender ended, generated another number of tokens than requested, or
            ours uses another instruction set.
    """
    with tempfile.TemporaryDirectory() as folder:
        bundle = write_random_bundle(Path(folder))
        with converted(bundle, endless=True) as models:
            part = _measure(base_workloads(), models, plan)
    check_lengths(part.cases)
    return part


@contextlib.contextmanager
def converted(bundle: Path, endless: bool) -> Iterator[Models]:
    """A bundle and its temporary conversion for CTranslate2.

    Raises:
        DragomanError: it cannot be converted.
    """
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        convert_for_ctranslate2(bundle, model)
        yield Models(bundle, model, endless)


def _measure(workloads: Sequence[Workload], models: Models, plan: Plan) -> Part:
    takes: Literal["texts", "ids"] = "ids" if models.endless else "texts"
    with contextlib.ExitStack() as held:
        ours = {
            precision: held.enter_context(
                EngineProcess(models.bundle, precision, takes, models.endless)
            )
            for precision in plan.precisions
        }
        reported = {precision: process.instruction_set for precision, process in ours.items()}
        if "int8" in reported:  # fp32 runs on ONNX Runtime
            check_ours(reported["int8"], plan.instruction_set)
        peers = {
            setting: held.enter_context(start_peer(models, setting))
            for setting in peer_processes(len(usable_processors()))
        }
        cases, chosen = _race_all(workloads, Field(ours, peers), plan.rounds)
        used = {setting: peers[setting] for setting in chosen}
        return Part(cases, _read_memories(workloads[0].model, ours, used), reported)


def _race_all(
    workloads: Sequence[Workload], field: Field, rounds: int
) -> tuple[list[EngineCase], list[PeerProcess]]:
    """All cases, and the settings of CTranslate2 that were the best."""
    cases: list[EngineCase] = []
    chosen: dict[PeerProcess, None] = {}
    with progress(sum(count_runs(one, field, rounds) for one in workloads)) as advance:
        for workload in workloads:
            search = workload.search
            name = f"{workload.model}: {search_name(search.beam_width)}, batch {search.batch_size}"
            found, best = race(workload, field, rounds, partial(advance, name))
            cases += found
            chosen[best.process] = None
    return cases, list(chosen)


def start_peer(models: Models, setting: PeerProcess) -> CTranslate2Process:
    """CTranslate2 with one setting."""
    return CTranslate2Process(
        models.converted, models.bundle, setting.threads, setting.compute_type, models.endless
    )


def _read_memories(
    model: str,
    ours: Mapping[Precision, WorkerProcess],
    peers: Mapping[PeerProcess, WorkerProcess],
) -> list[Memory]:
    named = [
        *(("Dragoman", str(precision), process) for precision, process in ours.items()),
        *(("CTranslate2", str(setting), process) for setting, process in peers.items()),
    ]
    return [
        Memory(model, contender, setting, process.peak_bytes)
        for contender, setting, process in named
    ]
