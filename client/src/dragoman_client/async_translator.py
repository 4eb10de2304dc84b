"""The client for asyncio.

As `translator`: the same names, requests and answers; what waits is awaited.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self, Unpack, overload

from dragoman_client.access import FilePath
from dragoman_client.async_transport import AsyncTransport, open_async_transport
from dragoman_client.errors import InvalidRequest, TranslationError
from dragoman_client.file_translation import FileProgress
from dragoman_client.health import Health, languages_of
from dragoman_client.line_formats import LineFormat
from dragoman_client.options import OptionArguments, TranslationOptions
from dragoman_client.pair_scoring import Pairs, PairScore, ScoringArguments
from dragoman_client.request import (
    SCORE_MODEL,
    Part,
    Translation,
    build_inputs,
    build_stream_inputs,
    read_outputs,
)
from dragoman_client.retrying import DEFAULT_RETRIES, with_async_retries
from dragoman_client.settings import ClientSettings, Compression, check_batching
from dragoman_client.translator import DEFAULT_URL, Translator
from dragoman_client.transport import open_transport


class AsyncTranslator:
    """A connection to a Dragoman server; any number of tasks of one event loop may share it.

    Options of a translation are keyword arguments, see `TranslationOptions`.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        timeout_s: float = 30.0,
        retries: int = DEFAULT_RETRIES,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        ca_file: FilePath | None = None,
        certificate_file: FilePath | None = None,
        key_file: FilePath | None = None,
        compression: Compression | None = None,
        transport: AsyncTransport | None = None,
    ) -> None:
        """Prepare a connection, which the first request makes; see `Translator`."""
        self._settings = ClientSettings.of(
            timeout_s, retries, token, headers, ca_file, certificate_file, key_file, compression
        )
        self._transport = transport or open_async_transport(url, self._settings)
        self._url = url
        self._is_handed_in = transport is not None
        self._closed = False

    async def __aenter__(self) -> Self:
        """The translator itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        await self.close()

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
        self._check_open()
        return languages_of(await self._transport.config())

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
            return (await self._send([texts], TranslationOptions(**options)))[0]
        if not isinstance(texts, Sequence) or isinstance(texts, bytes | bytearray):
            raise TypeError(f"texts must be str or a sequence of str, got {type(texts).__name__}")
        checked = TranslationOptions(**options)
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
        pairs = Pairs.of(texts, targets, options)
        if not pairs.texts:
            return []
        begin_s = time.monotonic()
        send = functools.partial(self._transport.infer, pairs.inputs(), model=SCORE_MODEL)
        answer = await with_async_retries(send, self._settings.tries())
        return pairs.read(answer, time.monotonic() - begin_s)

    def translate_stream(
        self, text: str, **options: Unpack[OptionArguments]
    ) -> AsyncGenerator[Translation, None]:
        """Translate a text whose translation can be read as it grows.

        See `Translator.translate_stream`.
        """
        self._check_open()
        inputs = build_stream_inputs(text, TranslationOptions(**options))

        async def parts() -> AsyncGenerator[Translation, None]:
            async def begin(timeout_s: float) -> tuple[Part, AsyncGenerator[Part, None]]:
                coming = self._transport.stream(inputs, timeout_s)
                return await anext(coming), coming  # what fails later has been read in part

            begin_s = time.monotonic()
            first, coming = await with_async_retries(begin, self._settings.tries())
            async with contextlib.aclosing(coming):
                yield read_outputs(first, 1, time.monotonic() - begin_s)[0]
                async for part in coming:
                    yield read_outputs(part, 1, time.monotonic() - begin_s)[0]

        return parts()

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
        return self._batches(texts, batch_size, concurrency, TranslationOptions(**options))

    async def translate_file(
        self,
        source: FilePath,
        target: FilePath,
        *,
        form: LineFormat | None = None,
        batch_size: int = 32,
        concurrency: int = 2,
        resume: bool = False,
        tell: Callable[[FileProgress], None] = lambda _: None,
        refuse: Callable[[int, InvalidRequest], None] = lambda number, error: None,
        **options: Unpack[OptionArguments],
    ) -> FileProgress:
        """Translate a file line by line into another one; see `Translator.translate_file`.

        Files block, so that a thread of its own reads, asks and writes, over a connection of its
        own to the translator's URL. `tell` and `refuse` are called in the event loop. Cancelling
        the task stops the thread after the line that it is at, and waits for that; it can be
        resumed.
        """
        self._check_open()
        if self._is_handed_in:
            raise RuntimeError("translate_file connects by itself, not over a transport handed in")
        loop, stopped = asyncio.get_running_loop(), threading.Event()

        def told(progress: FileProgress) -> None:
            if stopped.is_set():
                raise _StoppedError
            loop.call_soon_threadsafe(tell, progress)

        def refused(number: int, error: InvalidRequest) -> None:
            loop.call_soon_threadsafe(refuse, number, error)

        def work() -> FileProgress:
            transport = open_transport(self._url, self._settings)
            timeout_s, retries = self._settings.timeout_s, self._settings.retries
            with Translator(
                timeout_s=timeout_s, retries=retries, transport=transport
            ) as translator:
                return translator.translate_file(
                    source,
                    target,
                    form=form,
                    batch_size=batch_size,
                    concurrency=concurrency,
                    resume=resume,
                    tell=told,
                    refuse=refused,
                    **options,
                )

        working = asyncio.create_task(asyncio.to_thread(work))
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            stopped.set()
            await asyncio.gather(working, return_exceptions=True)
            raise

    async def _batches(
        self,
        texts: Iterable[str] | AsyncIterable[str],
        batch_size: int,
        concurrency: int,
        options: TranslationOptions,
    ) -> AsyncGenerator[Translation, None]:
        """Keep so many requests under way and hand out their answers in order."""
        pending: deque[asyncio.Task[list[Translation]]] = deque()
        try:
            async for start, batch in _cut(texts, batch_size):
                pending.append(asyncio.create_task(self._send(batch, options, start)))
                if len(pending) >= concurrency:
                    for translation in await pending[0]:
                        yield translation
                    pending.popleft()
            while pending:
                for translation in await pending[0]:
                    yield translation
                pending.popleft()
        finally:
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)

    async def _send(
        self, texts: Sequence[str], options: TranslationOptions, first_index: int = 0
    ) -> list[Translation]:
        """One request."""
        begin_s = time.monotonic()
        inputs = build_inputs(texts, options, first_index)
        send = functools.partial(self._transport.infer, inputs)
        answer = await with_async_retries(send, self._settings.tries())
        return read_outputs(answer, len(texts), time.monotonic() - begin_s, options)

    def _check_open(self) -> None:
        """Refuse work after `close`."""
        if self._closed:
            raise RuntimeError("this AsyncTranslator is closed")


class _StoppedError(Exception):
    """Nobody waits for the file any more."""


async def _cut(
    texts: Iterable[str] | AsyncIterable[str], batch_size: int
) -> AsyncGenerator[tuple[int, list[str]], None]:
    """Lists of texts, each with the index of its first."""
    start, batch = 0, list[str]()
    async for text in _each(texts):
        batch.append(text)
        if len(batch) == batch_size:
            yield start, batch
            start, batch = start + batch_size, []
    if batch:
        yield start, batch


async def _each(texts: Iterable[str] | AsyncIterable[str]) -> AsyncGenerator[str, None]:
    if isinstance(texts, AsyncIterable):
        async for text in texts:
            yield text
    else:
        for text in texts:
            yield text
