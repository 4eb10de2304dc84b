"""Charts of load tests, as SVG."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from matplotlib.transforms import Bbox

from dragoman_load_test.reports.comparison import Comparison
from dragoman_load_test.results import Capacity, Point, Run

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f")
"""Safe for colour-blind readers. Source: Okabe and Ito, "Color Universal Design" (2008)."""
STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "dragoman",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "legend.frameon": False,
    "lines.markersize": 5,
}
_MOST_CURVES = 6
_WINDOWS_FOR_BARS = 3
"""With fewer windows, an interval is not meaningful."""
_PERCENTILES = (0, 50, 90, 99, 99.9, 99.99)


def draw_run(run: Run) -> str:
    """Draw latency at each rate, percentiles of latency, and the timeline of the test."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10, 7.2), layout="constrained")
        grid = figure.add_gridspec(3, 2, height_ratios=(2.2, 1, 1))
        first = figure.add_subplot(grid[0, 0])
        if run.capacity is None:
            _against_latency(first, [("", run)])
        else:
            _capacity(first, run.capacity, [point for point in run.points if not point.closed])
        points = _most_telling(run.points)
        curves = [(point.load, point, "-") for point in points]
        _percentiles(figure.add_subplot(grid[0, 1]), curves)
        above = figure.add_subplot(grid[1, :])
        _course(above, figure.add_subplot(grid[2, :], sharex=above), points)
        return _svg(figure)


def draw_comparison(comparison: Comparison) -> str:
    """Draw throughput against latency, and percentiles of latency, of two runs."""
    before, after = comparison.before, comparison.after
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10, 4.4), layout="constrained")
        left, right = figure.subplots(1, 2)
        _against_latency(left, [(comparison.names[0], before), (comparison.names[1], after)])
        curves: list[tuple[str, Point, str]] = []
        for first, second in comparison.pairs:
            curves += [
                (f"{first.load}, {comparison.names[0]}", first, "--"),
                (f"{second.load}, {comparison.names[1]}", second, "-"),
            ]
        _percentiles(right, curves, alike=2)
        return _svg(figure)


def _most_telling(points: Sequence[Point]) -> list[Point]:
    """The points measured longest, at most `_MOST_CURVES`, in their order."""
    longest = sorted(points, key=lambda point: -len(point.windows))[:_MOST_CURVES]
    return [point for point in points if point in longest]


def _against_latency(axes: Axes, runs: Sequence[tuple[str, Run]]) -> None:
    colours = iter(COLOURS)
    for name, run in runs:
        for percentile, marker in ((50, "o"), (99, "s")):
            colour = next(colours)
            # Closed and open loops are separate lines.
            for closed, line in ((True, "-"), (False, "--")):
                points = [point for point in run.points if point.closed == closed]
                label = f"p{percentile} {name}".strip() + ("" if closed else ", open loop")
                if points:
                    _line(axes, points, percentile, f"{marker}{line}", colour, label)
    points = [point for point in runs[-1][1].points if point.closed]
    for point in points:
        at = (point.sentences_per_s.mean, point.percentile_ms(99).mean)
        axes.annotate(point.load, at, (4, 5), textcoords="offset points", fontsize=7.5)
    axes.set(xlabel="sentences/s", ylabel="latency, ms", title="Throughput against latency")
    axes.set_xlim(left=0)
    axes.margins(y=0.15)
    _logarithmic(axes)
    _legend(axes)


def _capacity(axes: Axes, capacity: Capacity, points: Sequence[Point]) -> None:
    """Draw the latency at each offered rate, and which rates met the objectives."""
    held = {trial.rate: trial.held for trial in capacity.trials}  # the last trial of a rate counts
    # Of several trials of a rate, the last one is the longest.
    order = sorted(
        {point.amount: point for point in points}.values(), key=lambda point: point.amount
    )
    for percentile, colour in ((50, COLOURS[0]), (99, COLOURS[1])):
        rates = [point.amount for point in order]
        times = [point.percentile_ms(percentile).mean for point in order]
        axes.plot(rates, times, "-", color=colour, label=f"p{percentile}")
        for verdict, marker in ((True, "o"), (False, "X")):
            some = [(r, t) for r, t in zip(rates, times, strict=True) if held.get(r) is verdict]
            axes.plot([r for r, _ in some], [t for _, t in some], marker, color=colour)
    for marker, name in (("o", "met the objectives"), ("X", "missed them")):
        axes.plot([], [], marker, color="#555555", label=name)
    measured = {point.amount for point in order}
    if early := [rate for rate in held if rate not in measured]:
        label = "stopped early: the backlog grew"
        place = axes.get_xaxis_transform()
        axes.plot(early, [1] * len(early), "x", color="black", transform=place, label=label)
    if capacity.sentences_per_s:
        axes.axvline(
            capacity.sentences_per_s,
            color=COLOURS[2],
            linestyle="--",
            label=f"capacity, {capacity.sentences_per_s:.1f}/s",
        )
    axes.set(xlabel="offered rate, sentences/s", ylabel="latency, ms", title="Capacity")
    axes.set_xlim(left=0)
    axes.margins(y=0.15)
    _logarithmic(axes)
    _legend(axes)


