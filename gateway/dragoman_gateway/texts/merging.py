"""Merges single texts with the same options into one request to the server.

A call of Python's gRPC costs the gateway about as much as the rest of a request. Under load, texts
that arrive while some calls are running wait until one of them ends, and are then sent together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from itertools import islice
from typing import Any, NamedTuple

from dragoman_client import Translation
from dragoman_client.core.trace_context import REQUEST_ID
from dragoman_options.table import requested_outputs, sampled

from dragoman_gateway.core.errors import InvalidInput
from dragoman_gateway.texts.segmentation import JOINED_OUTPUTS

_CALLS = 4
"""Number of running calls with the same options from which texts wait."""
_MOST_TEXTS = 64
"""Maximum number of texts in a request."""
_MOST_CHARACTERS = 400
"""Maximum length of a text; a longer one would delay the others in the request."""
_ALONE = frozenset(("glossary", "prefix"))
"""Options that differ by text."""

Send = Callable[[Sequence[str], Mapping[str, Any]], Awaitable[list[Translation]]]
_Key = tuple[tuple[str, Any], ...]


def can_be_merged(text: str, options: Mapping[str, Any]) -> bool:
    """Whether a text may be sent together with others."""
    return (
        len(text) <= _MOST_CHARACTERS
        and _ALONE.isdisjoint(options)
        and not sampled(options)
        and JOINED_OUTPUTS.issuperset(requested_outputs(options))
    )


class Merging:
    """Sends single texts; texts that wait are merged."""

    def __init__(self, send: Send) -> None:
        """Start without texts.

        Args:
            send: sends texts with options to the server.
        """
        self._send = send
        self._lines: dict[_Key, _Line] = {}

    async def translate(self, text: str, options: Mapping[str, Any]) -> Translation:
        """Translate a text that can be merged.

        A merged request has no deadline or priority of its own, only the client's timeout. It is
        cancelled when nobody waits for any of its texts any more. If it is refused, each text is
        sent alone.

        Args:
            text: the text to translate.
            options: as `dragoman_options.table.check` returns them.
        """
        key = tuple(sorted(options.items()))
        line = self._lines.get(key)
        if line is None:
            line = _Line(self._send, options, lambda: self._lines.pop(key, None))
            self._lines[key] = line
        return await line.translate(text)


class _Text(NamedTuple):
    text: str
    request_id: str


class _Line:
    """The texts with one set of options."""

    def __init__(self, send: Send, options: Mapping[str, Any], ended: Callable[[], object]) -> None:
        self._send, self._options, self._ended = send, options, ended
        self._waiting: dict[asyncio.Future[Translation], _Text] = {}
        self._calls: set[asyncio.Task[Any]] = set()

    async def translate(self, text: str) -> Translation:
        if not self._calls and not self._waiting:
            return await self._alone(text)
        future: asyncio.Future[Translation] = asyncio.get_running_loop().create_future()
        self._waiting[future] = _Text(text, REQUEST_ID.get())
        self._send_next()
        try:
            return await future
        finally:
            self._waiting.pop(future, None)

    async def _alone(self, text: str) -> Translation:
        """`_call` without tasks, which would cost a single client a tenth of its time."""
        call = asyncio.current_task()
        assert call is not None
        self._calls.add(call)
        try:
            return (await self._send([text], self._options))[0]
        finally:
            self._end(call)

    def _send_next(self) -> None:
        """Send waiting texts, unless too many calls are running."""
        if self._waiting and len(self._calls) < _CALLS:
            # The task starts after all texts that have arrived by now are waiting.
            call = asyncio.create_task(self._call())
            self._calls.add(call)
            call.add_done_callback(self._end)

    def _end(self, call: asyncio.Task[Any]) -> None:
        self._calls.discard(call)
        self._send_next()
        if not self._calls:
            self._ended()

    async def _call(self) -> None:
        batch = dict(islice(self._waiting.items(), _MOST_TEXTS))
        if not batch:
            return
        call = asyncio.current_task()
        assert call is not None
        left = _Waiters(call, len(batch))
        for future in batch:
            del self._waiting[future]
            future.add_done_callback(left.leave)
        await self._answer(batch)

    async def _answer(self, batch: Mapping[asyncio.Future[Translation], _Text]) -> None:
        ids = dict.fromkeys(waiting.request_id for waiting in batch.values())
        REQUEST_ID.set(",".join(filter(None, ids)))  # this task's alone
        try:
            translations = await self._send(
                [waiting.text for waiting in batch.values()], self._options
            )
        except InvalidInput as error:
            if len(batch) == 1:
                _fail(batch, error)
            else:
                await asyncio.gather(
                    *(self._answer({future: text}) for future, text in batch.items())
                )
        except Exception as error:
            _fail(batch, error)
        else:
            for future, translation in zip(batch, translations, strict=True):
                if not future.done():
                    future.set_result(translation)


class _Waiters:
    """Cancels a task when nobody waits for its result."""

    def __init__(self, task: asyncio.Task[None], number: int) -> None:
        self._task, self._number = task, number

    def leave(self, future: asyncio.Future[Translation]) -> None:
        """Count a waiter that has its answer or was cancelled."""
        self._number -= 1
        if not self._number and future.cancelled():
            self._task.cancel()


def _fail(batch: Mapping[asyncio.Future[Translation], _Text], error: Exception) -> None:
    for future in batch:
        if not future.done():
            future.set_exception(copy(error))  # each task has a traceback of its own
