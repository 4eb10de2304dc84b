"""Runs coroutines without an event loop: they block instead of suspending.

`Translator` uses this to run the coroutines of `Exchange` in its caller's thread.
"""

from __future__ import annotations

import contextlib
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Mapping,
)
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

from dragoman_client.request import Part, Translation
from dragoman_client.tensors import Array
from dragoman_client.transport import Transport

_Result = TypeVar("_Result")


def run(awaitable: Awaitable[_Result]) -> _Result:
    """Returns the result of an awaitable that never suspends."""
    try:
        next(awaitable.__await__())
    except StopIteration as end:
        result: _Result = end.value
        return result
    raise RuntimeError("a coroutine suspended without an event loop")


def run_each(parts: AsyncGenerator[_Result, None]) -> Generator[_Result, None, None]:
    """Yields the values of an asynchronous generator that never suspends."""
    try:
        while True:
            try:
                part = run(anext(parts))
            except StopAsyncIteration:
                return
            yield part
    finally:
        run(parts.aclose())


def awaitable(block: Callable[..., _Result]) -> Callable[..., Coroutine[Any, Any, _Result]]:
    """Wraps a blocking function as a coroutine function."""

    async def call(*values: Any, **more: Any) -> _Result:
        return block(*values, **more)

    return call


class ThreadPool:
    """Runs requests in threads; see `exchange.Pool`."""

    def __init__(self, concurrency: int) -> None:
        """Make a pool; it starts threads when they are needed."""
        # Twice the number of threads, so that a slow first request does not idle the others.
        self.capacity = 1 if concurrency == 1 else 2 * concurrency
        self._executor = ThreadPoolExecutor(concurrency, thread_name_prefix="dragoman-client")

    def begin(self, send: Callable[..., Any], *values: Any) -> Future[list[Translation]]:
        """See `exchange.Pool`."""
        # Uses the caller's context, which holds its trace.
        return self._executor.submit(copy_context().run, lambda: run(send(*values)))

    async def result(self, begun: Future[list[Translation]]) -> list[Translation]:
        """See `exchange.Pool`."""
        return begun.result()

    async def stop(self, _begun: Iterable[Future[list[Translation]]]) -> None:
        """See `exchange.Pool`."""
        # Does not wait: after an error the remaining answers are not needed.
        self._executor.shutdown(wait=False, cancel_futures=True)


class AwaitableTransport:
    """Wraps a `Transport` as an `AsyncTransport` whose methods block."""

    def __init__(self, transport: Transport) -> None:
        """Store the transport."""
        self._transport = transport

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        return awaitable(getattr(self._transport, name))

    async def stream(
        self, inputs: Mapping[str, Array], timeout_s: float
    ) -> AsyncGenerator[Part, None]:
        """See `Transport`."""
        with contextlib.closing(self._transport.stream(inputs, timeout_s)) as parts:
            for part in parts:
                yield part
