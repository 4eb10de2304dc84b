"""Formats the GPU check's results as JSON and as tables.

Knows the results, not how they were measured.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lab.report import markdown_table, search_name


@dataclass(frozen=True)
class TokenCheck:
    """A contender's tokens compared with the oracle's; `bleu_apart` is the difference in BLEU."""

    contender: str
    precision: str
    beam: int
    equal: float
    bleu_apart: float


@dataclass(frozen=True)
class Speed:
    """A contender's speed at one batch size; `limit_ms` is the memory-bandwidth limit of a step."""

    contender: str
    precision: str
    beam: int
    batch: int
    tokens_per_s: float
    step_ms: float
    limit_ms: float | None
    gpu_memory_mb: float | None


@dataclass
class Report:
    """The results; `missing` says why a contender did not run."""

    environment: dict[str, str]
    missing: dict[str, str] = field(default_factory=dict)
    tests: str = "not run"
    tokens: list[TokenCheck] = field(default_factory=list)
    speed: list[Speed] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def in_markdown(report: Report) -> str:
    """A page with all results."""
    where = ", ".join(f"{name} {value}" for name, value in report.environment.items())
    missing = "".join(f"\nNot run: {name}: {why}.\n" for name, why in report.missing.items())
    return (
        f"# On a GPU\n\nMade by `make gpu-check`. {where}.\n{missing}\n"
        f"Tests marked `gpu`: {report.tests}.\n\n"
        f"The shipped model's tokens beside the oracle's:\n\n{_tokens(report)}\n\n"
        "Base size, random weights; tokens a second, and at the largest batch the time of a step "
        f"over what its bytes take from memory:\n\n{_speeds(report)}\n"
    )


def _tokens(report: Report) -> str:
    head = ["contender", "search", "sentences equal", "BLEU apart"]
    lines = [
        [
            f"{c.contender} {c.precision}",
            search_name(c.beam),
            f"{c.equal:.1%}",
            f"{c.bleu_apart:.2f}",
        ]
        for c in report.tokens
    ]
    return markdown_table(head, lines)


def _speeds(report: Report) -> str:
    batches = sorted({speed.batch for speed in report.speed})
    rows: dict[tuple[str, str, int], dict[int, Speed]] = {}
    for speed in report.speed:
        rows.setdefault((speed.contender, speed.precision, speed.beam), {})[speed.batch] = speed
    lines = []
    for (name, precision, beam), cells in rows.items():
        last = cells[max(cells)]
        over = "" if not last.limit_ms else f"{last.step_ms / last.limit_ms:.1f}"
        memory = "" if last.gpu_memory_mb is None else f"{last.gpu_memory_mb:.0f}"
        speeds = [f"{cells[b].tokens_per_s:.0f}" if b in cells else "" for b in batches]
        lines.append([f"{name} {precision}", search_name(beam), *speeds, over, memory])
    head = ["contender", "search", *map(str, batches), "step over limit", "GPU memory MB"]
    return markdown_table(head, lines)
