"""Estimates the time and cost of a job from a sample."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from dragoman_serving.batch.chunk_work import ChunkWork
from dragoman_serving.batch.chunks import Chunk
from dragoman_serving.batch.local_run import run_here
from dragoman_serving.batch.tally import Tally

_SAMPLED_CHUNKS, _SAMPLED_ROWS = 8, 250
"""Number of sampled chunks, and of rows of each."""
_S_PER_HOUR = 3600


@dataclass(frozen=True)
class Estimate:
    """The estimate for the unfinished chunks.

    Attributes:
        rows: rows to translate.
        characters: characters of their texts, estimated from the sample.
        sampled_rows: translated rows of the sample, which are not kept.
        sampled_errors: rows of the sample without a translation.
        rows_per_s: throughput of this machine, or of the server.
        cores: cores of this machine; None: a server translated.
        price: price of a core hour, in any currency; None: unknown.
    """

    rows: int
    characters: int
    sampled_rows: int
    sampled_errors: int
    rows_per_s: float
    cores: int | None
    price: float | None

    @property
    def hours(self) -> float:
        """Wall-clock hours of this machine or the server."""
        return self.rows / self.rows_per_s / _S_PER_HOUR

    @property
    def core_hours(self) -> float | None:
        """Core hours; None: a server translated."""
        return None if self.cores is None else self.hours * self.cores

    @property
    def cost(self) -> float | None:
        """Cost in the currency of the price; None: no price, or a server translated."""
        if self.price is None or self.core_hours is None:
            return None
        return self.price * self.core_hours

    def as_json(self) -> dict[str, Any]:
        """Returns the estimate for JSON."""
        more = {"hours": self.hours, "core_hours": self.core_hours, "cost": self.cost}
        return {**asdict(self), **more}

    def __str__(self) -> str:
        """The estimate as text."""
        lines = [
            f"{self.rows} rows of about {self.characters} characters are left",
            f"{self.rows_per_s:.1f} rows/s in a sample of {self.sampled_rows} rows, "
            f"{self.sampled_errors} with errors",
            f"{self.hours:.2f} hours",
        ]
        if self.core_hours is not None:
            lines[-1] += f" on {self.cores} cores: {self.core_hours:.2f} core-hours"
        if self.cost is not None:
            lines.append(f"cost {self.cost:.2f}, at {self.price:g} a core-hour")
        return "\n".join(lines)


def estimate(
    chunks: Sequence[Chunk],
    work: ChunkWork,
    concurrency: int,
    cores: int | None,
    price: float | None,
) -> Estimate:
    """Translate a sample of chunks from the whole job, without writing them.

    Args:
        chunks: unfinished chunks, at least one.
        work: translates chunks.
        concurrency: parallel chunks.
        cores: see `Estimate`.
        price: see `Estimate`.

    Raises:
        DragomanError: see `ChunkWork.do`.
        TranslationError: likewise.
    """
    work.warm_up()
    step = max(len(chunks) // _SAMPLED_CHUNKS, 1)
    sampled, begin_s = Tally(), time.monotonic()
    sample = partial(work.sample, most_rows=_SAMPLED_ROWS)
    for tally in run_here(chunks[step // 2 :: step][:_SAMPLED_CHUNKS], sample, concurrency):
        sampled.add(tally)
    elapsed_s = time.monotonic() - begin_s
    rows = sum(chunk.rows for chunk in chunks)
    return Estimate(
        rows,
        round(rows * sampled.characters / sampled.rows),
        sampled.rows,
        sampled.errors,
        sampled.rows / elapsed_s,
        cores,
        price,
    )
