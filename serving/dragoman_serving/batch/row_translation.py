"""Translates texts, and isolates the ones that fail, so that the others are translated."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dragoman_client.core.errors import AccessDenied, InvalidRequest, TranslationError
from dragoman_client.files.isolation import isolate
from dragoman_client.transports.blocking import run
from dragoman_options.table import Translation

from dragoman_serving.batch.chunks import Outcome, RowError

if TYPE_CHECKING:
    from dragoman_client import Translator

CONTROL = "This is a test."
"""Control text, which every server can translate. If it fails too, the server is at fault."""

MOST_HARMFUL = 100
"""Limit of texts that crash or block the engine before a run fails: each costs a dozen restarts."""


class RowTranslation:
    """Translates texts; several threads may use it at the same time.

    A failed request is halved until the failing texts are isolated. Meanwhile no other request of
    this object runs, so that other texts are not blamed for a crash of the engine process.
    """

    def __init__(self, translator: Translator, options: Mapping[str, Any], batch_size: int) -> None:
        """Store the client and the options.

        Args:
            translator: the client.
            options: options of all requests.
            batch_size: texts per request.
        """
        self._translator, self._options = translator, options
        self._batch_size = batch_size
        self._turns = _Turns()
        self._harmful = 0

    def translate(self, texts: Sequence[str]) -> list[Outcome]:
        """Translate texts.

        Returns:
            The outcome of each text.

        Raises:
            TranslationError: the server is not available, refuses the options, or was crashed by
                more than `MOST_HARMFUL` texts.
        """
        outcomes: list[Outcome] = []
        for begin in range(0, len(texts), self._batch_size):
            batch = texts[begin : begin + self._batch_size]
            try:
                with self._turns.shared():
                    outcomes += self._translator.translate(batch, **self._options)
            except TranslationError:
                with self._turns.alone():
                    outcomes += self._isolated(batch)
        return outcomes

    def check_control(self) -> None:
        """Check that the control text can be translated.

        Raises:
            TranslationError: it cannot, for another reason than its language.
        """
        try:
            self._translator.translate(CONTROL, **self._options)
        except InvalidRequest as error:
            if error.text_index is None:
                raise

    def _isolated(self, texts: Sequence[str]) -> list[Outcome]:
        async def send(part: range) -> Sequence[Translation]:
            return self._translator.translate(texts[part.start : part.stop], **self._options)

        results = run(isolate(len(texts), send, self._blame))
        return [
            outcome if isinstance(outcome, Translation) else RowError(_reason(outcome))
            for outcome in results
        ]

    def _blame(self, error: Exception, texts: int) -> None:
        """Raise an error that is not caused by a text; see `isolation.Blame`."""
        if isinstance(error, AccessDenied) or not isinstance(error, TranslationError):
            raise error
        if not (isinstance(error, InvalidRequest) and texts > 1):
            self.check_control()
        if texts == 1:
            self._count(error)

    def _count(self, error: TranslationError) -> None:
        """Count texts that crash or block the server, to limit the time that they cost."""
        self._harmful += not isinstance(error, InvalidRequest)
        if self._harmful > MOST_HARMFUL:
            raise error


def _reason(error: Exception) -> str:
    """The reason on one line, without the text's index in its request."""
    reason = " ".join(str(error).split())
    of_text = isinstance(error, InvalidRequest) and error.text_index is not None
    return reason.replace("text 0 ", "the text ", 1) if of_text else reason


class _Turns:
    """A lock with shared and exclusive holders; a waiting exclusive holder goes first."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._shared = 0
        self._alone = 0

    @contextmanager
    def shared(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._alone)
            self._shared += 1
        try:
            yield
        finally:
            with self._changed:
                self._shared -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._alone)
            self._alone = 1
            self._changed.wait_for(lambda: not self._shared)
        try:
            yield
        finally:
            with self._changed:
                self._alone = 0
                self._changed.notify_all()
