"""Counts the results of chunks, and reports them for a run."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from dragoman_options.table import Translation

from dragoman_serving.batch.chunks import Outcome, RowError

_BINS = 10
"""Bins of the histogram of confidence, from 0 to 1."""


@dataclass
class Tally:
    """Counts of finished rows.

    Attributes:
        rows: rows that were written.
        characters: characters of their texts.
        errors: rows without a translation.
        cut: translations that the token limit cut.
        confidences: numbers of rows with a confidence of 0 to 0.1, 0.1 to 0.2 and so on; the
            confidence is the geometric mean of the tokens' probabilities.
    """

    rows: int = 0
    characters: int = 0
    errors: int = 0
    cut: int = 0
    confidences: list[int] = field(default_factory=lambda: [0] * _BINS)

    @classmethod
    def of(cls, texts: Iterable[str | RowError], outcomes: Iterable[Outcome]) -> Tally:
        """Counts the rows of a chunk."""
        tally = cls(characters=sum(len(text) for text in texts if isinstance(text, str)))
        for outcome in outcomes:
            tally._count(outcome)
        return tally

    def add(self, other: Tally) -> None:
        """Add other counts."""
        self.rows += other.rows
        self.characters += other.characters
        self.errors += other.errors
        self.cut += other.cut
        for index, count in enumerate(other.confidences):
            self.confidences[index] += count

    def _count(self, outcome: Outcome) -> None:
        self.rows += 1
        if isinstance(outcome, RowError):
            self.errors += 1
            return
        self.cut += outcome.finish_reason == "length"
        if _has_confidence(outcome):
            self.confidences[_bin(outcome)] += 1


def _has_confidence(translation: Translation) -> bool:
    """Whether it has a meaningful confidence; that of an empty text is not."""
    return translation.confidence is not None and translation.output_tokens > 0


def _bin(translation: Translation) -> int:
    return min(int(math.exp(translation.confidence or 0.0) * _BINS), _BINS - 1)


@dataclass(frozen=True)
class Report:
    """The report of a finished run.

    Attributes:
        done: counts of this run.
        earlier_rows: rows that were finished before.
        left_rows: unfinished rows, for example of other shards.
        seconds: wall-clock time of the run.
        cores: cores of the run; None: a server translated.
    """

    done: Tally
    earlier_rows: int
    left_rows: int
    seconds: float
    cores: int | None

    @property
    def per_second(self) -> float:
        """Rows per second."""
        return self.done.rows / self.seconds

    @property
    def per_core_second(self) -> float | None:
        """Rows per second and core; None: a server translated."""
        return None if self.cores is None else self.per_second / self.cores

    def as_json(self) -> dict[str, Any]:
        """Returns the report for JSON."""
        return {
            **asdict(self),
            "rows_per_s": self.per_second,
            "rows_per_core_s": self.per_core_second,
        }

    def __str__(self) -> str:
        """The report as text."""
        done = self.done
        lines = [
            f"{done.rows} rows in {self.seconds:.1f} s: {self.per_second:.1f} rows/s, "
            f"{done.characters / self.seconds:.0f} characters/s"
        ]
        if self.per_core_second is not None:
            lines.append(f"{self.per_core_second:.1f} rows a core-second, on {self.cores} cores")
        lines.append(
            f"{done.errors} rows with errors, {done.cut} translations cut; "
            f"{self.earlier_rows} rows done before, {self.left_rows} left"
        )
        if total := sum(done.confidences):
            lines.append("confidence   rows")
            lines += [
                f"{index / _BINS:.1f} to {(index + 1) / _BINS:.1f} {count:9d} "
                f"{'#' * round(40 * count / total)}".rstrip()
                for index, count in enumerate(done.confidences)
            ]
        return "\n".join(lines)
