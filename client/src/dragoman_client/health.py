"""The server's state and languages, as its readiness and configuration tell them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dragoman_client.errors import ServerError

LANGUAGES = "languages"
"""Name of the model's parameter that holds its languages, with commas between them."""


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


def languages_of(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The languages that a model's configuration names.

    Args:
        config: as Triton writes it in JSON.

    Raises:
        ServerError: it names none.
    """
    try:
        named = str(config["parameters"][LANGUAGES]["string_value"])
    except (KeyError, TypeError) as error:
        raise ServerError("the server does not tell its languages: is it older?") from error
    return tuple(language.strip() for language in named.split(",") if language.strip())
