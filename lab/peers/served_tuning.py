"""Finds CTranslate2's best setting behind Triton, for each case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lab.load import LoadPlan, LoadResult
from lab.peers.ctranslate2_repository import MAX_BATCH_SIZE, Layout, Setting
from lab.peers.served_endpoint import CTranslate2Servers
from lab.peers.served_report import Case

_DELAYS_US = (0, 1000, 5000)
_PREFERRED = tuple(2**power for power in range(2, MAX_BATCH_SIZE.bit_length()))
"""Without them, Triton would make requests wait for the whole delay unless a batch is full."""
_WARM_UP_S = 1.0


@dataclass(frozen=True)
class Trial:
    """A short load of one case with one setting."""

    case: Case
    setting: Setting
    result: LoadResult


def settings(cores: int, compute_type: str) -> list[Setting]:
    """The settings to try.

    Args:
        cores: number of cores to use.
        compute_type: CTranslate2's precision.
    """
    layouts = dict.fromkeys((Layout(cores, 1, 1), Layout(1, cores, 1), Layout(1, 1, cores)))
    return [
        Setting(layout, delay_us, _PREFERRED if delay_us else (), compute_type)
        for layout in layouts
        for delay_us in _DELAYS_US
    ]


def try_all(
    servers: CTranslate2Servers,
    candidates: Sequence[Setting],
    cases: Sequence[Case],
    texts: Sequence[str],
    duration_s: float,
    advance: Callable[[str], None],
) -> list[Trial]:
    """Put a server with each setting under the load of each case.

    Args:
        servers: their inputs; one runs at a time.
        candidates: the settings.
        cases: the loads.
        texts: each request sends one.
        duration_s: of each load.
        advance: called before each load with its name.
    """
    trials = []
    for setting in candidates:
        with servers.serve(setting) as endpoint:
            for case in cases:
                plan = LoadPlan(case.concurrency, _WARM_UP_S, duration_s)
                result = endpoint.load(texts, case.beam_width, plan)
                trials.append(Trial(case, setting, result))
                advance(f"trying {setting}: {case}")
    return trials


def best_settings(trials: Sequence[Trial]) -> dict[Case, Setting]:
    """The setting with the most sentences per second, for each case; the first of equals."""
    best: dict[Case, Trial] = {}
    for trial in trials:
        before = best.setdefault(trial.case, trial)
        if trial.result.sentences_per_s > before.result.sentences_per_s:
            best[trial.case] = trial
    return {case: trial.setting for case, trial in best.items()}
