"""The amount of work in a run of the campaign."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """The short form or the full one, and the seed of every random choice."""

    short: bool = False
    seed: int = 1

    def of(self, full: int, short: int) -> int:
        """One of two amounts, depending on the form."""
        return short if self.short else full
