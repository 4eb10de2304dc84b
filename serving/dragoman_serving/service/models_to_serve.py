"""Which bundles the engine's process serves, as its launcher tells it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class ModelsToServe:
    """Bundles of a process, where they are not those of Triton's repository.

    Attributes:
        bundles: their folders; the first one is the default.
        preload: names of bundles, or directions such as en-de, to be loaded at the start.
        memory_bytes: the most that the process may take; None: there is no bound.
        pivot: the language over which two directions are joined; None: none are.
    """

    bundles: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()
    memory_bytes: int | None = None
    pivot: str | None = None

    @classmethod
    def parse(cls, written: str) -> ModelsToServe:
        """From what `str` wrote."""
        found = json.loads(written)
        return cls(
            tuple(found["bundles"]),
            tuple(found["preload"]),
            found["memory_bytes"],
            found["pivot"],
        )

    def __str__(self) -> str:
        """As an argument of a process."""
        return json.dumps(asdict(self))