def _line(
    axes: Axes, points: Sequence[Point], percentile: float, form: str, colour: str, label: str
) -> None:
    order = sorted(points, key=lambda point: point.sentences_per_s.mean)
    rates = [point.sentences_per_s for point in order]
    times = [point.percentile_ms(percentile) for point in order]
    known = [len(point.windows) >= _WINDOWS_FOR_BARS for point in order]
    axes.errorbar(
        [rate.mean for rate in rates],
        [time.mean for time in times],
        xerr=[rate.half_width if k else 0.0 for rate, k in zip(rates, known, strict=True)],
        yerr=[
            min(time.half_width, 0.9 * time.mean) if k else 0.0
            for time, k in zip(times, known, strict=True)
        ],
        fmt=form,
        color=colour,
        elinewidth=0.8,
        label=label,
    )


def _percentiles(axes: Axes, curves: Sequence[tuple[str, Point, str]], alike: int = 1) -> None:
    """Draw latency curves; each group of `alike` curves has the same colour."""
    for number, (name, point, style) in enumerate(curves):
        if not len(point.latencies):
            continue
        colour = COLOURS[number // alike % len(COLOURS)]
        shares, times = zip(*_curve(point), strict=True)
        axes.plot(shares, times, style, color=colour, label=name, drawstyle="steps-pre")
    axes.set_xscale("log")
    axes.set_xticks([_one_in(percentile) for percentile in _PERCENTILES])
    axes.xaxis.set_minor_locator(NullLocator())
    names = {_one_in(percentile): f"{percentile:g}" for percentile in _PERCENTILES}
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: names.get(value, "")))
    axes.set(xlabel="percentile", ylabel="latency, ms", title="Percentiles of latency")
    _logarithmic(axes)
    _legend(axes)


def _curve(point: Point) -> Iterator[tuple[float, float]]:
    """Yield the latency at each percentile; a percentile as one in so many requests."""
    most = max(1, len(point.latencies))
    for percentile, time_ms in point.latencies.curve():
        yield min(_one_in(percentile), most), time_ms


def _one_in(percentile: float) -> float:
    return 1 / (1 - percentile / 100) if percentile < 100 else float("inf")


def _course(above: Axes, below: Axes, points: Sequence[Point]) -> None:
    start = 0
    for number, point in enumerate(points):
        colour = COLOURS[number % len(COLOURS)]
        seconds = range(start, start + len(point.timeline))
        above.plot(seconds, [moment.sentences for moment in point.timeline], color=colour)
        # Seconds without requests are not drawn.
        median = [moment.p50_ms or math.nan for moment in point.timeline]
        longest = [moment.max_ms or math.nan for moment in point.timeline]
        below.plot(seconds, median, color=colour, label="" if number else "p50")
        below.plot(seconds, longest, ":", color=colour, label="" if number else "longest")
        failed = [s for s, m in zip(seconds, point.timeline, strict=True) if m.errors]
        if failed:
            above.plot(failed, [0] * len(failed), "x", color="black", clip_on=False)
        if start:
            for axes in (above, below):
                axes.axvline(start - 0.5, color="#999999", linewidth=0.8)
        above.annotate(
            point.load,
            (start, 1.02),
            xycoords=("data", "axes fraction"),
            fontsize=7.5,
            color=colour,
        )
        start += len(point.timeline)
    above.set(ylabel="sentences/s", ylim=(0, None))
    above.tick_params(labelbottom=False)
    below.set(xlabel="seconds under load, without warm-up", ylabel="latency, ms")
    _logarithmic(below, (1,))
    _legend(below)


def _logarithmic(axes: Axes, ticks: tuple[int, ...] = (1, 2, 5)) -> None:
    """Set a logarithmic scale with ticks at these multiples of powers of ten, if there is data."""
    if not any(np.any(np.asarray(line.get_ydata(), float) > 0) for line in axes.get_lines()):
        return
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=ticks))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())


def _legend(axes: Axes) -> None:
    if axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize=7.5, loc="best")


def _hide_overlapping(figure: Figure) -> None:
    """Keep the first of labels that overlap; the page's tables have all of them."""
    renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    figure.draw_without_rendering()  # places everything
    for axes in figure.axes:
        kept: list[Bbox] = []
        for label in axes.texts:
            box = label.get_window_extent(renderer)
            label.set_visible(not any(box.overlaps(other) for other in kept))
            if label.get_visible():
                kept.append(box)


def _svg(figure: Figure) -> str:
    _hide_overlapping(figure)
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return file.getvalue()
