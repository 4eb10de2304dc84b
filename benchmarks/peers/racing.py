"""Rounds in which contenders run one after the other, and the choice of the fastest."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from benchmarks.peers.contenders import Run
from benchmarks.report import Sample

PAUSE_S = 0.5
"""Between runs: the threads of the one before spin for a while before they sleep."""

Runner = Callable[[], Run]
_Name = TypeVar("_Name")


def alternate(
    runners: Mapping[_Name, Runner], rounds: int, advance: Callable[[], None]
) -> dict[_Name, tuple[Sample, ...]]:
    """Run everyone once a round, so that a machine that grows slower does so for all.

    Args:
        runners: what runs, by name, in the order of a round; never two at a time.
        rounds: how many.
        advance: called after each run.

    Returns:
        A sample a round, by name.
    """
    samples: dict[_Name, list[Sample]] = {name: [] for name in runners}
    for _ in range(rounds):
        for name, runner in runners.items():
            time.sleep(PAUSE_S)
            samples[name].append(_sample(runner()))
            advance()
    return {name: tuple(values) for name, values in samples.items()}


def fastest(samples: Mapping[_Name, Sequence[Sample]]) -> _Name:
    """Who had the fastest single run: in few rounds, what disturbs can only have slowed."""
    return min(samples, key=lambda name: min(sample.elapsed_s for sample in samples[name]))


def _sample(run: Run) -> Sample:
    tokens = sum(output.tokens for output in run.outputs)
    return Sample(run.elapsed_s, tokens, sum(output.cut for output in run.outputs))
