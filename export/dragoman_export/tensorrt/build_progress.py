"""A progress bar for TensorRT's builds, which report their phases and steps."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from dragoman_serving.engine.runtimes.tensorrt_library import LibraryName, load
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn


@contextlib.contextmanager
def build_progress(library: LibraryName | None = None, quiet: bool = False) -> Iterator[Any]:
    """A progress monitor for a TensorRT configuration; None if stderr is not a terminal.

    Raises:
        UsageError: TensorRT is not installed.
    """
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield _monitor(load(library).module, progress)


def _monitor(trt: Any, progress: Progress) -> Any:
    class Monitor(trt.IProgressMonitor):  # type: ignore[misc]
        """One bar for each phase; phases are nested, and several threads report."""

        def __init__(self) -> None:
            super().__init__()
            self._lock = threading.Lock()
            self._tasks: dict[str, TaskID] = {}

        def phase_start(self, name: str, _parent: str | None, steps: int) -> None:
            with self._lock:
                self._tasks[name] = progress.add_task(name, total=steps)

        def step_complete(self, name: str, step: int) -> bool:
            with self._lock:
                if name in self._tasks:
                    progress.update(self._tasks[name], completed=step + 1)
            return True  # continue the build

        def phase_finish(self, name: str) -> None:
            with self._lock:
                if (task := self._tasks.pop(name, None)) is not None:
                    progress.remove_task(task)

    return Monitor()
