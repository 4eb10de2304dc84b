"""The measurements, and the tables and JSON made from them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Sample:
    """One run over all sentences of a test set; `cut` counts sentences that reached the limit."""

    elapsed_s: float
    output_tokens: int
    cut: int


@dataclass(frozen=True)
class Case:
    """The rounds of one test set, search and batch size.

    `ctranslate2` has one list of rounds for each thread setting; round N of all lists ran together.
    """

    test: str
    beam_width: int
    batch_size: int
    sentences: int
    source_tokens: int
    dragoman: tuple[Sample, ...]
    ctranslate2: Mapping[str, tuple[Sample, ...]]

    @property
    def best_setting(self) -> str:
        """The thread setting with CTranslate2's fastest median."""
        return min(self.ctranslate2, key=lambda setting: median_s(self.ctranslate2[setting]))

    @property
    def ratios(self) -> list[float]:
        """Dragoman's sentences per second over CTranslate2's, for each round.

        It counts sentences, not tokens, so that longer translations of the same text are no
        advantage.
        """
        peer = self.ctranslate2[self.best_setting]
        return [
            theirs.elapsed_s / ours.elapsed_s
            for ours, theirs in zip(self.dragoman, peer, strict=True)
        ]

    def summary(self) -> dict[str, Any]:
        """All samples and the values in the table, for JSON."""
        best = self.ctranslate2[self.best_setting]
        named = {"dragoman": self.dragoman, "ctranslate2": best}
        return {
            **asdict(self),
            "best_setting": self.best_setting,
            "ratios": self.ratios,
            "ratio_median": statistics.median(self.ratios),
            **{f"{name}_speed": self._speed(samples) for name, samples in named.items()},
        }

    def _speed(self, samples: Sequence[Sample]) -> dict[str, float]:
        elapsed_s = median_s(samples)
        tokens = samples[0].output_tokens
        return {
            "sentences_per_s": self.sentences / elapsed_s,
            "tokens_per_s": tokens / elapsed_s,
            "length_ratio": tokens / self.source_tokens,
            "cut_share": samples[0].cut / self.sentences,
        }


def median_s(samples: Sequence[Sample]) -> float:
    """The median duration of runs in seconds."""
    return statistics.median(sample.elapsed_s for sample in samples)


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
