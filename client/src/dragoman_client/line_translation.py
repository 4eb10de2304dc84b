"""Translates many lines in order; a refused line does not affect the others."""

from __future__ import annotations

import collections
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, Unpack

from dragoman_options.arguments import OptionArguments

from dragoman_client.errors import InvalidRequest, TranslationError
from dragoman_client.request import Translation

REFUSED = Translation("", 0, "refused")
"""The result for a line that the server refused."""
_TEXT_REFUSED = re.compile(r"text \d+ ")
"""The beginning of the server's message if it refuses one text rather than an option."""


def is_of_text(error: TranslationError) -> bool:
    """Whether the server refused one text rather than an option."""
    return _TEXT_REFUSED.match(str(error)) is not None


@dataclass(frozen=True)
class Line:
    """A line, and the text in it to translate."""

    line: str
    text: str


class BatchTranslator(Protocol):
    """The method that this module needs of a translator; see `Translator`."""

    def translate_batches(
        self,
        texts: Iterable[str],
        *,
        batch_size: int = ...,
        concurrency: int = ...,
        **options: Unpack[OptionArguments],
    ) -> Iterator[Translation]:
        """Translate any number of texts in order."""


Refuse = Callable[[int, InvalidRequest], None]
"""Called with the number of a refused line, from 1, and the error."""


def translate_lines(
    translator: BatchTranslator,
    lines: Iterable[Line],
    *,
    batch_size: int,
    concurrency: int,
    options: OptionArguments,
    refuse: Refuse | None,
) -> Iterator[tuple[Line, Translation]]:
    """Yield each line with its translation, or with `REFUSED`.

    Args:
        translator: the client.
        lines: the lines, of which only a few are read ahead of the results.
        batch_size: number of lines in a request.
        concurrency: number of concurrent requests.
        options: options of the translation.
        refuse: called for each refused line; None: a refusal is raised as an error.

    Raises:
        TranslationError: a request failed.
    """
    incoming = iter(lines)
    waiting: collections.deque[Line] = collections.deque()  # read, but to be retried
    unanswered: collections.deque[Line] = collections.deque()
    answered = 0

    def to_send() -> Iterator[str]:
        while (line := waiting.popleft() if waiting else next(incoming, None)) is not None:
            unanswered.append(line)
            yield line.text

    while True:
        translations = translator.translate_batches(
            to_send(), batch_size=batch_size, concurrency=concurrency, **options
        )
        try:
            for translation in translations:
                answered += 1
                yield unanswered.popleft(), translation
        except InvalidRequest as error:
            if refuse is None or not is_of_text(error):
                raise
        else:
            return
        # One text of the first unanswered batch was refused: translate each text by itself.
        waiting.extendleft(reversed(unanswered))
        unanswered.clear()
        for _ in range(min(batch_size, len(waiting))):
            line = waiting.popleft()
            answered += 1
            yield line, _translate_alone(translator, line, options, answered, refuse)


def _translate_alone(
    translator: BatchTranslator,
    line: Line,
    options: OptionArguments,
    number: int,
    refuse: Refuse,
) -> Translation:
    """Translate one line in its own request."""
    try:
        return next(translator.translate_batches([line.text], concurrency=1, **options))
    except InvalidRequest as error:
        refuse(number, error)
        return REFUSED
