"""Formats load tests as lines of text, for a terminal or a log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from dragoman_load_test.confidence import format_change, format_estimate
from dragoman_load_test.measurement import Progress
from dragoman_load_test.reports.comparison import Comparison
from dragoman_load_test.results import Plan, Point, Run, Trial

HEAD = (
    f"{'load':<18} {'batch':>5} {'sentences/s':>16} {'p50 ms':>14} {'p95 ms':>8} {'p99 ms':>16}"
    f" {'p99.9 ms':>9} {'errors':>7}"
)


def point_lines(point: Point) -> Iterator[str]:
    """The results of a load, its errors and notes."""
    all_of_them = point.latencies.summary()
    yield (
        f"{point.load:<18} {point.batch_size:>5} {format_estimate(point.sentences_per_s):>16} "
        f"{format_estimate(point.percentile_ms(50)):>14} {all_of_them.p95_ms:>8.1f} "
        f"{format_estimate(point.percentile_ms(99)):>16} {all_of_them.p99_9_ms:>9.1f} "
        f"{point.errors.total():>7}"
    )
    if len(point.first_parts):
        yield (
            f"  first part p50 {point.first_parts.percentile_ms(50):.1f} ms, p99 "
            f"{point.first_parts.percentile_ms(99):.1f} ms; between tokens p50 "
            f"{point.per_token.percentile_ms(50):.2f} ms"
        )
    for kind, count in (point.errors + Counter(point.warm_up_errors)).items():
        yield f"  {count} x {kind}: {point.examples[kind]}"
    for note in point.notes:
        yield f"  note: {note}"


def window_line(progress: Progress) -> str:
    """The results of a window."""
    return (
        f"  window {progress.number}: {progress.sentences_per_s:.1f} sentences/s, p50 "
        f"{progress.p50_ms:.1f} ms, p99 {progress.p99_ms:.1f} ms, {progress.in_flight} in flight, "
        f"{progress.errors} errors"
    )


def trial_line(trial: Trial) -> str:
    """The result of a trial."""
    return f"{trial.rate:.1f} sentences/s: {'held' if trial.held else trial.why}"


def conclusion_lines(run: Run) -> Iterator[str]:
    """The verdicts and the capacity."""
    for judgement in run.judgements:
        verdict = "met" if judgement.met else "MISSED"
        yield f"{judgement.objective} under {judgement.load}: {verdict}, {judgement.found}"
    if capacity := run.capacity:
        yield f"capacity: {capacity.sentences_per_s:.1f} sentences/s"
        if capacity.plan is not None:
            yield plan_line(capacity.plan)


def plan_line(plan: Plan) -> str:
    """The number of servers for a rate, and their cost."""
    line = (
        f"{plan.sentences_per_s:g} sentences/s: {plan.replicas} such servers, each at most "
        f"{plan.busy:.0%} busy; one of them may fail"
    )
    if plan.per_million_characters is None:
        return line
    return f"{line}; a million characters cost {plan.per_million_characters:.2g}"


def comparison_lines(comparison: Comparison) -> Iterator[str]:
    """Two tests in comparison."""
    before, after = comparison.names
    yield f"{'load':<24} {'metric':<12} {before:>16} {after:>16} {'change':>18}"
    for difference in comparison.differences():
        change = format_change(difference.change, difference.before)
        yield (
            f"{difference.load:<24} {difference.figure:<12} {difference.before:>16.1f} "
            f"{difference.after:>16.1f} {change:>18}  {difference.verdict}"
        )
    for name, run in zip(comparison.names, (comparison.before, comparison.after), strict=True):
        if run.capacity is not None:
            yield f"capacity of {name}: {run.capacity.sentences_per_s:.1f} sentences/s"
    for unlike in comparison.unlike():
        yield f"note: they differ in more than the server: {unlike}"
