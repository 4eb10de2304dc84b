"""The health of a server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Health:
    """Whether a server can translate now; usable as a bool.

    Attributes:
        ready: whether the server can translate.
        reason: why it cannot; None if it can.
    """

    ready: bool
    reason: str | None = None

    def __bool__(self) -> bool:
        """Whether the server can translate."""
        return self.ready

    @classmethod
    def of(cls, ready: bool) -> Health:
        """Returns the health for the readiness of the server's model."""
        return cls(ready, None if ready else "the model is not ready")
