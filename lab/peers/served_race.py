"""Loads of two servers in turn: CTranslate2's best setting, the rounds, and their tables."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from dragoman_load_test.latency import Latency, LatencyHistogram

from dragoman.kernel.errors import CheckFailed
from lab.load import GENERATOR, MACHINE, LoadPlan, LoadResult
from lab.measurement import Advance, alternate, ratios
from lab.peers.ctranslate2_repository import MAX_BATCH_SIZE, Layout, Setting
from lab.peers.engine_race import PAUSE_S
from lab.peers.served_endpoint import ENGINE, IDLE, SERVER, CTranslate2Servers, Endpoint
from lab.report import markdown_table, search_name, spread

_DELAYS_US = (0, 1000, 5000)
_PREFERRED = tuple(2**power for power in range(2, MAX_BATCH_SIZE.bit_length()))
"""Without them, Triton would make requests wait for the whole delay unless a batch is full."""
_WARM_UP_S = 2.0


@dataclass(frozen=True)
class Case:
    """The number of concurrent requests, and the search."""

    beam_width: int
    concurrency: int

    def __str__(self) -> str:
        """Its name in progress bars."""
        return f"{search_name(self.beam_width)}, {self.concurrency} at once"


@dataclass(frozen=True)
class Loads:
    """The load: which texts, how often, and for how long."""

    texts: Sequence[str]
    cases: Sequence[Case]
    rounds: int
    duration_s: float
    tuning_s: float


Trial = tuple[Case, Setting, LoadResult]
"""A short load of one case with one setting."""


def settings(cores: int, compute_type: str) -> list[Setting]:
    """The settings of CTranslate2 to try on this many cores."""
    layouts = dict.fromkeys((Layout(cores, 1, 1), Layout(1, cores, 1), Layout(1, 1, cores)))
    return [
        Setting(layout, delay_us, _PREFERRED if delay_us else (), compute_type)
        for layout in layouts
        for delay_us in _DELAYS_US
    ]


def try_all(
    servers: CTranslate2Servers, candidates: Sequence[Setting], loads: Loads, advance: Advance
) -> list[Trial]:
    """Put a server with each setting under the load of each case."""
    trials = []
    for setting in candidates:
        with servers.serve(setting) as endpoint:
            for case in loads.cases:
                plan = LoadPlan(case.concurrency, _WARM_UP_S / 2, loads.tuning_s)
                result = endpoint.load(loads.texts, case.beam_width, plan)
                trials.append((case, setting, result))
                advance(f"trying {setting}: {case}")
    return trials


def best_settings(trials: Sequence[Trial]) -> dict[Case, Setting]:
    """The setting with the most sentences per second, for each case; the first of equals."""
    best: dict[Case, Trial] = {}
    for trial in trials:
        case, _, result = trial
        before = best.setdefault(case, trial)
        if result.sentences_per_s > before[2].sentences_per_s:
            best[case] = trial
    return {case: setting for case, (_, setting, _) in best.items()}


@dataclass(frozen=True)
class Rounds:
    """One contender's loads of a case; at least one."""

    name: str
    results: Sequence[LoadResult]

    @property
    def sentences_per_s(self) -> float:
        """The median of the rounds."""
        return statistics.median(result.sentences_per_s for result in self.results)

    @property
    def tokens_per_s(self) -> float:
        """The median of the rounds."""
        return statistics.median(result.tokens_per_s for result in self.results)

    @property
    def latency(self) -> Latency:
        """Latency of the requests of all rounds together."""
        return LatencyHistogram.merge(result.latencies for result in self.results).summary()

    @property
    def cores(self) -> dict[str, float]:
        """CPU cores used, by name; each the median of the rounds."""
        return {
            name: statistics.median(
                result.cpu_s[name] / result.elapsed_s for result in self.results
            )
            for name in self.results[0].cpu_s
        }

    @property
    def cores_elsewhere(self) -> float:
        """CPU cores used by the rest of the machine, in the worst round.

        Clock ticks can make it slightly negative, so at least 0.
        """
        shares = []
        for result in self.results:
            watched = sum(busy_s for name, busy_s in result.cpu_s.items() if name != MACHINE)
            shares.append(max(0.0, result.cpu_s[MACHINE] - watched) / result.elapsed_s)
        return max(shares)


