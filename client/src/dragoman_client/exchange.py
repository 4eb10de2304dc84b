"""Requests to a server and their answers, written once for both clients.

`Exchange` does no I/O of its own. It awaits a transport, a sleep and a pool of requests. Those of
`AsyncTranslator` are asyncio's. Those of `Translator` block instead of suspending, so that
`blocking.run` can drive the coroutines without an event loop.
"""

from __future__ import annotations

import contextlib
import functools
import re
import time
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import replace
from typing import Any, ClassVar, Protocol, TypeVar, Unpack, overload

from dragoman_options.arguments import OptionArguments, ScoringArguments
from dragoman_options.table import INFO, SCORE, STREAM, check

from dragoman_client.errors import InvalidRequest, ServerError, TranslationError
from dragoman_client.health import Health
from dragoman_client.pair_scoring import PairScore, check_pairs, pair_inputs, read_scores
from dragoman_client.request import (
    ENDED_EARLY,
    Part,
    Translation,
    build_inputs,
    has_text,
    is_last,
    read_outputs,
)
from dragoman_client.retrying import with_retries
from dragoman_client.server_info import ServerInfo
from dragoman_client.settings import ClientSettings, check_batch_options, check_batching
from dragoman_client.tensors import Array
from dragoman_client.transport import AsyncTransport
from dragoman_client.version import __version__, series, work_together

Texts = Iterable[str] | AsyncIterable[str]
_Answer = TypeVar("_Answer")
_OF_ANOTHER_VERSION = re.compile("unknown option|unexpected inference input|the answer lacks")
"""Errors that fitting versions do not make, since the client checks options before it sends them.

The second one is Triton's.
"""
_VERSION_TIMEOUT_S = 2.0


class Pool(Protocol):
    """Runs requests beside each other.

    Attributes:
        capacity: most requests whose results were not fetched.
    """

    capacity: int

    def begin(self, send: Callable[..., Any], *values: Any) -> Any:
        """Begin what such a call of a coroutine function does; it has a method `done`."""

    async def result(self, begun: Any) -> list[Translation]:
        """Wait for it."""
        ...

    async def stop(self, begun: Iterable[Any]) -> None:
        """Cancel those whose results nobody will fetch; nothing is begun after that."""


