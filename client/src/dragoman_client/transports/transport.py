"""The interface of transports, which connect a client to a server."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Mapping
from typing import Protocol

from dragoman_options.table import TRANSLATE

from dragoman_client.core.request import Part
from dragoman_client.core.tensors import Values


class Transport(Protocol):
    """A connection to the server; several threads may call every method at the same time."""

    def infer(
        self, inputs: Mapping[str, Values], timeout_s: float, model: str = TRANSLATE
    ) -> Mapping[str, Values | None]:
        """Send tensors and return the model's answer; None for an output that is not in it.

        Args:
            inputs: tensors by name.
            timeout_s: timeout of the request, also sent to the server.
            model: name of the model.

        Raises:
            TranslationError: the request failed.
        """

    def stream(self, inputs: Mapping[str, Values], timeout_s: float) -> Generator[Part, None, None]:
        """Send the tensors of one text and return the model's answer as it grows.

        To stop reading early, close the iterator. Closing does not block, but a transport may
        continue to read in the background.

        Args:
            inputs: tensors by name.
            timeout_s: timeout of the whole stream, also sent to the server.

        Raises:
            TranslationError: the request failed; raised while iterating.
        """

    def is_ready(self) -> bool:
        """Whether the model can answer.

        Raises:
            TranslationError: no server answered.
        """

    def close(self) -> None:
        """Close the connections."""


class AsyncTransport(Protocol):
    """A connection to the server; any number of tasks of one event loop may use it."""

    async def infer(
        self, inputs: Mapping[str, Values], timeout_s: float, model: str = TRANSLATE
    ) -> Mapping[str, Values | None]:
        """See `Transport.infer`."""
        ...

    def stream(self, inputs: Mapping[str, Values], timeout_s: float) -> AsyncGenerator[Part, None]:
        """See `Transport.stream`."""
        ...

    async def is_ready(self) -> bool:
        """See `Transport.is_ready`."""
        ...

    async def close(self) -> None:
        """Close the connections."""
