"""Compares, tunes and measures our model and CTranslate2, both behind Triton."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dragoman.kernel.errors import CheckFailed
from dragoman.kernel.processors import usable_processors
from lab.console import Advance, progress
from lab.load import LoadPlan, LoadResult
from lab.peers.ctranslate2_repository import Setting
from lab.peers.served_endpoint import CTranslate2Servers, Endpoint, serve, with_precision
from lab.peers.served_report import Case, Contest, Rounds
from lab.peers.served_tuning import Trial, best_settings, settings, try_all

LEAST_EQUAL = 0.95
"""Required share of equal greedy translations in fp32; with less, the models differ."""
COMPARED = 50
_WARM_UP_S = 2.0
_PAUSE_S = 0.5
"""Pause between loads: the threads of the last one spin for a while before they sleep."""


@dataclass(frozen=True)
class Match:
    """A pairing: a precision of our engine and a compute type of CTranslate2."""

    precision: str
    compute_type: str

    @property
    def exact(self) -> bool:
        """Whether both compute in fp32, so that their translations should be equal."""
        return (self.precision, self.compute_type) == ("fp32", "float32")


@dataclass(frozen=True)
class Loads:
    """The load: which texts, how often, and for how long."""

    texts: tuple[str, ...]
    cases: tuple[Case, ...]
    rounds: int
    duration_s: float
    tuning_s: float


@dataclass(frozen=True)
class Outcome:
    """All results of one pairing."""

    match: Match
    greedy_equal: float
    trials: tuple[Trial, ...]
    contests: tuple[Contest, ...]

    @property
    def errors(self) -> list[str]:
        """The failed requests, with their number."""
        found = [(trial.case, trial.result.errors) for trial in self.trials]
        found += [(contest.case, contest.errors) for contest in self.contests]
        return [
            f"{case}: {count} requests failed: {message}"
            for case, errors in found
            for message, count in errors.items()
        ]

    def summary(self) -> dict[str, Any]:
        """All results, for JSON."""
        return {
            **asdict(self.match),
            "greedy_equal": self.greedy_equal,
            "tuning": [
                {
                    **asdict(trial.case),
                    **asdict(trial.setting),
                    "sentences_per_s": trial.result.sentences_per_s,
                    "latency": asdict(trial.result.latency),
                    "errors": trial.result.errors,
                }
                for trial in self.trials
            ],
            "contests": [contest.summary() for contest in self.contests],
        }


def play(
    match: Match, repository: Path, servers: CTranslate2Servers, loads: Loads, scratch: Path
) -> Outcome:
    """Compare, tune and measure a pairing.

    Args:
        match: the pairing.
        repository: ours.
        servers: the inputs of CTranslate2's servers.
        loads: which texts, how often, and for how long.
        scratch: an empty folder.
    """
    candidates = settings(len(usable_processors()), match.compute_type)
    ours_repository = with_precision(repository, match.precision, scratch / "ours")
    with serve(ours_repository) as ours, servers.serve(candidates[0]) as theirs:
        share = compare(ours, theirs, loads.texts[:COMPARED], match)
    with progress(len(candidates) * len(loads.cases)) as advance:
        trials = try_all(servers, candidates, loads.cases, loads.texts, loads.tuning_s, advance)
    best = best_settings(trials)
    with (
        serve(ours_repository) as ours,
        progress(2 * loads.rounds * len(loads.cases)) as advance,
    ):
        contests = tuple(
            _contest(case, match, ours, servers, best[case], loads, advance) for case in loads.cases
        )
    return Outcome(match, share, tuple(trials), contests)


def _contest(
    case: Case,
    match: Match,
    ours: Endpoint,
    servers: CTranslate2Servers,
    setting: Setting,
    loads: Loads,
    advance: Advance,
) -> Contest:
    with servers.serve(setting) as theirs:
        contenders = {match.precision: ours, str(setting): theirs}
        return Contest(case, *race(case, contenders, loads, advance))


def equal_share(one: Sequence[str], other: Sequence[str]) -> float:
    """Share of indices at which both have the same text."""
    return sum(a == b for a, b in zip(one, other, strict=True)) / len(one)


def compare(ours: Endpoint, theirs: Endpoint, texts: Sequence[str], match: Match) -> float:
    """The share of equal greedy translations.

    Raises:
        CheckFailed: in fp32 there are too few.
    """
    share = equal_share(ours.translate(texts, 1), theirs.translate(texts, 1))
    if match.exact and share < LEAST_EQUAL:
        raise CheckFailed(
            f"only {share:.1%} of the greedy translations are equal, less than "
            f"{LEAST_EQUAL:.0%}: speeds of different translations are not compared"
        )
    return share


def race(
    case: Case, contenders: Mapping[str, Endpoint], loads: Loads, advance: Advance
) -> list[Rounds]:
    """Measure a case, in alternating rounds.

    Args:
        case: the load.
        contenders: running servers by setting; only one is under load at a time.
        loads: which texts, how often, and for how long.
        advance: called before each load with its name.

    Returns:
        The rounds of each contender.

    Raises:
        CheckFailed: a contender answered nothing in a whole round.
    """
    found: dict[str, list[LoadResult]] = {name: [] for name in contenders}
    for number in range(loads.rounds):
        plan = LoadPlan(case.concurrency, _WARM_UP_S, loads.duration_s, seed=number)
        for name, contender in contenders.items():
            time.sleep(_PAUSE_S)
            others = [other for other in contenders.values() if other is not contender]
            result = contender.load(loads.texts, case.beam_width, plan, others)
            if not result.sentences:
                errors = dict(result.errors) or "none was answered in time"
                raise CheckFailed(f"{name}: {case}: no request was translated: {errors}")
            found[name].append(result)
            advance(str(case))
    return [Rounds(name, tuple(results)) for name, results in found.items()]
