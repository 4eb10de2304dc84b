"""The scheduled arrival times of an open loop."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

Arrivals = Literal["poisson", "constant"]


def arrival_times(rate: float, arrivals: Arrivals, seed: int) -> Iterator[float]:
    """Yields ascending arrival times without end, in seconds from the start.

    Args:
        rate: mean number of arrivals per second.
        arrivals: `poisson` for independent users, or `constant` intervals.
        seed: seed of the random times.
    """
    if arrivals == "constant":
        return (number / rate for number in itertools.count())
    generator = random.Random(seed)  # noqa: S311  (no secret)
    return itertools.accumulate(generator.expovariate(rate) for _ in itertools.count())


def recorded_times(times_s: Sequence[float]) -> Iterator[float]:
    """Yields recorded times repeatedly; each repetition starts a mean gap after the previous one.

    Args:
        times_s: times from `read_record`.
    """
    first, last = times_s[0], times_s[-1]
    turn_s = record_span_s(times_s)
    assert last - first < turn_s
    return (turn * turn_s + time_s - first for turn in itertools.count() for time_s in times_s)


def record_span_s(times_s: Sequence[float]) -> float:
    """Returns the length of one repetition of a record."""
    span_s = times_s[-1] - times_s[0]
    return span_s * len(times_s) / (len(times_s) - 1)


def read_record(file: Path) -> list[float]:
    """Read arrival times from a file: seconds on each line, ascending, from any origin.

    Raises:
        ValueError: the file cannot be read, or a line is not a valid time.
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
