"""The asyncio client."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Self, Unpack

from dragoman_options.arguments import OptionArguments

from dragoman_client.core.access import FilePath
from dragoman_client.core.errors import InvalidRequest
from dragoman_client.core.settings import ClientSettings, Compression
from dragoman_client.exchange import Exchange
from dragoman_client.files.file_formats import FormatName
from dragoman_client.files.file_translation import FileProgress
from dragoman_client.files.line_formats import LineFormat
from dragoman_client.retrying import DEFAULT_RETRIES
from dragoman_client.translator import DEFAULT_URL, Translator
from dragoman_client.transports.engine_transport import EngineTransport
from dragoman_client.transports.grpc_transport import AsyncioGrpcTransport
from dragoman_client.transports.http_connections import AsyncioConnections
from dragoman_client.transports.http_transport import HttpTransport
from dragoman_client.transports.pools import TaskPool
from dragoman_client.transports.transport import AsyncTransport


class AsyncTranslator(Exchange):
    """A connection to a Dragoman server; any number of tasks of one event loop may share it.

    The options of a translation are keyword arguments; see `OptionArguments`.
    """

    _name = "AsyncTranslator"

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        timeout_s: float = 30.0,
        retries: int = DEFAULT_RETRIES,
        token: str | None = None,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        ca_file: FilePath | None = None,
        certificate_file: FilePath | None = None,
        key_file: FilePath | None = None,
        compression: Compression | None = None,
        transport: AsyncTransport | None = None,
    ) -> None:
        """Prepare a connection; the first request opens it. See `Translator`."""
        settings = ClientSettings.of(
            timeout_s,
            retries,
            token,
            api_key,
            headers,
            ca_file,
            certificate_file,
            key_file,
            compression,
        )
        self._url, self._is_handed_in = url, transport is not None
        if transport is None:
            address = settings.address(url)
            if address.is_engine:
                transport = EngineTransport(address.path)
            elif address.is_grpc:
                transport = AsyncioGrpcTransport(address, settings)
            else:
                transport = HttpTransport(AsyncioConnections(address, settings))
        super().__init__(transport, settings, asyncio.sleep, TaskPool)

    async def __aenter__(self) -> Self:
        """The translator itself."""
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close."""
        await self.close()

    async def translate_file(
        self,
        source: FilePath,
        target: FilePath,
        *,
        form: LineFormat | FormatName | None = None,
        batch_size: int = 32,
        concurrency: int = 2,
        resume: bool = False,
        force: bool = False,
        columns: Sequence[str] = (),
        titles: bool = False,
        least_confidence: float | None = None,
        tell: Callable[[FileProgress], None] = lambda _: None,
        refuse: Callable[[int, InvalidRequest], None] = lambda _number, _error: None,
        **options: Unpack[OptionArguments],
    ) -> FileProgress:
        """Translate a file line by line into another one; see `Translator.translate_file`.

        File I/O blocks, so a separate thread reads, translates and writes, over its own connection
        to the translator's URL. `tell` and `refuse` are called in the event loop. Cancelling the
        task stops the thread after the current line and waits until it has stopped; the
        translation can be resumed.
        """
        self._check_open()
        if self._is_handed_in:
            raise RuntimeError("translate_file connects by itself, not over a transport handed in")
        loop, stopped = asyncio.get_running_loop(), threading.Event()

        def on_progress(progress: FileProgress) -> None:
            if stopped.is_set():
                raise _StoppedError
            loop.call_soon_threadsafe(tell, progress)

        def refused(number: int, error: InvalidRequest) -> None:
            loop.call_soon_threadsafe(refuse, number, error)

        def work() -> FileProgress:
            settings = self._settings
            with Translator(
                self._url,
                timeout_s=settings.timeout_s,
                retries=settings.retries,
                compression=settings.compression,
                **vars(settings.access),
            ) as translator:
                return translator.translate_file(
                    source,
                    target,
                    form=form,
                    batch_size=batch_size,
                    concurrency=concurrency,
                    resume=resume,
                    force=force,
                    columns=columns,
                    titles=titles,
                    least_confidence=least_confidence,
                    tell=on_progress,
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


class _StoppedError(Exception):
    """The task that waited for the file was cancelled."""