def race(
    case: Case, contenders: Mapping[str, Endpoint], loads: Loads, advance: Advance
) -> list[Rounds]:
    """Measure a case, in alternating rounds; each round has its own order of texts.

    Args:
        case: the load.
        contenders: running servers by name; only one is under load at a time.
        loads: which texts, how often, and for how long.
        advance: called after each load with its name.

    Returns:
        The rounds of each contender.

    Raises:
        CheckFailed: a contender answered nothing in a whole round.
    """
    results: dict[str, list[LoadResult]] = {name: [] for name in contenders}
    for seed in range(loads.rounds):
        plan = LoadPlan(case.concurrency, _WARM_UP_S, loads.duration_s, seed)
        runs = {}
        for name, contender in contenders.items():
            others = [other for other in contenders.values() if other is not contender]
            load = (loads.texts, case.beam_width, plan, others)
            runs[name] = partial(contender.load, *load)
        of_round = alternate(runs, 1, pause_s=PAUSE_S, advance=lambda: advance(str(case)))
        for name, (result,) in of_round.items():
            if not result.sentences:
                errors = dict(result.errors) or "none was answered in time"
                raise CheckFailed(f"{name}: {case}: no request was translated: {errors}")
            results[name].append(result)
    return [Rounds(name, of_contender) for name, of_contender in results.items()]


def check_errors(trials: Sequence[Trial], contests: Mapping[Case, Sequence[Rounds]]) -> None:
    """Check that no request failed.

    Raises:
        CheckFailed: one did.
    """
    loads = [(case, result) for case, _, result in trials]
    loads += [(case, r) for case, sides in contests.items() for side in sides for r in side.results]
    for case, result in loads:
        for message, count in result.errors.items():
            raise CheckFailed(f"{case}: {count} requests failed: {message}")


def speed_ratios(ours: Rounds, theirs: Rounds) -> list[float]:
    """Sentences per second of one over the other's, for each round."""
    return ratios(*([result.sentences_per_s for result in side.results] for side in (ours, theirs)))


def summary(contests: Mapping[Case, Sequence[Rounds]]) -> list[dict[str, Any]]:
    """All results, for JSON."""
    return [
        {
            **asdict(case),
            "ratios": speed_ratios(*sides),
            "contenders": [
                {**asdict(side), "latency": asdict(side.latency), "cores": side.cores}
                for side in sides
            ],
        }
        for case, sides in contests.items()
    ]


def throughput_table(contests: Mapping[Case, Sequence[Rounds]]) -> str:
    """Throughput and latency of both; the ratio is ours over CTranslate2's."""
    header = ("search", "at once", "contender", "sent/s", "tok/s", "p50 ms", "p99 ms", "ratio")
    rows = []
    for case, sides in contests.items():
        for side in sides:
            speeds = (f"{side.sentences_per_s:.1f}", f"{side.tokens_per_s:.0f}")
            times = (f"{side.latency.p50_ms:.1f}", f"{side.latency.p99_ms:.1f}")
            ratio = spread(speed_ratios(*sides)) if side is sides[0] else ""
            rows.append((*_names(case), side.name, *speeds, *times, ratio))
    return markdown_table(header, rows)


def processor_table(contests: Mapping[Case, Sequence[Rounds]]) -> str:
    """Where the CPU time went: percent of one core."""
    header = (
        *("search", "at once", "contender", "Triton", "engine", "load generator", "idle server"),
        "rest of the machine, at most",
    )
    rows = []
    for case, sides in contests.items():
        for side in sides:
            shares = [side.cores[kind] for kind in (SERVER, ENGINE, GENERATOR, IDLE)]
            cells = [f"{100 * share:.0f} %" for share in (*shares, side.cores_elsewhere)]
            rows.append((*_names(case), side.name, *cells))
    return markdown_table(header, rows)


def _names(case: Case) -> tuple[str, str]:
    return search_name(case.beam_width), str(case.concurrency)
