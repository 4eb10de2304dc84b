"""Texts through a translator; one that cannot be translated does not cost the others."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dragoman_client.errors import AccessDenied, InvalidRequest, TranslationError
from dragoman_client.line_translation import is_of_text

from dragoman_serving.batch.chunks import Outcome, RowError

if TYPE_CHECKING:
    from dragoman_client import Translator

CONTROL = "This is a test."
"""A text that every server can translate. If it fails too, the other text is not at fault."""

MOST_HARMFUL = 100
"""Texts that may end the engine, or take too long, before a run ends: each costs a dozen starts."""


class RowTranslation:
    """Translates texts; several threads may use it at once.

    A request that fails is halved until the texts that are at fault are alone. While that is done,
    no other request is under way here, so that a text which ends the engine's process is not
    mistaken for its neighbours.
    """

    def __init__(self, translator: Translator, options: Mapping[str, Any], batch_size: int) -> None:
        """Take what translates.

        Args:
            translator: the client.
            options: of all requests.
            batch_size: texts in a request.
        """
        self._translator, self._options = translator, options
        self._batch_size = batch_size
        self._turns = _Turns()
        self._harmful = 0

    def translate(self, texts: Sequence[str]) -> list[Outcome]:
        """Translate texts.

        Returns:
            For each its translation, or why it has none.

        Raises:
            TranslationError: nothing can be translated: the server is away, or refuses the options;
                or it was ended by more texts than `MOST_HARMFUL`.
        """
        found: list[Outcome] = []
        for begin in range(0, len(texts), self._batch_size):
            batch = texts[begin : begin + self._batch_size]
            try:
                with self._turns.shared():
                    found += self._translator.translate(batch, **self._options)
            except TranslationError:
                with self._turns.alone():
                    found += self._isolated(batch)
        return found

    def check_control(self) -> None:
        """See that a harmless text is translated.

        Raises:
            TranslationError: it is not, and that is not because of its language.
        """
        try:
            self._translator.translate(CONTROL, **self._options)
        except InvalidRequest as error:
            if not is_of_text(error):
                raise

    def _isolated(self, texts: Sequence[str]) -> list[Outcome]:
        try:
            return list(self._translator.translate(texts, **self._options))
        except AccessDenied:
            raise
        except TranslationError as error:
            if not (isinstance(error, InvalidRequest) and (len(texts) > 1 or is_of_text(error))):
                self.check_control()
            if len(texts) == 1:
                self._count(error)
                return [RowError(_reason(error))]
        middle = len(texts) // 2
        return [*self._isolated(texts[:middle]), *self._isolated(texts[middle:])]

    def _count(self, error: TranslationError) -> None:
        """Bound the time that texts cost which are not refused but end or block the server."""
        self._harmful += not isinstance(error, InvalidRequest)
        if self._harmful > MOST_HARMFUL:
            raise error


def _reason(error: TranslationError) -> str:
    """In one line; the number of a text in its request means nothing to the reader."""
    reason = " ".join(str(error).split())
    return reason.replace("text 0 ", "the text ", 1) if is_of_text(error) else reason


class _Turns:
    """Any number at once, or one alone, who goes before those that come later."""

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
