"""Compares our engine with the best setting of CTranslate2, for each case."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from lab.peers.contenders import Run
from lab.peers.engine_report import EngineCase
from lab.peers.processes import ComputeType, Precision, Threads
from lab.peers.racing import Runner, alternate, fastest
from lab.peers.worker_protocol import Batching, BatchSearch, Inputs

TRIAL_ROUNDS = 2
"""Rounds of the trial; the first is a warm-up."""
_LEAST_TRIAL_SENTENCES = 4
_TRIAL_SHARE = 4


class Worker(Protocol):
    """The part of `lab.peers.processes.WorkerProcess` that a race needs."""

    def run(self, inputs: Inputs, search: BatchSearch) -> Run:
        """Translate sentences in order, one batch after the other."""
        ...


@dataclass(frozen=True)
class PeerProcess:
    """The settings with which CTranslate2's process is started."""

    compute_type: ComputeType
    threads: Threads

    def __str__(self) -> str:
        """Its name in the tables."""
        return f"{self.compute_type}, {self.threads}"


@dataclass(frozen=True)
class PeerSetting:
    """A setting of CTranslate2: its process, and how it splits batches."""

    process: PeerProcess
    batching: Batching

    def __str__(self) -> str:
        """Its name in the tables."""
        return f"{self.process}{', by tokens' * (self.batching == 'tokens')}"


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
    def trial(self) -> Inputs:
        """The part of it that is used to choose the best setting."""
        wanted = max(len(self.inputs) // _TRIAL_SHARE, self.search.batch_size)
        return self.inputs.first(max(wanted, _LEAST_TRIAL_SENTENCES))


@dataclass(frozen=True)
class Field:
    """The contenders: our engine by precision, CTranslate2 by its process."""

    ours: Mapping[Precision, Worker]
    peers: Mapping[PeerProcess, Worker]


def peer_processes(cores: int) -> list[PeerProcess]:
    """The settings with which CTranslate2's process may be started on this many cores."""
    threads = dict.fromkeys((Threads(1, cores), Threads(cores, 1), Threads(1, 1)))
    return [PeerProcess(kind, each) for kind in ("int8", "float32") for each in threads]


def peer_settings(peers: Mapping[PeerProcess, Worker], batch_size: int) -> list[PeerSetting]:
    """All settings for a batch size; splitting by tokens only if there are sub-batches."""
    settings = []
    for process in peers:
        has_parts = process.threads.inter > 1 and batch_size > 1
        ways: tuple[Batching, ...] = ("examples", "tokens") if has_parts else ("examples",)
        settings += [PeerSetting(process, batching) for batching in ways]
    return settings


def count_runs(workload: Workload, field: Field, rounds: int) -> int:
    """Number of runs that `race` takes."""
    settings = peer_settings(field.peers, workload.search.batch_size)
    trials = TRIAL_ROUNDS * len(settings) + len(field.ours)
    return trials + rounds * (len(field.ours) + 1)


def race(
    workload: Workload, field: Field, rounds: int, advance: Callable[[], None]
) -> tuple[list[EngineCase], PeerSetting]:
    """Find CTranslate2's best setting for a workload, then compare with it.

    Args:
        workload: what to translate.
        field: the contenders.
        rounds: in each round, every contender runs once.
        advance: called after each run.

    Returns:
        A case for each of our precisions, and the setting.
    """
    best = best_setting(workload, field, advance)
    runners: dict[Precision | PeerSetting, Runner] = {
        precision: partial(worker.run, workload.inputs, workload.search)
        for precision, worker in field.ours.items()
    }
    for worker in field.ours.values():  # the peer is warm from the trial
        worker.run(workload.trial, workload.search)
        advance()
    runners[best] = _peer_runner(workload, field, best, workload.inputs)
    samples = alternate(runners, rounds, advance)
    cases = [
        EngineCase(
            test=workload.model,
            beam_width=workload.search.beam_width,
            batch_size=workload.search.batch_size,
            sentences=len(workload.inputs),
            source_tokens=workload.source_tokens,
            dragoman=samples[precision],
            ctranslate2={str(best): samples[best]},
            precision=precision,
        )
        for precision in field.ours
    ]
    return cases, best


def best_setting(workload: Workload, field: Field, advance: Callable[[], None]) -> PeerSetting:
    """CTranslate2's fastest setting on the beginning of a workload."""
    runners = {
        setting: _peer_runner(workload, field, setting, workload.trial)
        for setting in peer_settings(field.peers, workload.search.batch_size)
    }
    return fastest(alternate(runners, TRIAL_ROUNDS, advance))


def _peer_runner(workload: Workload, field: Field, setting: PeerSetting, inputs: Inputs) -> Runner:
    search = replace(
        workload.search,
        length_penalty=workload.peer_length_penalty,
        batching=setting.batching,
    )
    return partial(field.peers[setting.process].run, inputs, search)
