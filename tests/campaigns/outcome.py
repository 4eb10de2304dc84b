"""Results of a subject of the campaign: figures, the bounds that they must keep, a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.campaigns.server import Usage

_MIB = 1 << 20


@dataclass(frozen=True)
class Bound:
    """A figure with its limit; NaN breaks it.

    Attributes:
        at_least: whether the limit is a lower one.
        timed: whether other work on the machine changes the figure. The short form, which runs in
            CI, reports such a figure but does not fail because of it.
    """

    name: str
    value: float
    limit: float
    at_least: bool = False
    timed: bool = False

    @property
    def holds(self) -> bool:
        """Whether the figure keeps the limit."""
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def __str__(self) -> str:
        """The figure, its limit, and whether it holds."""
        word = "least" if self.at_least else "most"
        verdict = "ok" if self.holds else "BROKEN"
        return f"{verdict:<6} {self.name}: {self.value:.4g}, at {word} {self.limit:.4g}"


@dataclass
class Outcome:
    """Figures of one subject.

    Attributes:
        requests: number sent; for fuzzing without a server, number of inputs.
        crashes: processes that ended and were not killed by the campaign.
        upstream_restarts: crashes caused by bugs of Triton itself, counted separately.
        hangs: requests without a response long after their deadline.
        wrong: good sentences with a wrong translation.
        lost: requests that ended with neither a response nor an error.
        longest_outage_s: the longest time in which good sentences failed.
        figures: other measurements, by name.
        not_run: parts of the subject that this machine cannot run, and why.
        bounds: limits besides zero crashes, hangs, wrong responses and lost requests.
    """

    subject: str
    requests: int = 0
    crashes: int = 0
    upstream_restarts: int = 0
    hangs: int = 0
    wrong: int = 0
    lost: int = 0
    before: Usage = field(default_factory=Usage)
    after: Usage = field(default_factory=Usage)
    longest_outage_s: float = 0.0
    took_s: float = 0.0
    figures: dict[str, Any] = field(default_factory=dict)
    not_run: dict[str, str] = field(default_factory=dict)
    bounds: list[Bound] = field(default_factory=list)

    @property
    def all_bounds(self) -> list[Bound]:
        """The bounds of every subject, then its own."""
        counts = {
            "crashes": self.crashes,
            "hangs": self.hangs,
            "wrong answers": self.wrong,
            "lost requests": self.lost,
        }
        timed = {"hangs"}
        everywhere = [Bound(name, n, 0, timed=name in timed) for name, n in counts.items()]
        return everywhere + self.bounds

    def broken(self, timed: bool = True) -> list[Bound]:
        """The bounds that do not hold.

        Args:
            timed: whether those that depend on time count.
        """
        return [
            bound for bound in self.all_bounds if (timed or not bound.timed) and not bound.holds
        ]

    def as_json(self) -> dict[str, Any]:
        """All results, as JSON values."""
        bounds = [{**asdict(bound), "holds": bound.holds} for bound in self.all_bounds]
        return {**asdict(self), "bounds": bounds}


def table(outcomes: Sequence[Outcome]) -> str:
    """One row for each subject in Markdown, then figures and bounds of each."""
    head = (
        "subject",
        *("requests", "crashes", "upstream restarts", "hangs", "wrong", "lost"),
        *("Triton MiB", "engine MiB", "Triton sockets", "engine sockets", "longest outage"),
    )
    rows = [head, ["---"] * len(head), *map(_row, outcomes)]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    for outcome in outcomes:
        lines += ["", f"{outcome.subject} ({outcome.took_s:.0f} s)"]
        lines += [f"  {name}: {_rounded(value)}" for name, value in outcome.figures.items()]
        lines += [f"  NOT RUN {name}: {reason}" for name, reason in outcome.not_run.items()]
        lines += [f"  {bound}" for bound in outcome.all_bounds]
    return "\n".join(lines)


def _row(outcome: Outcome) -> list[str]:
    before, after = outcome.before, outcome.after

    def change(past: dict[str, int], now: dict[str, int], name: str, unit: int) -> str:
        if name not in past and name not in now:
            return ""
        return f"{past.get(name, 0) // unit} -> {now.get(name, 0) // unit}"

    return [
        ", not run: ".join(filter(None, (outcome.subject, ", ".join(outcome.not_run)))),
        *map(str, (outcome.requests, outcome.crashes, outcome.upstream_restarts)),
        *map(str, (outcome.hangs, outcome.wrong, outcome.lost)),
        change(before.memory_bytes, after.memory_bytes, "triton", _MIB),
        change(before.memory_bytes, after.memory_bytes, "engine", _MIB),
        change(before.sockets, after.sockets, "triton", 1),
        change(before.sockets, after.sockets, "engine", 1),
        f"{outcome.longest_outage_s:.1f} s",
    ]


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_rounded(inner)}" for name, inner in value.items())
    return value


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile; NaN of no values.

    Args:
        values: in any order.
        share: such as 0.99.
    """
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
