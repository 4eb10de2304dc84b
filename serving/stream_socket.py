"""Streamed translations from one process of this machine to another, over a Unix socket.

The model `translate` holds the only engine; `translate_stream` asks it here. One connection is one
text: a line of JSON with the request, then a line for each message, the last one with `final` or
`error`. Closing the connection gives the text up.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dragoman.errors import DragomanError
from serving.translator import RequestOptions, Terms, Translator

log = logging.getLogger(__name__)

_BACKLOG = 1024
"""Connections that may wait to be taken up; beyond it they would fail instead of waiting."""
_LAST_ANSWERS_S = 30.0
_LONGEST_LINE_BYTES = 4_000_000
"""More than a text of the longest allowed length takes as JSON."""


@dataclass(frozen=True)
class StreamRequest:
    """One text to translate."""

    text: str
    options: RequestOptions
    terms: Terms


class StreamError(DragomanError):
    """An error on the other side, with the name of its class."""

    def __init__(self, kind: str, message: str) -> None:
        """Keep both."""
        super().__init__(message)
        self.kind = kind


class StreamServer:
    """Answers stream requests from a translator, in a thread of its own."""

    def __init__(self, translator: Translator, path: Path) -> None:
        """Listen.

        Args:
            translator: the engine with its texts.
            path: of the socket; one that was left there is replaced.
        """
        self._translator = translator
        self._path = path
        path.unlink(missing_ok=True)
        self._loop = asyncio.new_event_loop()
        self._answers: set[asyncio.Task[None]] = set()
        listening: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(listening,), name="dragoman-streams", daemon=True
        )
        self._thread.start()
        try:
            listening.result()
        except OSError as error:
            raise DragomanError(f"{path}: cannot listen there: {error}") from error

    def close(self) -> None:
        """Stop listening, and let what is under way come to its end."""
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()
        self._path.unlink(missing_ok=True)

    def _run(self, listening: Future[None]) -> None:
        self._loop.run_until_complete(self._serve(listening))
        self._loop.close()

    async def _serve(self, listening: Future[None]) -> None:
        self._stopped = asyncio.Event()
        try:
            server = await asyncio.start_unix_server(
                self._answer, str(self._path), limit=_LONGEST_LINE_BYTES, backlog=_BACKLOG
            )
        except OSError as error:
            listening.set_exception(error)
            return
        listening.set_result(None)
        await self._stopped.wait()
        server.close()
        if self._answers:
            await asyncio.wait(self._answers, timeout=_LAST_ANSWERS_S)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # asyncio makes one for each connection
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)
        try:
            request = json.loads(await reader.readline())
            hung_up = asyncio.ensure_future(reader.read())
            try:
                async for message in self._messages(request, hung_up):
                    writer.write(json.dumps(message).encode() + b"\n")
                    await writer.drain()
            finally:
                hung_up.cancel()
        except (OSError, asyncio.CancelledError):
            pass  # who asked has gone; there is nobody to tell
        except Exception:
            log.exception("a stream failed")  # who asked hears of it by the end of the line
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _messages(
        self, request: dict[str, Any], hung_up: asyncio.Future[bytes]
    ) -> AsyncIterator[dict[str, Any]]:
        changed = asyncio.Event()
        try:
            stream = self._translator.stream(
                request["text"],
                RequestOptions(**request["options"]),
                _from_thread(self._loop, changed.set),
                Terms(**request["terms"]),
            )
        except Exception as error:  # whatever it was, who asked must hear of it
            message = str(error) if isinstance(error, DragomanError) else "the request failed"
            yield {"error": type(error).__name__, "message": message}
            return

        def give_up(_: object) -> None:
            stream.future.cancel()
            changed.set()

        hung_up.add_done_callback(give_up)
        sent = ""
        while not stream.future.done():
            await changed.wait()
            changed.clear()
            # Whatever came in between is one message: a slow reader holds nothing up.
            text = stream.read()
            if text != sent and not stream.future.done():
                yield {"text": text}
                sent = text
        if stream.future.cancelled():
            return
        failure = stream.future.exception()
        if failure is not None:
            yield {"error": type(failure).__name__, "message": str(failure)}
        else:
            (translation,) = stream.future.result()
            yield {"final": asdict(translation)}


async def open_stream(path: Path, request: StreamRequest) -> AsyncIterator[dict[str, Any]]:
    """Ask for a text's translation and hear of it as it grows.

    Args:
        path: of the socket.
        request: what to translate.

    Yields:
        Messages with `text`, the certain beginning so far, and last one with `final`, the whole
        `Translation` as a mapping.

    Raises:
        StreamError: the translation failed, or the other side is gone.
    """
    try:
        reader, writer = await asyncio.open_unix_connection(str(path), limit=_LONGEST_LINE_BYTES)
    except OSError as error:
        raise StreamError("Closed", f"the model translate is not there: {error}") from error
    try:
        writer.write(json.dumps(asdict(request)).encode() + b"\n")
        async for line in reader:
            message: dict[str, Any] = json.loads(line)
            if "error" in message:
                raise StreamError(message["error"], message["message"])
            yield message
            if "final" in message:
                return
        raise StreamError("EngineFailure", "the model translate has gone")
    except OSError as error:
        raise StreamError("EngineFailure", f"the model translate has gone: {error}") from error
    finally:
        writer.close()


def _from_thread(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
            loop.call_soon_threadsafe(call)

    return run
