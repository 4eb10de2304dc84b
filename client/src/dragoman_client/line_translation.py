"""Many lines through a translator, in order; a line that is refused does not cost the others."""

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
"""What stands for the translation of a line that the server refused."""
_TEXT_REFUSED = re.compile(r"text \d+ ")
"""How the server begins when one text, and not an option, is at fault."""


def is_of_text(error: TranslationError) -> bool:
    """Whether one text, and not an option, is at fault."""
    return _TEXT_REFUSED.match(str(error)) is not None


@dataclass(frozen=True)
class Line:
    """A line, and the text in it that is translated."""

    line: str
    text: str


class BatchTranslator(Protocol):
    """What is asked of a translator; see `Translator`."""

    def translate_batches(
        self,
        texts: Iterable[str],
        *,
        batch_size: int = ...,
        concurrency: int = ...,
        **options: Unpack[OptionArguments],
    ) -> Iterator[Translation]:
        """Any number of texts, in order."""


Refuse = Callable[[int, InvalidRequest], None]
"""Is told the number of a refused line, counted from 1, and why."""


def translate_lines(
    translator: BatchTranslator,
    lines: Iterable[Line],
    *,
    batch_size: int,
    concurrency: int,
    options: OptionArguments,
    refuse: Refuse | None,
) -> Iterator[tuple[Line, Translation]]:
    """Each line with its translation; a refused one has `REFUSED`.

    Args:
        translator: the client.
        lines: read only a little ahead of what has been handed out.
        batch_size: lines in a request.
        concurrency: requests under way at once.
        options: of the translation.
        refuse: is told of refused lines; None: a refusal is an error.

    Raises:
        TranslationError: a request failed.
    """
    incoming = iter(lines)
    waiting: collections.deque[Line] = collections.deque()  # read, but to be sent again
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
        # One text of the first batch without an answer was refused: ask for each by itself.
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
    """A line's translation."""
    try:
        return next(translator.translate_batches([line.text], concurrency=1, **options))
    except InvalidRequest as error:
        refuse(number, error)
        return REFUSED
