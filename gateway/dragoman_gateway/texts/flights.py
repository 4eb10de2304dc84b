"""Requests in flight to the server, which other requests for the same texts can share."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Self

from dragoman_client import Translation


class Flight(AbstractContextManager["Flight"]):
    """A request in flight; use it as a context manager to wait for it.

    It is cancelled when the last waiter leaves.
    """

    def __init__(self, task: asyncio.Task[list[Translation]], keys: Sequence[bytes]) -> None:
        """Start without waiters."""
        self._task = task
        self._indices = {key: index for index, key in enumerate(keys)}
        self._waiting = 0

    def __enter__(self) -> Self:
        """Add a waiter."""
        self._waiting += 1
        return self

    def __exit__(self, *error: object) -> None:
        """Remove a waiter."""
        self._waiting -= 1
        if not self._waiting:
            self._task.cancel()  # no effect if it is done

    @property
    def can_be_joined(self) -> bool:
        """Whether others can wait for it: without waiters it is about to be cancelled."""
        return self._waiting > 0 and not self._task.done()

    async def translations(self) -> list[Translation]:
        """Wait for all of its translations, in the order of its keys."""
        return await asyncio.shield(self._task)

    async def translation(self, key: bytes) -> Translation:
        """Wait for the translation of one of its keys."""
        return (await self.translations())[self._indices[key]]


class Flights:
    """The requests in flight, by the keys of their texts."""

    def __init__(self) -> None:
        """Start without requests."""
        self._by_key: dict[bytes, Flight] = {}

    def begin(
        self, sending: Coroutine[Any, Any, list[Translation]], keys: Sequence[bytes], joinable: bool
    ) -> Flight:
        """Send a request.

        Args:
            sending: coroutine that sends it to the server.
            keys: keys of its texts, in order.
            joinable: whether other requests may wait for it.
        """
        task = asyncio.create_task(sending)
        flight = Flight(task, keys)
        if joinable:
            self._by_key.update(dict.fromkeys(keys, flight))
        task.add_done_callback(lambda done: self._end(done, flight, keys))
        return flight

    def find(self, key: bytes) -> Flight | None:
        """Returns a request in flight that translates the text with a key, or None."""
        flight = self._by_key.get(key)
        return flight if flight is not None and flight.can_be_joined else None

    def _end(
        self, task: asyncio.Task[list[Translation]], flight: Flight, keys: Iterable[bytes]
    ) -> None:
        for key in keys:
            if self._by_key.get(key) is flight:
                del self._by_key[key]
        if not task.cancelled():
            task.exception()  # marks it as retrieved, since there may be no waiters
