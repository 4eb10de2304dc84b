"""A progress bar on stderr, for commands that process lines."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from typing import Protocol, TextIO


class Show(Protocol):
    """Updates a progress bar."""

    def __call__(
        self, done: int, before: int, of: int | None, share: float | None = None, /
    ) -> None:
        """Show progress.

        Args:
            done: number of lines done.
            before: how many of them were done before this run.
            of: number of all lines, if known.
            share: the share of the work that is done, if the number of all lines is not known.
        """


def _show_nothing(
    _done: int, _before: int, _of: int | None, _share: float | None = None, /
) -> None:
    pass


@contextlib.contextmanager
def line_progress(quiet: bool, unit: str, prints: bool = False) -> Iterator[Show]:
    """Yields a function that updates a progress bar on stderr.

    There is no bar if the command prints lines and stdout is a terminal too: the lines themselves
    show the progress, and the bar would overwrite them.
    """
    if quiet or not sys.stderr.isatty() or (prints and sys.stdout.isatty()):
        yield _show_nothing
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
    console, stderr = Console(stderr=True), sys.stderr
    with (
        Progress(*columns, console=console, redirect_stdout=False) as progress,
        _messages_above(stderr),
    ):
        task = progress.add_task("", total=None, rate=0.0, count="0")

        def show(done: int, before: int, of: int | None, share: float | None = None, /) -> None:
            elapsed_s = progress.tasks[0].elapsed or 0.0
            rate = (done - before) / elapsed_s if elapsed_s else 0.0
            count = str(done) if of is None else f"{done}/{of}"
            completed, total = (done, of) if share is None else (share, 1)
            progress.update(task, completed=completed, total=total, rate=rate, count=count)

        yield show


@contextlib.contextmanager
def _messages_above(stderr: TextIO) -> Iterator[None]:
    """Let log messages on stderr appear above the bar, which has replaced `sys.stderr`."""
    handlers = [
        handler
        for handler in logging.getLogger().handlers
        if isinstance(handler, logging.StreamHandler) and handler.stream is stderr
    ]
    for handler in handlers:
        handler.setStream(sys.stderr)
    try:
        yield
    finally:
        for handler in handlers:
            handler.setStream(stderr)
