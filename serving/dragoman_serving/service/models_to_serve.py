"""The bundles that the engine process serves, as passed by its launcher."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class ModelsToServe:
    """The bundles of a process.

    Attributes:
        bundles: their folders; the first one is the default.
        preload: names of bundles, or directions such as en-de, to load at startup.
        memory_bytes: memory limit of the process; None: no limit.
        pivot: the pivot language; None: no pivot translation.
    """

    bundles: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()
    memory_bytes: int | None = None
    pivot: str | None = None

    @classmethod
    def parse(cls, written: str) -> ModelsToServe:
        """Parses the output of `str`."""
        fields = json.loads(written)
        return cls(
            tuple(fields["bundles"]),
            tuple(fields["preload"]),
            fields["memory_bytes"],
            fields["pivot"],
        )

    def __str__(self) -> str:
        """JSON, as an argument of a process."""
        return json.dumps(asdict(self))
