"""Requests under way to the server, which other requests for the same may wait for too."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Self

from dragoman_client import Translation


class Flight(AbstractContextManager["Flight"]):
    """A request under way; who waits for it enters it as a context.

    It is cancelled when the last one that waits leaves.
    """

    def __init__(self, task: asyncio.Task[list[Translation]], keys: Sequence[bytes]) -> None:
        """Begin with nobody waiting."""
        self._task = task
        self._indices = {key: index for index, key in enumerate(keys)}
        self._waiting = 0

    def __enter__(self) -> Self:
        """Wait for it."""
        self._waiting += 1
        return self

    def __exit__(self, *error: object) -> None:
        """Wait no more."""
        self._waiting -= 1
        if not self._waiting:
            self._task.cancel()  # of no effect if it is done

    @property
    def can_be_joined(self) -> bool:
        """Whether it continues: one for which nobody waits is about to be cancelled."""
        return self._waiting > 0 and not self._task.done()

    async def translations(self) -> list[Translation]:
        """All of its translations, in the order of its keys."""
        return await asyncio.shield(self._task)

    async def translation(self, key: bytes) -> Translation:
        """That of one of its keys."""
        return (await self.translations())[self._indices[key]]


class Flights:
    """The requests under way, by the keys of the texts that they translate."""

    def __init__(self) -> None:
        """Begin with none."""
        self._by_key: dict[bytes, Flight] = {}

    def begin(
        self, sending: Coroutine[Any, Any, list[Translation]], keys: Sequence[bytes], joinable: bool
    ) -> Flight:
        """Send a request.

        Args:
            sending: asks the server.
            keys: of its texts, in their order.
            joinable: whether others may wait for it.
        """
        task = asyncio.create_task(sending)
        flight = Flight(task, keys)
        if joinable:
            self._by_key.update(dict.fromkeys(keys, flight))
        task.add_done_callback(lambda done: self._end(done, flight, keys))
        return flight

    def find(self, key: bytes) -> Flight | None:
        """A request under way that translates the text of a key."""
        flight = self._by_key.get(key)
        return flight if flight is not None and flight.can_be_joined else None

    def _end(
        self, task: asyncio.Task[list[Translation]], flight: Flight, keys: Iterable[bytes]
    ) -> None:
        for key in keys:
            if self._by_key.get(key) is flight:
                del self._by_key[key]
        if not task.cancelled():
            task.exception()  # it may be that nobody waits for it any more
