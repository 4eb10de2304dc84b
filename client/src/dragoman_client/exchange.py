"""Requests to a server and their answers, shared by both clients.

`Exchange` does no I/O itself. It awaits a transport, a sleep function and a pool of requests. In
`AsyncTranslator` these use asyncio. In `Translator` they block instead of suspending, so that
`blocking.run` can run the coroutines without an event loop.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from typing import Any, ClassVar, TypeVar, Unpack, overload

from dragoman_options.arguments import OptionArguments, ScoringArguments
from dragoman_options.refusal import Refusal
from dragoman_options.table import INFO, SCORE, STREAM, Translation, check

from dragoman_client.core.errors import (
    IncompleteAnswer,
    InvalidRequest,
    ServerError,
    TranslationError,
)
from dragoman_client.core.health import Health
from dragoman_client.core.pair_scoring import PairScore, check_pairs, pair_inputs, read_scores
from dragoman_client.core.request import (
    ENDED_EARLY,
    Part,
    build_inputs,
    has_text,
    is_last,
    read_outputs,
)
from dragoman_client.core.server_info import ServerInfo
from dragoman_client.core.settings import ClientSettings, check_batch_options, check_batching
from dragoman_client.core.tensors import Values
from dragoman_client.retrying import with_retries
from dragoman_client.transports.pools import Pool, batches_of, in_order
from dragoman_client.transports.transport import AsyncTransport
from dragoman_client.version import __version__, series, work_together

Texts = Iterable[str] | AsyncIterable[str]
_Answer = TypeVar("_Answer")
_UNKNOWN_TO_TRITON = "unexpected inference input"
"""Triton's own message about an option that a server of another version does not have."""
_VERSION_TIMEOUT_S = 2.0


