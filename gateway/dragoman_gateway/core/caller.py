"""The sender of a request, and its limits."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dragoman_gateway.core.errors import KeyMissing


@dataclass(frozen=True)
class Limits:
    """The limits of a caller; None: no limit.

    Attributes:
        requests_per_minute: requests in any minute.
        characters_per_minute: characters of source text in any minute.
        characters_per_month: characters of source text in a calendar month (UTC).
        characters_per_request: characters of source text in a request.
        concurrent_requests: concurrent requests.
    """

    requests_per_minute: int | None = None
    characters_per_minute: int | None = None
    characters_per_month: int | None = None
    characters_per_request: int | None = None
    concurrent_requests: int | None = None


NO_LIMITS = Limits()


@dataclass(frozen=True)
class Caller:
    """The sender of a request.

    Attributes:
        name: name of its usage counters: a key's id, or "anonymous", with the network address if
            anonymous use has separate limits.
        key_id: id of its key; None: anonymous.
        limits: its limits.
        caches: whether its translations may be stored in the cache and come from it.
        is_stranger: whether it has no key although access is not open. Its stored data would be
            shared by all such callers.
    """

    name: str
    key_id: str | None = None
    limits: Limits = NO_LIMITS
    caches: bool = True
    is_stranger: bool = False

    @property
    def owner(self) -> str:
        """The owner of its glossaries and jobs: its key, or everybody without a key."""
        return self.key_id or ""

    def obeying(self, cache_control: str) -> Caller:
        """Returns the caller with a header `Cache-Control` applied: `no-store` disables caching."""
        named = [directive.strip().lower() for directive in cache_control.split(",")]
        return replace(self, caches=False) if "no-store" in named else self

    def check_owns(self, what: str) -> None:
        """Refuse a caller without a key, who must not see or change the data of others.

        Args:
            what: name of the data for the message, in the plural.

        Raises:
            KeyMissing: a key is required.
        """
        if self.is_stranger:
            raise KeyMissing(f"{what} need a key: without one they would be shared by everybody")


ANONYMOUS = Caller("anonymous")
