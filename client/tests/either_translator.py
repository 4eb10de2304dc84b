"""The blocking and the asynchronous client behind one interface, for tests of what both do."""

from __future__ import annotations

from typing import Any, Self

from dragoman_client import AsyncTranslator, Translation, Translator


class EitherTranslator:
    """A client whose methods are coroutines; use it as a context.

    The blocking client keeps the event loop waiting, as its caller does.
    """

    def __init__(self, client: Translator | AsyncTranslator) -> None:
        self._client: Any = client
        self._waits = isinstance(client, AsyncTranslator)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __getattr__(self, name: str) -> Any:
        """A method of the client, as a coroutine."""

        async def call(*arguments: Any, **options: Any) -> Any:
            answer = getattr(self._client, name)(*arguments, **options)
            return await answer if self._waits else answer

        return call

    async def parts(self, text: str, most: int | None = None) -> list[Translation]:
        """The parts of a stream, which is closed after this many."""
        stream, parts = self._client.translate_stream(text), list[Translation]()
        while len(parts) != most:
            try:
                parts.append(await anext(stream) if self._waits else next(stream))
            except (StopIteration, StopAsyncIteration):
                return parts
        await stream.aclose() if self._waits else stream.close()
        return parts
