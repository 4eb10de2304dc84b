"""Limits on the size and time of request bodies, and on all bodies together."""

from __future__ import annotations

import asyncio

from starlette.types import Message, Receive

from dragoman_gateway.access.shares import Bodies
from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.errors import GatewayError, SlowUpload, TooLarge

LEAST_BYTES_PER_S = 64 << 10
"""At this speed, a body of any length arrives in time."""


class BoundedBody:
    """ASGI's `receive` with limits on the size and speed of a body, and on all bodies together."""

    def __init__(
        self, receive: Receive, most_bytes: int, timeout_s: float, bodies: Bodies, address: str
    ) -> None:
        """Start the timeout, which is extended as the body arrives.

        Args:
            receive: ASGI's function.
            most_bytes: maximum size of the body.
            timeout_s: timeout of the body, and of each pause in it; a large one has more.
            bodies: counts all bodies.
            address: network address of the client, behind trusted proxies.
        """
        self._receive, self._most_bytes, self._timeout_s = receive, most_bytes, timeout_s
        self._bodies, self._address = bodies, address
        self._account = bodies.account(None, address)
        self._memory_bytes = self._file_bytes = self._decompressed_bytes = 0
        self._too_large: GatewayError | None = None
        self._deadline_s = asyncio.get_running_loop().time() + timeout_s
        self._size, self._is_whole = 0, False

    def bound(self, most_bytes: int, too_large: GatewayError | None = None) -> None:
        """Set another size limit.

        Args:
            most_bytes: maximum size of the body.
            too_large: error for a larger body; None: `TooLarge`.
        """
        self._most_bytes, self._too_large = most_bytes, too_large

    async def __call__(self) -> Message:
        """Receive the next message.

        Raises:
            TooLarge: the body is too large; or the error set for this.
            SlowUpload: the body did not arrive in time.
            TooManyRequests: the client's bodies together are too large.
            Unavailable: all bodies together are too large.
        """
        if self._is_whole:
            return await self._receive()
        pause_s = asyncio.get_running_loop().time() + self._timeout_s
        try:
            async with asyncio.timeout_at(min(self._deadline_s, pause_s)):
                message = await self._receive()
        except TimeoutError:
            raise SlowUpload(
                f"the body did not arrive within {self._timeout_s:g} s, and after that at "
                f"{LEAST_BYTES_PER_S >> 10} KiB a second, without a pause of {self._timeout_s:g} s"
            ) from None
        size = len(message.get("body", b""))
        self._size += size
        self._deadline_s += size / LEAST_BYTES_PER_S
        if self._size > self._most_bytes:
            raise self._too_large or TooLarge(
                f"the body has more than {self._most_bytes:,} bytes: send less"
            )
        self._account.memory.hold(self._account.client, size)
        self._memory_bytes += size
        self._is_whole = not message.get("more_body", False)
        return message

    def hold_decompressed(self, size: int) -> None:
        """Count bytes of the decompressed body, which is held beside the received one.

        Raises:
            TooLarge: the decompressed body is too large; or the error set for this.
            TooManyRequests: the client's bodies together are too large.
            Unavailable: all bodies together are too large.
        """
        self._decompressed_bytes += size
        if self._decompressed_bytes > self._most_bytes:
            raise self._too_large or TooLarge(
                f"the decompressed body has more than {self._most_bytes:,} bytes: send less"
            )
        self._account.memory.hold(self._account.client, size)
        self._memory_bytes += size

    def move_to_file(self, size: int) -> None:
        """Count received bytes as a file on disk, not as memory.

        Raises:
            TooManyRequests: the client's files together are too large.
            Unavailable: all files together are too large.
        """
        self._account.files.hold(self._account.client, size)
        self._account.memory.let_go(self._account.client, size)
        self._file_bytes += size
        self._memory_bytes -= size

    def charge(self, caller: Caller) -> None:
        """Count the received bytes, and those to come, for an identified caller.

        Raises:
            TooManyRequests: the client's bodies together are too large.
            Unavailable: all bodies together are too large.
        """
        account = self._bodies.account(caller, self._address)
        if account == self._account:
            return
        if not (self._memory_bytes or self._file_bytes):  # before the body
            self._account = account
            return
        account.memory.hold(account.client, self._memory_bytes)
        try:
            account.files.hold(account.client, self._file_bytes)
        except GatewayError:
            account.memory.let_go(account.client, self._memory_bytes)
            raise
        memory_bytes, file_bytes = self._memory_bytes, self._file_bytes
        self.let_go()
        self._account, self._memory_bytes, self._file_bytes = account, memory_bytes, file_bytes

    def let_go(self) -> None:
        """Release the received bytes."""
        if self._memory_bytes:
            self._account.memory.let_go(self._account.client, self._memory_bytes)
        if self._file_bytes:
            self._account.files.let_go(self._account.client, self._file_bytes)
        self._memory_bytes = self._file_bytes = 0
