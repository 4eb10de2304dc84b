"""Translation for every protocol: admission, and the requests to Triton."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from dragoman_client import AsyncTranslator, PairScore, ServerInfo, Translation, TranslationError

from dragoman.kernel.errors import DragomanError
from dragoman.kernel.language import Detected, OtherLanguage, detect_language, detectable_languages
from dragoman_gateway.core.access import Access
from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.errors import InvalidInput, of_client
from dragoman_gateway.core.languages import Languages
from dragoman_gateway.core.settings import GatewaySettings


class Translations:
    """Translates, scores and detects for callers; one for all protocols."""

    def __init__(self, settings: GatewaySettings, access: Access) -> None:
        """Prepare connections to Triton, which the first request makes."""
        # Of two ways, since each is safe to leave early for one kind of request.
        self._requests = AsyncTranslator(settings.triton, timeout_s=settings.timeout_s)
        self._streams = AsyncTranslator(settings.triton_http, timeout_s=settings.timeout_s)
        self._access = access
        self._info: ServerInfo | None = None

    async def close(self) -> None:
        """Close the connections."""
        await self._requests.close()
        await self._streams.close()

    async def is_ready(self) -> bool:
        """Whether the server can translate now."""
        return await self._requests.is_ready()

    async def info(self) -> ServerInfo:
        """What the server says of itself.

        Raises:
            GatewayError: it cannot be asked.
        """
        if self._info is None:
            with _client_errors():
                self._info = await self._requests.info()
        return self._info

    async def languages(self) -> Languages:
        """What the server translates."""
        info = await self.info()
        return Languages(info.languages, frozenset(info.directions))

    async def translate(
        self,
        caller: Caller,
        texts: Sequence[str],
        options: Mapping[str, Any],
        *,
        store: bool = True,
    ) -> list[Translation]:
        """Translate texts.

        Cancelling the task cancels the work down to the decoder, if nobody else waits for it.

        Args:
            caller: who asks; it is admitted here, and its characters are counted.
            texts: any number, in any length that the server takes.
            options: of the option table, by name, and `glossary_ids`: of stored glossaries,
                whose terms that occur in a text are used; an earlier one comes first.
            store: whether the answer may come from the cache and be kept in it.

        Returns:
            In the order of the texts.

        Raises:
            GatewayError: the request failed.
        """
        async with self._access.admitted(caller, sum(map(len, texts))):
            with _client_errors():
                return await self._requests.translate(texts, **options)

    async def stream(
        self, caller: Caller, text: str, options: Mapping[str, Any]
    ) -> AsyncGenerator[Translation, None]:
        """Translate a text whose translation can be read as it grows.

        Closing the generator cancels the work.

        Yields:
            Translations as far as they are certain; the last one has a `finish_reason`.

        Raises:
            GatewayError: while iterating: the request failed.
        """
        async with self._access.admitted(caller, len(text)):
            with _client_errors():
                parts = self._streams.translate_stream(text, **options)
                try:
                    async for part in parts:
                        yield part
                finally:
                    await parts.aclose()

    async def score(
        self,
        caller: Caller,
        texts: Sequence[str],
        targets: Sequence[str],
        options: Mapping[str, Any],
    ) -> list[PairScore]:
        """Score given translations of texts.

        Raises:
            GatewayError: the request failed.
        """
        async with self._access.admitted(caller, sum(map(len, texts))):
            with _client_errors():
                return await self._requests.score(texts, targets, **options)

    async def detect(self, text: str) -> Detected:
        """The language of a text, among those that the server translates from.

        A language that the server does not know comes with the probability 0.

        Raises:
            GatewayError: the server cannot be asked for its languages.
        """
        sources = (await self.languages()).sources
        try:
            return detect_language(text, sources, detectable_languages())
        except OtherLanguage as error:
            return Detected(error.language, 0.0)
        except DragomanError as error:
            raise InvalidInput(str(error)) from error


@contextmanager
def _client_errors() -> Generator[None, None, None]:
    """Errors of the client library as the gateway's."""
    try:
        yield
    except TranslationError as error:
        raise of_client(error) from error
    except (TypeError, ValueError) as error:
        raise InvalidInput(str(error)) from error
