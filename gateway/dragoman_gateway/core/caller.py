"""Who sends a request, and what they may use."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dragoman_gateway.core.errors import KeyMissing


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
            network address where anonymous use has separate limits.
        key_id: of its key; None: anonymous.
        limits: its own.
        caches: whether its translations may be kept in the cache and come from it.
        is_stranger: whether it has no key although access is not open: what it leaves here would be
            of all strangers together.
    """

    name: str
    key_id: str | None = None
    limits: Limits = NO_LIMITS
    caches: bool = True
    is_stranger: bool = False

    @property
    def owner(self) -> str:
        """Whose glossaries and jobs it sees: its key's, or those of everybody without a key."""
        return self.key_id or ""

    def obeying(self, cache_control: str) -> Caller:
        """The caller of a request with the header `Cache-Control`: `no-store` keeps it uncached."""
        named = [one.strip().lower() for one in cache_control.split(",")]
        return replace(self, caches=False) if "no-store" in named else self

    def check_owns(self, what: str) -> None:
        """Refuse a stranger, who must not see or change what other strangers have left.

        Args:
            what: in the plural, for the message.

        Raises:
            KeyMissing: a key is required.
        """
        if self.is_stranger:
            raise KeyMissing(f"{what} need a key: without one they would be everybody's")


ANONYMOUS = Caller("anonymous")
