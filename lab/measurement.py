"""How a measurement is written: its options, alternating rounds, ratios, the machine and JSON.

A program of the lab is a function that takes parsed arguments, prints tables and returns its
results, wrapped by `program`:

    @program(DATA_DIR, number("--rounds", 5))
    def main(arguments: argparse.Namespace) -> Results:
        runs = {"before": lambda: seconds(one), "after": lambda: seconds(other)}
        taken = alternate(runs, arguments.rounds, warm_up=1)
        print(spread(ratios(taken["before"], taken["after"])))
        return {"seconds": taken}

    if __name__ == "__main__":
        sys.exit(main())
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import os
import platform
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from dragoman_load_test.machine import cpu_name
from rich.console import Console
from rich.progress import Progress

from dragoman.kernel.errors import DragomanError
from dragoman.kernel.processors import usable_processors

PROJECT = Path(__file__).parents[1]
"""The repository, which is the working directory of all programs and workers."""
SHIPPED = Path("model_repository/translate/1/bundle")
_VARIABLES = ("OMP_", "GOMP_", "KMP_", "CT2_", "ONEDNN_", "DNNL_", "MKL_", "DRAGOMAN_ISA")
"""Prefixes of environment variables that affect speed."""
_PACKAGES = (
    *("dragoman", "dragoman-client", "onnxruntime", "nvidia-pytriton", "tritonclient", "torch"),
    *("ctranslate2", "transformers", "sentencepiece", "numpy", "sacrebleu"),
)

Option = tuple[str, dict[str, Any]]
Results = Mapping[str, Any]
Advance = Callable[[str], None]
_Name = TypeVar("_Name")
_Result = TypeVar("_Result")


class Main(Protocol):
    """A program's main function."""

    def __call__(self, words: Sequence[str] | None = None) -> int:
        """Run with a command line without the program's name; None: that of this process.

        Returns:
            0 done, 1 a check or the work failed, 2 a wrong option, file or value.
        """
        ...


Measure = Callable[[argparse.Namespace], Results | None]


def option(name: str, **settings: Any) -> Option:
    """An option of the command line; the settings are those of `add_argument`."""
    return name, settings


def number(name: str, default: int, what: str = "") -> Option:
    """An option that takes a number from 1 up."""
    return option(name, type=positive, default=default, help=f"{what} (default: {default})".strip())


def positive(text: str) -> int:
    """The type of an option that takes a number from 1 up."""
    value = int(text)
    if value < 1:
        raise ValueError
    return value


positive.__name__ = "positive number"  # argparse uses it in its message

DATA_DIR = option("--data-dir", type=Path, required=True, help="folder of the corpora")
BUNDLE = option("--bundle", type=Path, default=SHIPPED, help=f"default: {SHIPPED}")
BEAM_WIDTH = number("--beam-width", 4)
TEXTS = option("--texts", type=Path, required=True, help="one text per line; may be .gz")


def program(*options: Option, measures: bool = True) -> Callable[[Measure], Main]:
    """Make a function the main function of its module.

    The module's docstring is the description of the command. After the function has returned, the
    machine is printed, and with `--json FILE` everything is written.

    Args:
        options: of its command line, besides `--json`.
        measures: False: a tool without results, which only uses the command line and the errors.
    """

    def wrap(measure: Measure) -> Main:
        module = sys.modules[measure.__module__]
        name = module.__spec__.name if module.__spec__ else measure.__module__
        name = name.removesuffix(".__main__")

        def main(words: Sequence[str] | None = None) -> int:
            words = sys.argv[1:] if words is None else words
            parser = argparse.ArgumentParser(
                prog=f"python -m {name}",
                description=module.__doc__,
                formatter_class=argparse.RawDescriptionHelpFormatter,
            )
            for flag, settings in options:
                parser.add_argument(flag, **settings)
            if measures:
                parser.add_argument("--json", type=Path, metavar="FILE", help="for all results")
            arguments, load_1min = parser.parse_args(words), os.getloadavg()[0]
            try:
                results = measure(arguments)
            except DragomanError as error:
                print(f"{name}: {error}", file=sys.stderr)
                return error.exit_code
            if measures:
                machine = conditions(name, words, load_1min)
                print(f"\n{machine['cpu']}, {machine['cores']} cores: {machine['command']}")
                if arguments.json is not None:
                    written = json.dumps({**machine, **(results or {})}, indent=1)
                    arguments.json.write_text(written + "\n", encoding="utf-8")
            return 0

        return main

    return wrap


def conditions(module: str, words: Sequence[str], load_1min: float) -> dict[str, Any]:
    """The machine, the versions and the command line of a measurement.

    Args:
        module: the module that was run.
        words: the command line after the module's name.
        load_1min: load average when the program started.
    """
    return {
        "command": shlex.join(["python", "-m", module, *words]),
        "cpu": cpu_name(),
        "cores": len(usable_processors()),
        "load_average_1min_at_start": load_1min,
        "environment": {k: v for k, v in os.environ.items() if k.startswith(_VARIABLES)},
        "versions": {"python": platform.python_version(), **dict(_versions())},
    }


def _versions() -> Iterator[tuple[str, str]]:
    for package in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            yield package, importlib.metadata.version(package)


@contextlib.contextmanager
def progress(runs: int) -> Iterator[Advance]:
    """A bar on stderr, if it is a terminal; call the yielded function with each run's name."""
    console = Console(stderr=True)
    # Tables are printed to stdout between two updates of the bar.
    with Progress(console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("", total=runs)
        yield lambda what: bar.update(task, advance=1, description=what)


def alternate(
    runs: Mapping[_Name, Callable[[], _Result]],
    rounds: int,
    *,
    warm_up: int = 0,
    pause_s: float = 0.0,
    advance: Callable[[], None] = lambda: None,
) -> dict[_Name, list[_Result]]:
    """Run all in turn, A B A B, so that a machine that slows down affects all of them alike.

    Args:
        runs: by name, in the order of a round; only one runs at a time.
        rounds: number of rounds that count.
        warm_up: rounds before these, for example to allocate memory.
        pause_s: before each run, for threads of the last one that spin before they sleep.
        advance: called after each run.

    Returns:
        The results of each in the order of the rounds.
    """
    results: dict[_Name, list[_Result]] = {name: [] for name in runs}
    for _ in range(warm_up + rounds):
        for name, run in runs.items():
            time.sleep(pause_s)
            results[name].append(run())
            advance()
    return {name: of_run[warm_up:] for name, of_run in results.items()}


def seconds(run: Callable[[], object]) -> float:
    """How long a call takes."""
    begin_s = time.perf_counter()
    run()
    return time.perf_counter() - begin_s


def fastest_s(run: Callable[[], object], times: int = 20) -> float:
    """The shortest time of a call."""
    return min(seconds(run) for _ in range(times))


def memory_gb_per_s() -> float:
    """Memory bandwidth of one core, in 1e9 bytes per second."""
    large = np.ones(100_000_000, np.float32)
    return large.nbytes / fastest_s(large.max) / 1e9


def ratios(values: Sequence[float], others: Sequence[float]) -> list[float]:
    """Quotients of two measurements, round by round."""
    return [value / other for value, other in zip(values, others, strict=True)]
