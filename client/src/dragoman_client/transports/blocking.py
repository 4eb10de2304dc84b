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
    Mapping,
)
from typing import Any, TypeVar

from dragoman_client.core.request import Part
from dragoman_client.core.tensors import Values
from dragoman_client.transports.transport import Transport

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


class AwaitableTransport:
    """Wraps a `Transport` as an `AsyncTransport` whose methods block."""

    def __init__(self, transport: Transport) -> None:
        """Store the transport."""
        self._transport = transport

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        return awaitable(getattr(self._transport, name))

    async def stream(
        self, inputs: Mapping[str, Values], timeout_s: float
    ) -> AsyncGenerator[Part, None]:
        """See `Transport`."""
        with contextlib.closing(self._transport.stream(inputs, timeout_s)) as parts:
            for part in parts:
                yield part
