"""Results of servers under load, and their tables."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dragoman_load_test.latency import Latency, LatencyHistogram

from lab.load import GENERATOR, LoadResult
from lab.load_process import MACHINE
from lab.peers.served_endpoint import ENGINE, IDLE, SERVER
from lab.report import markdown_table, search_name, spread


@dataclass(frozen=True)
class Case:
    """The number of concurrent requests, and the search."""

    beam_width: int
    concurrency: int

    def __str__(self) -> str:
        """Its name in progress bars."""
        return f"{search_name(self.beam_width)}, {self.concurrency} at once"


@dataclass(frozen=True)
class Rounds:
    """One contender's loads; at least one.

    Attributes:
        setting: how it ran.
        results: one for each round.
    """

    setting: str
    results: tuple[LoadResult, ...]

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
        names = self.results[0].cpu_s
        return {
            name: statistics.median(
                result.cpu_s[name] / result.elapsed_s for result in self.results
            )
            for name in names
        }

    @property
    def cores_elsewhere(self) -> float:
        """CPU cores used by the rest of the machine, in the worst round."""
        return max(_elsewhere_s(result.cpu_s) / result.elapsed_s for result in self.results)

    def summary(self) -> dict[str, Any]:
        """All results, for JSON."""
        return {
            **asdict(self),
            "sentences_per_s": self.sentences_per_s,
            "tokens_per_s": self.tokens_per_s,
            "latency": asdict(self.latency),
            "cores": self.cores,
            "cores_elsewhere": self.cores_elsewhere,
        }


@dataclass(frozen=True)
class Contest:
    """The rounds of one case; round N of both ran together."""

    case: Case
    dragoman: Rounds
    ctranslate2: Rounds

    @property
    def ratios(self) -> list[float]:
        """Dragoman's sentences per second over CTranslate2's, for each round."""
        pairs = zip(self.dragoman.results, self.ctranslate2.results, strict=True)
        return [ours.sentences_per_s / theirs.sentences_per_s for ours, theirs in pairs]

    @property
    def errors(self) -> dict[str, int]:
        """Failed requests of both by message."""
        total: Counter[str] = Counter()
        for rounds in (self.dragoman, self.ctranslate2):
            for result in rounds.results:
                total.update(result.errors)
        return dict(total)

    def summary(self) -> dict[str, Any]:
        """All results, for JSON."""
        return {
            **asdict(self.case),
            "dragoman": self.dragoman.summary(),
            "ctranslate2": self.ctranslate2.summary(),
            "ratios": self.ratios,
            "ratio_median": statistics.median(self.ratios),
            "errors": self.errors,
        }


def throughput_table(contests: Sequence[Contest]) -> str:
    """Throughput and latency of both, in Markdown."""
    header = (
        *("search", "requests at once", "Dragoman", "sent/s", "tok/s", "p50 ms", "p99 ms"),
        *("CTranslate2", "sent/s", "tok/s", "p50 ms", "p99 ms", "ratio (min..max)"),
    )
    rows = [
        (
            *_case_cells(contest),
            *_speed_cells(contest.dragoman),
            *_speed_cells(contest.ctranslate2),
            spread(contest.ratios),
        )
        for contest in contests
    ]
    return markdown_table(header, rows)


def processor_table(contests: Sequence[Contest]) -> str:
    """Where the CPU time went, in Markdown: percent of one core."""
    header = (
        *("search", "requests at once", "contender", "Triton", "engine", "load generator"),
        *("idle server", "rest of the machine, at most"),
    )
    rows = []
    for contest in contests:
        for name, rounds in (
            (f"Dragoman {contest.dragoman.setting}", contest.dragoman),
            (f"CTranslate2 {contest.ctranslate2.setting}", contest.ctranslate2),
        ):
            cores = rounds.cores
            shares = [cores[kind] for kind in (SERVER, ENGINE, GENERATOR, IDLE)]
            cells = [f"{100 * share:.0f} %" for share in (*shares, rounds.cores_elsewhere)]
            rows.append((*_case_cells(contest), name, *cells))
    return markdown_table(header, rows)


def _elsewhere_s(cpu_s: Mapping[str, float]) -> float:
    """CPU time of other processes; clock ticks can make it slightly negative, so at least 0."""
    watched = sum(seconds for name, seconds in cpu_s.items() if name != MACHINE)
    return max(0.0, cpu_s[MACHINE] - watched)


def _case_cells(contest: Contest) -> tuple[str, str]:
    return search_name(contest.case.beam_width), str(contest.case.concurrency)


def _speed_cells(rounds: Rounds) -> tuple[str, ...]:
    latency = rounds.latency
    return (
        *(rounds.setting, f"{rounds.sentences_per_s:.1f}", f"{rounds.tokens_per_s:.0f}"),
        *(f"{latency.p50_ms:.1f}", f"{latency.p99_ms:.1f}"),
    )
