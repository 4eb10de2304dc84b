"""Shared parts of the benchmarks' command lines: a progress bar, and a type of option."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import Progress

Advance = Callable[[str], None]


@contextlib.contextmanager
def progress(runs: int) -> Iterator[Advance]:
    """A bar on stderr, if it is a terminal; call the yielded function with each run's name."""
    console = Console(stderr=True)
    # Tables are printed to stdout between two updates of the bar.
    with Progress(console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("", total=runs)
        yield lambda what: bar.update(task, advance=1, description=what)


def positive(text: str) -> int:
    """The type of an option that takes a number from 1 up."""
    value = int(text)
    if value < 1:
        raise ValueError
    return value


positive.__name__ = "positive number"  # argparse uses it in its message
