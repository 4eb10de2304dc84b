"""Translates many lines in order; a refused line does not affect the others."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, Unpack

from dragoman_options.arguments import OptionArguments
from dragoman_options.table import Translation

from dragoman_client.core.errors import InvalidRequest
from dragoman_client.core.settings import check_batch_options, check_batching
from dragoman_client.files.isolation import isolate
from dragoman_client.transports.blocking import run_each
from dragoman_client.transports.pools import ThreadPool, batches_of, in_order

REFUSED = Translation("", 0, "refused")
"""The result for a line that the server refused."""


@dataclass(frozen=True)
class Line:
    """A line, and the text in it to translate."""

    line: str
    text: str


class TextTranslator(Protocol):
    """The method that this module needs of a translator; see `Translator`."""

    def translate(
        self, texts: Sequence[str], **options: Unpack[OptionArguments]
    ) -> list[Translation]:
        """Translate texts in one request."""
        ...


Refuse = Callable[[int, InvalidRequest], None]
"""Called with the number of a refused line, from 1, and the error."""


def translate_lines(
    translator: TextTranslator,
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
    check_batching(lines, batch_size, concurrency)
    check_batch_options(options)

    async def translated(numbered: tuple[int, Sequence[Line]]) -> Sequence[Translation | Exception]:
        _, batch = numbered

        async def send(part: range) -> Sequence[Translation]:
            texts = [line.text for line in batch[part.start : part.stop]]
            return translator.translate(texts, **options)

        whole = range(len(batch))
        return await (send(whole) if refuse is None else isolate(len(batch), send))

    batches = in_order(ThreadPool(concurrency), batches_of(lines, batch_size), translated)
    with contextlib.closing(run_each(batches)) as answered:
        for (index, batch), results in answered:
            for number, (line, result) in enumerate(zip(batch, results, strict=True), index + 1):
                if refuse is not None and isinstance(result, InvalidRequest):
                    refuse(number, result)
                yield line, result if isinstance(result, Translation) else REFUSED
