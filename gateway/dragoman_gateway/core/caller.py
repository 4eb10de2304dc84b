"""Who sends a request, and what they may use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What a caller may use; None: no limit.

    Attributes:
        requests_per_minute: requests in any minute.
        characters_per_minute: characters of source text in any minute.
        characters_per_month: characters of source text in a calendar month (UTC).
        characters_per_request: characters of source text in a request.
        concurrent_requests: requests at once.
    """

    requests_per_minute: int | None = None
    characters_per_minute: int | None = None
    characters_per_month: int | None = None
    characters_per_request: int | None = None
    concurrent_requests: int | None = None


NO_LIMITS = Limits()


@dataclass(frozen=True)
class Caller:
    """Who sends a request.

    Attributes:
        name: of the counters that it shares with others: a key's id, or "anonymous" with the
            network address where anonymous use has limits of its own.
        key_id: of its key; None: anonymous.
        limits: its own.
        caches: whether its translations may be kept in the cache and come from it.
    """

    name: str
    key_id: str | None = None
    limits: Limits = NO_LIMITS
    caches: bool = True

    @property
    def owner(self) -> str:
        """Whose glossaries and jobs it sees: its key's, or those of everybody without a key."""
        return self.key_id or ""


ANONYMOUS = Caller("anonymous")
