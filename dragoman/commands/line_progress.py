"""A progress bar on stderr, for commands that process lines."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def line_progress(quiet: bool, unit: str) -> Iterator[Callable[[int, int, int | None], None]]:
    """Yields a function that updates a progress bar on stderr.

    It takes the lines done, the lines that were done before this run, and the number of all lines,
    if known. There is no bar if stdout is a terminal too: the lines themselves show the progress,
    and the bar would overwrite them.
    """
    if quiet or not sys.stderr.isatty() or sys.stdout.isatty():
        yield lambda _done, _before, _of: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        BarColumn(),
        TextColumn(f"{{task.fields[count]}} {unit}s"),
        TextColumn(f"{{task.fields[rate]:.1f}} {unit}s/s"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, redirect_stdout=False) as progress:
        task = progress.add_task("", total=None, rate=0.0, count="0")

        def show(done: int, before: int, of: int | None) -> None:
            elapsed_s = progress.tasks[0].elapsed or 0.0
            rate = (done - before) / elapsed_s if elapsed_s else 0.0
            count = str(done) if of is None else f"{done}/{of}"
            progress.update(task, completed=done, total=of, rate=rate, count=count)

        yield show
