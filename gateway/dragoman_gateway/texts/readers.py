"""A small pool of processes that read documents and long texts with markup.

Such input is the largest and most varied that clients send. In a process of its own it can hold up
neither the event loop nor the interpreter's lock, it has limits of memory and processor time, and
it can be ended when its client leaves. A process that was ended is replaced by a new one.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import msgspec
from dragoman_documents.core.suggestions import Suggestions
from dragoman_options.refusal import Refusal

from dragoman_gateway.access.shares import Budget
from dragoman_gateway.core.errors import (
    DeadlineExceeded,
    GatewayError,
    Internal,
    InvalidInput,
    TooLarge,
)
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.reader import process
from dragoman_gateway.reader.documents import DocumentFacts, DocumentFormat, Portion
from dragoman_gateway.reader.exchange import (
    REPLY_HEAD,
    REQUEST_HEAD,
    Inspect,
    Join,
    NextPairs,
    NextPiece,
    NextPortion,
    Open,
    OpenPairs,
    ReadTexts,
    Request,
    SomePairs,
    Status,
    WritePortion,
    WriteTexts,
)
from dragoman_gateway.reader.marked import Answer, ReadText, TextForm

_LOG = logging.getLogger(__name__)
_AT_ONCE = 4
"""Maximum number of processes that read at the same time, except those of jobs and imports."""
_MOST_IDLE = 2
_MOST_IDLE_BYTES = 128 << 20
"""An idle process with more memory is ended: what it has once used stays in its memory."""
_BYTES_PER_S = 256 << 10
"""A reader has a second more for each part of this size."""
_WALL_FACTOR = 10
"""How much longer than its processor time a part of a document may take on a busy machine."""
_NO_MEMORY = "reading this needs too much memory: send it in parts"
_MOST_REPLY_BYTES = 64 << 20
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TZ", "VIRTUAL_ENV")
"""Environment variables of a reader, with Python's own: others may be secrets."""
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""NumPy, if a module imports it, would reserve memory for a thread on each core."""


class Readers:
    """Reads documents and texts with markup in other processes.

    All methods raise `InvalidInput` if the input does not have its format, `TooLarge` if reading it
    takes too much processor time or memory, and `DeadlineExceeded` if it is not read in time.

    Attributes:
        ended: number of processes that were ended because of their input, or by the system.
    """

    def __init__(self, settings: GatewaySettings) -> None:
        """Start without processes; the first request starts one."""
        self._timeout_s = settings.timeout_s
        self._slots = Budget.of("documents that are being read", _AT_ONCE, settings)
        self._importing = asyncio.Lock()
        """One bilingual file at a time: only one is stored at a time."""
        self._idle: list[_Process] = []
        self.ended = 0

    async def close(self) -> None:
        """End all processes that are not in use."""
        while self._idle:
            await self._idle.pop().end()

    async def inspect(
        self, client: str, path: Path, size: int, name: str, options: Mapping[str, Any]
    ) -> DocumentFacts:
        """Read and check a whole document.

        Args:
            client: who has sent it; each client has a share of the processes.
            path: path of the document.
            size: its size in bytes.
            name: file name given by the client.
            options: options of its translation.
        """
        request = Inspect(os.fspath(path), name, dict(options))
        facts: DocumentFacts = await self._call(client, request, DocumentFacts, size)
        return facts

    async def read_texts(self, client: str, texts: Sequence[str], form: TextForm) -> list[ReadText]:
        """Split texts with markup into segments."""
        size = sum(map(len, texts))
        request = ReadTexts([*texts], form)
        read: list[ReadText] = await self._call(client, request, list[ReadText], size)
        return read

    async def write_texts(
        self,
        client: str,
        texts: Sequence[str],
        form: TextForm,
        answers: Sequence[Sequence[Answer | None]],
    ) -> list[str]:
        """Write texts with translations of their segments."""
        request = WriteTexts([*texts], form, [[*text_answers] for text_answers in answers])
        size = sum(map(len, texts))
        written: list[str] = await self._call(client, request, list[str], size)
        return written

    @asynccontextmanager
    async def document(
        self, path: Path, size: int, form: DocumentFormat, options: Mapping[str, Any], skip: int
    ) -> AsyncGenerator[OpenDocument, None]:
        """Open a document that was inspected, in a process of its own.

        Args:
            path: path of the document.
            size: its size in bytes.
            form: its format.
            options: options of its translation.
            skip: number of portions to skip.
        """
        limit_s = self._limit_s(size)
        async with self._process() as process:
            request = Open(os.fspath(path), form, dict(options), skip)
            await process.call(request, None, limit_s)
            document = OpenDocument(path, process, limit_s)
            try:
                yield document
            finally:
                if not document.is_read:
                    process.is_usable = False

    @asynccontextmanager
    async def pairs(
        self, path: Path, size: int, languages: tuple[str | None, str | None]
    ) -> AsyncGenerator[Callable[[], Awaitable[SomePairs]], None]:
        """Open a bilingual file, after those that were opened earlier are closed.

        Args:
            path: path of the file.
            size: its size in bytes.
            languages: source and target language, if known.

        Yields:
            A function that reads the next pairs; the last ones are empty.
        """
        limit_s = self._limit_s(size)
        try:
            async with self._importing, self._process() as process:
                await process.call(OpenPairs(os.fspath(path), *languages), None, limit_s)

                async def read() -> SomePairs:
                    async with asyncio.timeout(_WALL_FACTOR * limit_s):
                        pairs: SomePairs = await process.call(NextPairs(), SomePairs, limit_s)
                        return pairs

                try:
                    yield read
                finally:
                    process.is_usable = False  # it may have the file open
        except TimeoutError:
            raise DeadlineExceeded("a part of the file was not read in time") from None

    async def _call(self, client: str, request: Request, kind: Any, size: int) -> Any:
        limit_s = self._limit_s(size)
        try:
            async with asyncio.timeout(limit_s):
                await self._slots.hold_later(client)
                try:
                    async with self._process() as process:
                        return await process.call(request, kind, limit_s)
                finally:
                    self._slots.let_go(client)
        except TimeoutError:
            message = f"this was not read within {limit_s:.0f} s: send it in parts"
            raise DeadlineExceeded(message) from None

    def _limit_s(self, size: int) -> float:
        return self._timeout_s + size / _BYTES_PER_S

    @asynccontextmanager
    async def _process(self) -> AsyncGenerator[_Process, None]:
        """Lend a process; it is ended if a request to it has not ended well."""
        while self._idle and not self._idle[-1].is_alive:
            await self._idle.pop().end()
        process = self._idle.pop() if self._idle else await _Process.start()
        try:
            yield process
        finally:
            if process.is_usable and len(self._idle) < _MOST_IDLE and process.is_small:
                self._idle.append(process)
            else:
                self.ended += process.is_broken
                await process.end()


class OpenDocument:
    """A document that is being translated.

    Attributes:
        is_read: whether all portions have been read.
    """

    def __init__(self, path: Path, process: _Process, limit_s: float) -> None:
        """Take a process that has opened it."""
        self._path = path
        self._process, self._limit_s = process, limit_s
        self.is_read = False

    async def portions(self) -> AsyncGenerator[Portion, None]:
        """Yields the portions; the reader holds each until it is written."""
        while portion := await self._call(NextPortion(), Portion | None):
            yield portion
        self.is_read = True

    async def written(
        self, answers: Sequence[Answer | None], suggestions: Sequence[Suggestions] = ()
    ) -> bytes:
        """Returns the first portion that is not written yet, with translations of its texts.

        Args:
            answers: translations of its texts; None: a text is not changed.
            suggestions: suggestions for each of its suggestible texts; empty: none.
        """
        request = WritePortion([*answers], [[*some] for some in suggestions])
        written: bytes = await self._call(request, bytes)
        return written

    async def pieces(self, portions: Path) -> AsyncGenerator[bytes, None]:
        """Yields the translated package.

        Args:
            portions: file with all written portions.
        """
        await self._call(Join(os.fspath(self._path), os.fspath(portions)), None)
        while piece := await self._call(NextPiece(), bytes | None):
            yield piece

    async def _call(self, request: Request, kind: Any) -> Any:
        try:
            async with asyncio.timeout(_WALL_FACTOR * self._limit_s):
                return await self._process.call(request, kind, self._limit_s)
        except TimeoutError:
            raise DeadlineExceeded("a part of the document was not read in time") from None


class _Process:
    """A reader's process.

    Attributes:
        is_usable: whether it can answer another request.
        is_broken: whether it ended during a request, or must be ended.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        replies: asyncio.StreamReader,
        requests: asyncio.StreamWriter,
    ) -> None:
        self._process, self._replies, self._requests = process, replies, requests
        self.is_usable, self.is_broken = True, False

    @classmethod
    async def start(cls) -> Self:
        known = {*_INHERITED, *(name for name in os.environ if name.startswith("PYTHON"))}
        environment = {name: value for name, value in os.environ.items() if name in known}
        # -P: do not import a package of that name from the working folder.
        command = [sys.executable, "-P", "-m", process.__name__, str(os.getpid())]
        ours, theirs = socket.socketpair()
        with theirs:
            # Not by the event loop: uvloop forks, and gRPC's handlers of forks may end the child.
            started = subprocess.Popen(  # noqa: S603, ASYNC220
                command,
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.DEVNULL,  # could quote texts
                env=environment | _ONE_THREAD,
                start_new_session=True,  # not interrupted with the gateway, by Ctrl-C
            )
        try:
            return cls(started, *await asyncio.open_connection(sock=ours))
        except BaseException:
            started.kill()
            started.wait()
            ours.close()
            raise

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended while it was idle, for example for lack of memory."""
        return self._process.poll() is None

    @property
    def is_small(self) -> bool:
        """Whether it uses little memory."""
        try:
            pages = int(Path(f"/proc/{self._process.pid}/statm").read_text("ascii").split()[1])
        except OSError:
            return False
        return pages * resource.getpagesize() < _MOST_IDLE_BYTES

    async def call(self, request: Request, kind: Any, limit_s: float) -> Any:
        """Send a request, and wait for its reply."""
        written = msgspec.msgpack.encode(request)
        self.is_usable, self.is_broken = False, True  # until all of the reply has arrived
        try:
            head = REQUEST_HEAD.pack(len(written), math.ceil(limit_s))
            self._requests.write(head + written)
            await self._requests.drain()
            head = await self._replies.readexactly(REPLY_HEAD.size)
            size, status = REPLY_HEAD.unpack(head)
            if size > _MOST_REPLY_BYTES or status == Status.NO_MEMORY:
                raise TooLarge(_NO_MEMORY)
            reply = await self._replies.readexactly(size)
        except (EOFError, ConnectionError):
            raise await self._why_it_ended(limit_s) from None
        self.is_usable, self.is_broken = True, False
        if status == Status.INVALID:
            raise InvalidInput(*msgspec.msgpack.decode(reply, type=Refusal))
        if status == Status.FAULT:
            _LOG.error("a document could not be read: %s", msgspec.msgpack.decode(reply))
            raise Internal("this could not be read: see the gateway's log")
        return msgspec.msgpack.decode(reply, type=kind)

    async def end(self) -> None:
        """End it at once."""
        self._process.kill()
        self._requests.close()
        await asyncio.to_thread(self._process.wait)

    async def _why_it_ended(self, limit_s: float) -> GatewayError:
        code = await asyncio.to_thread(self._process.wait)
        if code == process.NO_MEMORY_CODE:
            return TooLarge(_NO_MEMORY)
        if code == -signal.SIGXCPU:
            return TooLarge(
                f"reading this needs more than {limit_s:.0f} s of processor time: send it in parts"
            )
        return Internal(f"this could not be read: the reader ended with code {code}")
