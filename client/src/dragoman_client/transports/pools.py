"""Concurrent requests, in threads or in tasks, whose results come in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
)
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

from dragoman_client.transports.blocking import run

_Item = TypeVar("_Item")
_Part = TypeVar("_Part")
_Result = TypeVar("_Result")


class ThreadPool:
    """Runs requests in threads.

    Attributes:
        capacity: maximum number of requests whose results have not been fetched.
    """

    def __init__(self, concurrency: int) -> None:
        """Make a pool; it starts threads when they are needed."""
        # Twice the number of threads, so that a slow first request does not idle the others.
        self.capacity = 1 if concurrency == 1 else 2 * concurrency
        self._executor = ThreadPoolExecutor(concurrency, thread_name_prefix="dragoman-client")

    def begin(self, send: Callable[..., Any], *values: Any) -> Future[Any]:
        """Start a call of a coroutine function."""
        # Uses the caller's context, which holds its trace.
        return self._executor.submit(copy_context().run, lambda: run(send(*values)))

    async def result(self, begun: Future[Any]) -> Any:
        """Wait for the result."""
        return begun.result()

    async def stop(self, _begun: Iterable[Future[Any]]) -> None:
        """Cancel the requests that have not begun; `begin` is not called again."""
        # Does not wait: after an error the remaining answers are not needed.
        self._executor.shutdown(wait=False, cancel_futures=True)


class TaskPool:
    """Runs requests in tasks of the event loop, like `ThreadPool`."""

    def __init__(self, concurrency: int) -> None:
        """Make a pool."""
        self.capacity = concurrency

    def begin(self, send: Callable[..., Any], *values: Any) -> asyncio.Task[Any]:
        """See `ThreadPool`."""
        return asyncio.create_task(send(*values))

    async def result(self, begun: asyncio.Task[Any]) -> Any:
        """See `ThreadPool`."""
        return await begun

    async def stop(self, begun: Iterable[asyncio.Task[Any]]) -> None:
        """Cancel the requests, and wait for their end."""
        tasks = [*begun]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


Pool = ThreadPool | TaskPool


async def in_order(
    pool: Pool,
    parts: Iterable[_Part] | AsyncIterable[_Part],
    send: Callable[[_Part], Awaitable[_Result]],
) -> AsyncGenerator[tuple[_Part, _Result], None]:
    """Send parts concurrently, and yield each with its result, in order.

    Close the generator to cancel the requests that are still running.

    Args:
        pool: runs the requests; stopped at the end.
        parts: what to send. At most `pool.capacity` parts are read ahead of the results, and none
            while a result is ready.
        send: sends a part.

    Raises:
        Exception: the first error of a part, when its turn comes.
    """
    capacity, incoming = pool.capacity, _each(parts)
    under_way: deque[tuple[_Part, Any]] = deque()
    try:
        while True:
            if len(under_way) < capacity and not (under_way and under_way[0][1].done()):
                if (part := await anext(incoming, None)) is None:
                    capacity = 0  # no more requests, only results
                else:
                    under_way.append((part, pool.begin(send, part)))
            elif under_way:
                part, begun = under_way[0]
                yield part, await pool.result(begun)
                under_way.popleft()
            else:
                return
    finally:
        await pool.stop(begun for _, begun in under_way)


async def batches_of(
    items: Iterable[_Item] | AsyncIterable[_Item], size: int
) -> AsyncGenerator[tuple[int, list[_Item]], None]:
    """Yields lists of at most this many items, each with the index of its first item."""
    index, batch = 0, list[_Item]()
    async for item in _each(items):
        batch.append(item)
        if len(batch) == size:
            yield index, batch
            index, batch = index + size, []
    if batch:
        yield index, batch


async def _each(items: Iterable[_Item] | AsyncIterable[_Item]) -> AsyncIterator[_Item]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item