class Exchange:
    """A connection to a server; see `Translator`, whose methods these are."""

    _name: ClassVar[str] = "Translator"

    def __init__(
        self,
        transport: AsyncTransport,
        settings: ClientSettings,
        sleep: Callable[[float], Awaitable[object]],
        open_pool: Callable[[int], Pool],
    ) -> None:
        """Keep what does the I/O.

        Args:
            transport: the way to the server.
            settings: the client's.
            sleep: waits for so many seconds.
            open_pool: makes a pool that runs so many requests at once.
        """
        self._transport, self._settings = transport, settings
        self._open_pool = open_pool
        self._with_retries = functools.partial(
            with_retries, timeout_s=settings.timeout_s, retries=settings.retries, sleep=sleep
        )
        self._closed = False

    def _check_open(self) -> None:
        """Refuse work after `close`."""
        if self._closed:
            raise RuntimeError(f"this {self._name} is closed")

    async def close(self) -> None:
        """Let go of the connections; the translator is of no use any more.

        Waits for the end of gRPC streams that were left early.
        """
        self._closed = True
        await self._transport.close()

    async def is_ready(self) -> bool:
        """Whether the server can translate now; False as well where nothing answers."""
        return (await self.health()).ready

    async def health(self) -> Health:
        """See `Translator.health`."""
        self._check_open()
        try:
            return Health.of(await self._transport.is_ready())
        except TranslationError as error:
            return Health(False, str(error))

    async def languages(self) -> tuple[str, ...]:
        """See `Translator.languages`."""
        return (await self.info()).languages

    async def info(self) -> ServerInfo:
        """See `Translator.info`."""
        self._check_open()
        return await self._info(self._settings.timeout_s)

    async def _info(self, timeout_s: float) -> ServerInfo:
        return ServerInfo.of(await self._transport.infer({}, timeout_s, model=INFO))

    # A str is a sequence of str too; the order of the overloads decides.
    @overload
    async def translate(  # type: ignore[overload-overlap]
        self, texts: str, **options: Unpack[OptionArguments]
    ) -> Translation: ...

    @overload
    async def translate(
        self, texts: Sequence[str], **options: Unpack[OptionArguments]
    ) -> list[Translation]: ...

    async def translate(
        self, texts: str | Sequence[str], **options: Unpack[OptionArguments]
    ) -> Translation | list[Translation]:
        """Translate a text, or several in one request; see `Translator.translate`.

        Cancelling the task gives the translation up; over HTTP the server learns of it only for
        streams, and else goes on to the deadline.
        """
        self._check_open()
        if isinstance(texts, str):
            return (await self._send([texts], check(options)))[0]
        if not isinstance(texts, Sequence) or isinstance(texts, bytes | bytearray):
            raise TypeError(f"texts must be str or a sequence of str, got {type(texts).__name__}")
        checked = check(options)
        return await self._send(texts, checked) if texts else []

    @overload
    async def score(  # type: ignore[overload-overlap]
        self, texts: str, targets: str, **options: Unpack[ScoringArguments]
    ) -> PairScore: ...

    @overload
    async def score(
        self, texts: Sequence[str], targets: Sequence[str], **options: Unpack[ScoringArguments]
    ) -> list[PairScore]: ...

    async def score(
        self,
        texts: str | Sequence[str],
        targets: str | Sequence[str],
        **options: Unpack[ScoringArguments],
    ) -> PairScore | list[PairScore]:
        """Ask what the model thinks of given translations; see `Translator.score`."""
        self._check_open()
        checked = check_pairs(texts, targets, options)
        if isinstance(texts, str):
            return (await self._score([texts], [str(targets)], checked))[0]
        return await self._score(texts, targets, checked) if texts else []

    def translate_stream(
        self, text: str, **options: Unpack[OptionArguments]
    ) -> AsyncGenerator[Translation, None]:
        """Translate a text whose translation can be read as it grows.

        See `Translator.translate_stream`.
        """
        self._check_open()
        # Not a generator itself, so that wrong arguments are reported here and not at the first
        # part; `translate_batches` likewise.
        checked = check(options, STREAM)
        return self._parts(build_inputs([text], checked), checked)

    def translate_batches(
        self,
        texts: Iterable[str] | AsyncIterable[str],
        *,
        batch_size: int = 32,
        concurrency: int = 2,
        **options: Unpack[OptionArguments],
    ) -> AsyncGenerator[Translation, None]:
        """Translate any number of texts in constant memory; see `Translator.translate_batches`."""
        self._check_open()
        check_batching(texts, batch_size, concurrency)
        return self._batches(texts, batch_size, concurrency, check_batch_options(options))

    async def _parts(
        self, inputs: Mapping[str, Array], options: Mapping[str, Any]
    ) -> AsyncGenerator[Translation, None]:
        async def begin(timeout_s: float) -> tuple[Part, AsyncGenerator[Part, None]]:
            parts = self._transport.stream(inputs, timeout_s)
            async for part in parts:
                # The first one comes at once, without text; the request can still be sent again.
                if has_text(part) or is_last(part):
                    return part, parts  # what fails later has been read in part
            raise ServerError(ENDED_EARLY)

        begin_s = time.monotonic()
        first, parts = await self._explained(self._with_retries(begin))
        async with contextlib.aclosing(parts):
            yield _part_read(first, begin_s, options)
            async for part in parts:
                yield _part_read(part, begin_s, options)

    async def _batches(
        self, texts: Texts, batch_size: int, concurrency: int, options: Mapping[str, Any]
    ) -> AsyncGenerator[Translation, None]:
        """Keep requests under way and hand out their answers in order."""
        pool = self._open_pool(concurrency)
        capacity, under_way = pool.capacity, deque[Any]()
        batches = _batches_of(texts, batch_size)
        try:
            while True:
                if len(under_way) < capacity and not (under_way and under_way[0].done()):
                    begun = await anext(batches, None)
                    if begun is None:
                        capacity = 0  # only the answers are left
                    else:
                        index, batch = begun
                        under_way.append(pool.begin(self._send, batch, options, index))
                elif under_way:
                    for translation in await pool.result(under_way[0]):
                        yield translation
                    under_way.popleft()
                else:
                    return
        finally:
            await pool.stop(under_way)

    async def _send(
        self, texts: Sequence[str], options: Mapping[str, Any], first_index: int = 0
    ) -> list[Translation]:
        """One request."""
        inputs = build_inputs(texts, options, first_index)
        send = functools.partial(self._transport.infer, inputs)
        return await self._request(
            send, lambda answer, s: read_outputs(answer, len(texts), s, options)
        )

    async def _score(
        self, texts: Sequence[str], targets: Sequence[str], options: Mapping[str, Any]
    ) -> list[PairScore]:
        """One request."""
        inputs = pair_inputs(texts, targets, options)
        send = functools.partial(self._transport.infer, inputs, model=SCORE)
        return await self._request(
            send, lambda answer, s: read_scores(answer, len(texts), s, options)
        )

    async def _request(
        self, send: Callable[[float], Awaitable[Part]], read: Callable[[Part, float], _Answer]
    ) -> _Answer:
        """Send, and read the answer and how many seconds it took with its retries."""

        async def answer() -> _Answer:
            begin_s = time.monotonic()
            answer = await self._with_retries(send)
            return read(answer, time.monotonic() - begin_s)

        return await self._explained(answer())

    async def _explained(self, answer: Awaitable[_Answer]) -> _Answer:
        """Wait for an answer; an error that versions may explain names them."""
        try:
            return await answer
        except (InvalidRequest, ServerError) as error:
            if _OF_ANOTHER_VERSION.search(str(error)) and (other := await self._other_version()):
                raise type(error)(f"{error}; {other}") from error
            raise

    async def _other_version(self) -> str | None:
        """What to install if the server's version does not fit."""
        timeout_s = min(self._settings.timeout_s, _VERSION_TIMEOUT_S)
        try:
            server = (await self._info(timeout_s)).version
        except TranslationError:
            return None
        if work_together(server, __version__):
            return None
        return (
            f"the server is dragoman {server} and this client {__version__}: "
            f"pip install 'dragoman-client=={series(server)}.*'"
        )


def _part_read(part: Part, begin_s: float, options: Mapping[str, Any]) -> Translation:
    """A part of an answer; what was asked for beside the text comes with the last one."""
    asked = options if is_last(part) else {}
    (found,) = read_outputs(part, 1, time.monotonic() - begin_s, asked)
    delta = part.get("delta")
    return found if delta is None else replace(found, delta=delta[0, 0].decode("utf-8"))


async def _batches_of(texts: Texts, size: int) -> AsyncGenerator[tuple[int, list[str]], None]:
    """Lists of texts, each with the index of its first."""
    index, batch = 0, list[str]()
    async for text in _each(texts):
        batch.append(text)
        if len(batch) == size:
            yield index, batch
            index, batch = index + size, []
    if batch:
        yield index, batch


async def _each(texts: Texts) -> AsyncGenerator[str, None]:
    if isinstance(texts, AsyncIterable):
        async for text in texts:
            yield text
    else:
        for text in texts:
            yield text
