"""How much callers have used."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Usage:
    """What a caller has used in a month.

    Attributes:
        characters: of source text, in Unicode code points.
        requests: that were admitted.
        characters_limit: of the month; None: no limit.
        begin: of the month, UTC.
        end: of it, when the next one begins.
    """

    characters: int
    requests: int
    characters_limit: int | None
    begin: datetime
    end: datetime
