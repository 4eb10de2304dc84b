"""Fake transports without a server."""

from __future__ import annotations

from collections.abc import Generator, Mapping

from dragoman_options.table import STREAM, TRANSLATE

from dragoman_client.core.request import Part
from dragoman_client.core.tensors import Values
from dragoman_client.testing.answers import (
    Answers,
    Outputs,
    Request,
    Translate,
    translated,
)
from dragoman_client.transports.blocking import AwaitableTransport


class FakeTransport:
    """A `transport` for `Translator`; any number of threads may use it.

    Attributes:
        closed: whether the translator has closed it.
    """

    def __init__(self, translate: Translate = translated) -> None:
        """Answer with a function that translates; see `dragoman_client.testing`."""
        self._answers = Answers(translate)
        self.closed = False

    @property
    def requests(self) -> list[Request]:
        """The received requests, oldest first."""
        return self._answers.requests

    def infer(
        self, inputs: Mapping[str, Values], timeout_s: float, model: str = TRANSLATE
    ) -> Mapping[str, Values | None]:
        """See `Transport`."""
        return _tensors(self._answers.whole(_request(model, inputs, timeout_s)))

    def stream(self, inputs: Mapping[str, Values], timeout_s: float) -> Generator[Part, None, None]:
        """See `Transport`."""
        for part in self._answers.parts(_request(STREAM, inputs, timeout_s)):
            yield _tensors(part)

    def is_ready(self) -> bool:
        """Always True."""
        return True

    def close(self) -> None:
        """Set `closed`."""
        self.closed = True


class AsyncFakeTransport(AwaitableTransport):
    """A `transport` for `AsyncTranslator`; see `FakeTransport`."""

    def __init__(self, translate: Translate = translated) -> None:
        """See `FakeTransport`."""
        self._fake = FakeTransport(translate)
        super().__init__(self._fake)

    @property
    def requests(self) -> list[Request]:
        """See `FakeTransport`."""
        return self._fake.requests

    @property
    def closed(self) -> bool:
        """See `FakeTransport`."""
        return self._fake.closed


def _request(model: str, inputs: Mapping[str, Values], timeout_s: float) -> Request:
    decoded = {
        name: [v.decode() if isinstance(v, bytes) else v for v in values]
        for name, values in inputs.items()
    }
    return Request(model, decoded, timeout_s)


def _tensors(outputs: Outputs) -> dict[str, Values | None]:
    """The elements of tensors; texts as UTF-8 bytes."""
    return {
        name: [v.encode() if isinstance(v, str) else v for v in values]
        for name, values in outputs.items()
    }
