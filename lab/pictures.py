"""Charts of the benchmarks, as SVG."""

from __future__ import annotations

import io
from collections.abc import Callable

import matplotlib
from dragoman_load_test.reports.plots import STYLE
from matplotlib.figure import Figure


def draw_svg(size: tuple[float, float], fill: Callable[[Figure], None]) -> str:
    """An SVG of this size in inches, drawn by a function; equal content gives equal text."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        fill(figure)
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None})
    # matplotlib leaves trailing spaces on some lines.
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines()) + "\n"
