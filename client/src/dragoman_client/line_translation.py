"""Translates many lines in order; a refused line does not affect the others."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, Unpack

from dragoman_options.arguments import OptionArguments

from dragoman_client.blocking import run
from dragoman_client.errors import InvalidRequest
from dragoman_client.isolation import isolate
from dragoman_client.request import Translation

REFUSED = Translation("", 0, "refused")
"""The result for a line that the server refused."""


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
            if refuse is None or error.text_index is None:
                raise
        else:
            return
        # One text of the first unanswered batch was refused.
        waiting.extendleft(reversed(unanswered))
        unanswered.clear()
        batch = [waiting.popleft() for _ in range(min(batch_size, len(waiting)))]
        for line, result in zip(batch, _isolated(translator, batch, options), strict=True):
            answered += 1
            if isinstance(result, InvalidRequest):
                refuse(answered, result)
            yield line, result if isinstance(result, Translation) else REFUSED


def _isolated(
    translator: BatchTranslator, batch: Sequence[Line], options: OptionArguments
) -> list[Translation | Exception]:
    """Translate a batch without the lines that are refused."""

    async def send(part: range) -> list[Translation]:
        texts = [line.text for line in batch[part.start : part.stop]]
        return list(
            translator.translate_batches(texts, batch_size=len(texts), concurrency=1, **options)
        )

    return run(isolate(len(batch), send))
