"""What a client needs of a way to the server, and which way a URL names."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Mapping
from typing import Protocol

from dragoman_options.table import TRANSLATE

from dragoman_client.request import Part
from dragoman_client.tensors import Array


class Transport(Protocol):
    """A way to the server; every method may be called from several threads at once."""

    def infer(
        self, inputs: Mapping[str, Array], timeout_s: float, model: str = TRANSLATE
    ) -> Mapping[str, Array | None]:
        """Send tensors and return the model's answer; None for an output that is not in it.

        Args:
            inputs: tensors by name.
            timeout_s: longest time for it, which is sent to the server too.
            model: whom to ask.

        Raises:
            TranslationError: it went wrong.
        """

    def stream(self, inputs: Mapping[str, Array], timeout_s: float) -> Generator[Part, None, None]:
        """Send the tensors of one text and return the model's answer as it grows.

        To stop reading before the end, close the iterator. That does not block, though a transport
        may have to go on reading in the background.

        Args:
            inputs: tensors by name.
            timeout_s: longest time for all of it, which is sent to the server too.

        Raises:
            TranslationError: while iterating: it went wrong.
        """

    def is_ready(self) -> bool:
        """Whether the model can answer.

        Raises:
            TranslationError: nobody could be asked.
        """

    def close(self) -> None:
        """Close the connections."""


class AsyncTransport(Protocol):
    """A way to the server; any number of tasks of one event loop may use it."""

    async def infer(
        self, inputs: Mapping[str, Array], timeout_s: float, model: str = TRANSLATE
    ) -> Mapping[str, Array | None]:
        """See `Transport.infer`."""
        ...

    def stream(self, inputs: Mapping[str, Array], timeout_s: float) -> AsyncGenerator[Part, None]:
        """See `Transport.stream`."""
        ...

    async def is_ready(self) -> bool:
        """See `Transport.is_ready`."""
        ...

    async def close(self) -> None:
        """Close the connections."""
