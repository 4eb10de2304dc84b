"""Rounds in which contenders run one after the other, and the choice of the fastest."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from lab.peers.contenders import Run
from lab.report import Sample

PAUSE_S = 0.5
"""Pause between runs: the threads of the last run spin for a while before they sleep."""

Runner = Callable[[], Run]
_Name = TypeVar("_Name")


def alternate(
    runners: Mapping[_Name, Runner], rounds: int, advance: Callable[[], None]
) -> dict[_Name, tuple[Sample, ...]]:
    """Run every contender once in each round, so that a machine that slows down affects all.

    Args:
        runners: by name, in the order of a round; only one runs at a time.
        rounds: number of rounds.
        advance: called after each run.

    Returns:
        A sample for each round, by name.
    """
    samples: dict[_Name, list[Sample]] = {name: [] for name in runners}
    for _ in range(rounds):
        for name, runner in runners.items():
            time.sleep(PAUSE_S)
            samples[name].append(_sample(runner()))
            advance()
    return {name: tuple(values) for name, values in samples.items()}


def fastest(samples: Mapping[_Name, Sequence[Sample]]) -> _Name:
    """Which had the fastest single run: disturbances only make runs slower."""
    return min(samples, key=lambda name: min(sample.elapsed_s for sample in samples[name]))


def _sample(run: Run) -> Sample:
    tokens = sum(output.tokens for output in run.outputs)
    return Sample(run.elapsed_s, tokens, sum(output.cut for output in run.outputs))
