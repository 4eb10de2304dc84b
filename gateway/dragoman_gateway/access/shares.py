"""What all clients use together, of which one client has at most a share.

A client is a key, an IPv4 address or an IPv6 network of 64 bits. Where the callers of an open
gateway have one name for all, that name has no share. Clients without a key have their
own memory for bodies, so that they cannot use up the memory for those with a key.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import NamedTuple

from dragoman_gateway.access.access import network_of
from dragoman_gateway.core.caller import ANONYMOUS, Caller
from dragoman_gateway.core.errors import TooManyRequests, Unavailable
from dragoman_gateway.core.settings import GatewaySettings

_RETRY_S = 1.0
_KEY_BYTES, _KEYLESS_BYTES = 256 << 20, 32 << 20
"""Maximum memory of the bodies of all requests with a key, and of those without."""
_KEY_FILE_BYTES, _KEYLESS_FILE_BYTES = 256 << 20, 128 << 20
"""Maximum size of all uploaded files on disk until their request is answered."""


class Budget:
    """Counts units, in total and for each client.

    Attributes:
        held: the total.
    """

    def __init__(self, units: str, most: int, most_of_client: int) -> None:
        """Start with nothing.

        Args:
            units: what is counted, in the plural, for messages.
            most: maximum of all clients.
            most_of_client: maximum of each.
        """
        self._units, self._most, self._most_of_client = units, most, most_of_client
        self.held = 0
        self._of_client: Counter[str] = Counter()
        self._waiting: list[asyncio.Future[None]] = []

    @classmethod
    def of(cls, units: str, most: int, settings: GatewaySettings, least: int = 1) -> Budget:
        """Make a budget with the share of the settings for each client.

        Args:
            units: what is counted.
            most: maximum of all clients; more if `least` is more.
            settings: settings with the share.
            least: what each client may use in any case.
        """
        most = max(most, least)
        return cls(units, most, max(int(most * settings.client_share), least))

    def hold(self, client: str, number: int = 1) -> None:
        """Count units.

        Raises:
            TooManyRequests: the client's share is exceeded; these units are not counted.
            Unavailable: the total is exceeded; these units are not counted.
        """
        is_one = client != ANONYMOUS.name
        if is_one and self._of_client[client] + number > self._most_of_client:
            raise TooManyRequests(
                f"your requests have more than {self._most_of_client:,} {self._units} together: "
                "send fewer at once",
                _RETRY_S,
            )
        if self.held + number > self._most:
            raise Unavailable(
                f"the gateway has reached its limit of {self._units}: try again soon", _RETRY_S
            )
        self.held += number
        self._of_client[client] += number

    async def hold_later(self, client: str, number: int = 1) -> None:
        """Count units as soon as neither the client's share nor the total is exceeded."""
        while True:
            try:
                return self.hold(client, number)
            except (TooManyRequests, Unavailable):
                released = asyncio.get_running_loop().create_future()
                self._waiting.append(released)
                await released

    def let_go(self, client: str, number: int = 1) -> None:
        """Release units."""
        self.held -= number
        self._of_client[client] -= number
        if not self._of_client[client]:
            del self._of_client[client]
        waiting, self._waiting = self._waiting, []
        for released in waiting:
            if not released.done():
                released.set_result(None)


class Account(NamedTuple):
    """Where the bytes of a body count.

    Attributes:
        client: name of the client.
        memory: budget of the bytes in memory.
        files: budget of the bytes of uploaded files, which are on disk.
    """

    client: str
    memory: Budget
    files: Budget


class Bodies:
    """The budgets of all bodies, of every protocol."""

    def __init__(self, settings: GatewaySettings) -> None:
        """Start without bodies."""

        def budgets(memory_bytes: int, file_bytes: int) -> tuple[Budget, Budget]:
            return (
                Budget.of("bytes of bodies", memory_bytes, settings, settings.body_bytes),
                Budget.of("bytes of files", file_bytes, settings, settings.file_bytes),
            )

        self._with_key = budgets(_KEY_BYTES, _KEY_FILE_BYTES)
        self._without = budgets(_KEYLESS_BYTES, _KEYLESS_FILE_BYTES)

    def account(self, caller: Caller | None, address: str) -> Account:
        """Returns the account of a request.

        Args:
            caller: its sender; None: not identified yet.
            address: network address of the client, behind trusted proxies.
        """
        is_known = caller is not None and not caller.is_stranger
        client = client_of(caller, address)
        return Account(client, *(self._with_key if is_known else self._without))


def client_of(caller: Caller | None, address: str) -> str:
    """Returns the name of a client, of which each has a share.

    Args:
        caller: the sender of its request; None: not identified yet.
        address: its network address, behind trusted proxies.
    """
    if caller is not None and caller.key_id is not None:
        return f"key {caller.key_id}"
    return network_of(address)