class Exchange:
    """A connection to a server, with the methods of `Translator`."""

    _name: ClassVar[str] = "Translator"

    def __init__(
        self,
        transport: AsyncTransport,
        settings: ClientSettings,
        sleep: Callable[[float], Awaitable[object]],
        open_pool: Callable[[int], Pool],
    ) -> None:
        """Store the objects that do the I/O.

        Args:
            transport: connection to the server.
            settings: the client's settings.
            sleep: waits for the given number of seconds.
            open_pool: makes a pool that runs the given number of concurrent requests.
        """
        self._transport, self._settings = transport, settings
        self._open_pool = open_pool
        self._with_retries = functools.partial(
            with_retries, timeout_s=settings.timeout_s, retries=settings.retries, sleep=sleep
        )
        self._closed = False

    def _check_open(self) -> None:
        """Raise `RuntimeError` after `close`."""
        if self._closed:
            raise RuntimeError(f"this {self._name} is closed")

    async def close(self) -> None:
        """Close the connections; the translator cannot be used afterwards.

        Waits for the end of gRPC streams that were abandoned early.
        """
        self._closed = True
        await self._transport.close()

    async def is_ready(self) -> bool:
        """Whether the server can translate now; also False if nothing answers."""
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

        Cancelling the task cancels the translation. Over HTTP, Triton notices this only for
        streams; it continues other requests until their deadline.
        """
        self._check_open()
        if isinstance(texts, str):
            return (await self.translate_checked([texts], check(options)))[0]
        if not isinstance(texts, Sequence) or isinstance(texts, bytes | bytearray):
            raise TypeError(f"texts must be str or a sequence of str, got {type(texts).__name__}")
        checked = check(options)
        return await self.translate_checked(texts, checked) if texts else []

    async def translate_checked(
        self, texts: Sequence[str], options: Mapping[str, Any], first_index: int = 0
    ) -> list[Translation]:
        """Send one request, for callers that have checked its options.

        Args:
            texts: at least one text.
            options: options by name, as `dragoman_options.table.check` returns them.
            first_index: index of the first text among all texts of the caller, for messages.
        """
        self._check_open()
        inputs = build_inputs(texts, options, first_index)
        send = functools.partial(self._transport.infer, inputs)
        return await self._request(
            send, lambda answer, s: read_outputs(answer, len(texts), s, options)
        )

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
        """Score given translations with the model; see `Translator.score`."""
        self._check_open()
        checked = check_pairs(texts, targets, options)
        if isinstance(texts, str):
            return (await self._score([texts], [str(targets)], checked))[0]
        return await self._score(texts, targets, checked) if texts else []

    def translate_stream(
        self, text: str, **options: Unpack[OptionArguments]
    ) -> AsyncGenerator[Translation, None]:
        """Translate a text and stream the growing translation.

        See `Translator.translate_stream`.
        """
        self._check_open()
        # Not itself a generator, so that wrong arguments raise here and not at the first part.
        # The same holds for `translate_batches`.
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
        self, inputs: Mapping[str, Values], options: Mapping[str, Any]
    ) -> AsyncGenerator[Translation, None]:
        async def begin(timeout_s: float) -> tuple[Part, AsyncGenerator[Part, None]]:
            parts = self._transport.stream(inputs, timeout_s)
            async for part in parts:
                # The first part comes at once and has no text; until there is text, the request
                # can be retried.
                if has_text(part) or is_last(part):
                    return part, parts  # no retries from here on: the caller has read a part
            raise ServerError(ENDED_EARLY)

        begin_s = time.monotonic()
        try:
            first, parts = await self._with_retries(begin)
        except (InvalidRequest, ServerError) as error:
            if (explained := await self._explained(error)) is None:
                raise
            raise explained from error
        async with contextlib.aclosing(parts):
            yield _part_read(first, begin_s, options)
            async for part in parts:
                yield _part_read(part, begin_s, options)

    async def _batches(
        self, texts: Texts, batch_size: int, concurrency: int, options: Mapping[str, Any]
    ) -> AsyncGenerator[Translation, None]:
        """Run concurrent requests and yield their answers in order."""

        async def send(batch: tuple[int, Sequence[str]]) -> list[Translation]:
            return await self.translate_checked(batch[1], options, batch[0])

        batches = in_order(self._open_pool(concurrency), batches_of(texts, batch_size), send)
        async with contextlib.aclosing(batches) as answered:
            async for _, translations in answered:
                for translation in translations:
                    yield translation

    async def _score(
        self, texts: Sequence[str], targets: Sequence[str], options: Mapping[str, Any]
    ) -> list[PairScore]:
        """Send one request."""
        inputs = pair_inputs(texts, targets, options)
        send = functools.partial(self._transport.infer, inputs, model=SCORE)
        return await self._request(
            send, lambda answer, s: read_scores(answer, len(texts), s, options)
        )

    async def _request(
        self, send: Callable[[float], Awaitable[Part]], read: Callable[[Part, float], _Answer]
    ) -> _Answer:
        """Send a request with retries; `read` gets the answer and the elapsed seconds."""
        begin_s = time.monotonic()
        try:
            answer = await self._with_retries(send)
            return read(answer, time.monotonic() - begin_s)
        except (InvalidRequest, ServerError) as error:
            if (explained := await self._explained(error)) is None:
                raise
            raise explained from error

    async def _explained(self, error: InvalidRequest | ServerError) -> TranslationError | None:
        """Returns an error that says that the versions are incompatible; None: they are not."""
        if not _is_of_another_version(error) or (other := await self._other_version()) is None:
            return None
        message = f"{error}; {other}"
        if isinstance(error, InvalidRequest):
            return InvalidRequest(*Refusal.of(error)._replace(message=message))
        return type(error)(message)

    async def _other_version(self) -> str | None:
        """Says which client to install if the server's version is not compatible."""
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


def _is_of_another_version(error: InvalidRequest | ServerError) -> bool:
    """Whether versions may be the cause: compatible ones have the same options and outputs."""
    if isinstance(error, IncompleteAnswer) or _UNKNOWN_TO_TRITON in str(error):
        return True
    return isinstance(error, InvalidRequest) and error.kind == "unknown_option"


def _part_read(part: Part, begin_s: float, options: Mapping[str, Any]) -> Translation:
    """Parse a part of an answer; only the last part has the optional outputs."""
    requested = options if is_last(part) else {}
    (translation,) = read_outputs(part, 1, time.monotonic() - begin_s, requested)
    return translation
