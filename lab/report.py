"""Tables of measurements, in Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def spread(values: Sequence[float]) -> str:
    """The median of some ratios, and their range."""
    return f"{statistics.median(values):.2f} ({min(values):.2f}..{max(values):.2f})"


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose columns are aligned in plain text too.

    Args:
        header: names of the columns.
        rows: the cells of each row; those after the first column are right-aligned.
    """
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    rule = ["-" * widths[0], *(f"{'-' * (width - 1)}:" for width in widths[1:])]
    return "\n".join(
        "| " + " | ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]) + " |"
        for line in (lines[0], rule, *lines[1:])
    )


def search_name(beam_width: int) -> str:
    """The name of a search with this beam width."""
    return "greedy" if beam_width == 1 else f"beam {beam_width}"


def percent(share: float) -> str:
    """A share as tables show it."""
    return f"{100 * share:.1f} %"
