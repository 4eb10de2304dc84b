"""When requests arrive that nobody waits for: an open loop's intended times."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

Arrivals = Literal["poisson", "constant"]


def arrival_times(rate: float, arrivals: Arrivals, seed: int) -> Iterator[float]:
    """Endless ascending times in seconds from the beginning.

    Args:
        rate: arrivals a second, on average.
        arrivals: `poisson` as independent people come, or `constant` as a clock ticks.
        seed: of what is drawn.
    """
    if arrivals == "constant":
        return (number / rate for number in itertools.count())
    generator = random.Random(seed)  # noqa: S311  (no secret)
    return itertools.accumulate(generator.expovariate(rate) for _ in itertools.count())


def recorded_times(times_s: Sequence[float]) -> Iterator[float]:
    """A record over and over: each turn begins a mean gap after the last arrival of the one before.

    Args:
        times_s: what `read_record` found.
    """
    first, last = times_s[0], times_s[-1]
    turn_s = record_span_s(times_s)
    assert last - first < turn_s
    return (turn * turn_s + time_s - first for turn in itertools.count() for time_s in times_s)


def record_span_s(times_s: Sequence[float]) -> float:
    """How long one turn of a record takes."""
    span_s = times_s[-1] - times_s[0]
    return span_s * len(times_s) / (len(times_s) - 1)


def read_record(file: Path) -> list[float]:
    """Arrival times of a file: a number of seconds on each line, ascending, from any beginning.

    Raises:
        ValueError: the file cannot be read, or holds something else.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ValueError(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: not text") from error
    times: list[float] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            time_s = float(line)
        except ValueError:
            time_s = math.nan
        if not math.isfinite(time_s):
            raise ValueError(f"{file}, line {number}: {line.strip()[:40]!r} is not in seconds")
        if times and time_s < times[-1]:
            raise ValueError(f"{file}, line {number}: earlier than the line before")
        times.append(time_s)
    if len(times) < 2 or times[-1] == times[0]:
        raise ValueError(f"{file}: give at least two different times")
    return times
