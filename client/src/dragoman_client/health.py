"""Whether a server can translate."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Health:
    """Whether a server can translate now; true where it can.

    Attributes:
        ready: whether it can.
        reason: why not; None if it can.
    """

    ready: bool
    reason: str | None = None

    def __bool__(self) -> bool:
        """Whether it can."""
        return self.ready

    @classmethod
    def of(cls, ready: bool) -> Health:
        """What the server says of its model."""
        return cls(ready, None if ready else "the model is not ready")
