"""Translates a document in portions, and can resume an interrupted translation."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

from dragoman_client import Translation
from dragoman_client.files.isolation import isolate
from dragoman_client.transports.pools import TaskPool, in_order
from dragoman_documents.core.suggestions import Suggestions
from dragoman_options.markup import Markup

from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.errors import DeadlineExceeded, Unavailable
from dragoman_gateway.jobs.job_files import JobFiles, JobRecord
from dragoman_gateway.reader.documents import Portion, is_package
from dragoman_gateway.reader.marked import Answer
from dragoman_gateway.texts.marked_texts import translate_segments
from dragoman_gateway.texts.readers import OpenDocument, Readers
from dragoman_gateway.texts.translations import Translations

_AT_ONCE = 2
"""Portions that are translated at the same time: while one is written and the next one read, the
server has work."""
_LONGEST_PAUSE_S = 10.0
_Result = TypeVar("_Result")


async def translate_document(
    record: JobRecord, files: JobFiles, translations: Translations, readers: Readers
) -> None:
    """Translate the rest of a document.

    While the server is down or overloaded, requests are retried until the job is removed. A text
    that the server refuses is not changed.

    Args:
        record: record of the job; it is updated.
        files: files of all jobs.
        translations: translates texts.
        readers: reads the document.

    Raises:
        GatewayError: the document cannot be translated.
    """
    asking = _Asking(record, translations)
    source, options = files.source(record.id), record.options | record.reading
    async with readers.document(
        source, record.size_bytes, record.form, options, record.done_portions
    ) as document:
        portions = in_order(TaskPool(_AT_ONCE), document.portions(), asking.translated)
        async with contextlib.aclosing(portions) as translated:
            async for portion, (answers, suggestions) in translated:
                written = await document.written(answers, suggestions)
                left = Counter(portion.left)
                left.update(_left(portion.segments.texts, answers))
                await asyncio.to_thread(files.append, record, written, portion.characters, left)
        if is_package(record.form):
            await _join(record, files, document)


def _left(texts: Sequence[str], answers: Sequence[Answer | None]) -> Iterator[str]:
    """Yields the reason of each text that is left as it is."""
    for text, answer in zip(texts, answers, strict=True):
        if answer is None:
            yield "refused"
        elif text.strip() and not answer.text.strip():
            yield "empty"


async def _join(record: JobRecord, files: JobFiles, document: OpenDocument) -> None:
    """Put a package together from all of its portions."""
    partial = files.partial(record.id)
    await asyncio.to_thread(partial.touch)
    with await asyncio.to_thread(files.joined(record.id).open, "wb") as file:
        async for piece in document.pieces(partial):
            await asyncio.to_thread(file.write, piece)


async def _until_available(work: Callable[[], Awaitable[_Result]]) -> _Result:
    """Repeat work until neither the server nor a memory is unavailable."""
    pause_s = 0.5
    while True:
        with contextlib.suppress(Unavailable, DeadlineExceeded):
            return await work()
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


class _Asking:
    """Translates the texts of a document."""

    def __init__(self, record: JobRecord, translations: Translations) -> None:
        self._caller = Caller(record.caller, record.owner or None, caches=record.caches)
        self._record, self._translations = record, translations
        self._options = record.options

    async def translated(
        self, portion: Portion
    ) -> tuple[list[Answer | None], Sequence[Suggestions]]:
        """Translate a portion; None stands for a refused text. Returns suggestions for it too."""
        segments, suggestible = portion.segments, portion.suggestible
        caller, options = self._caller, self._record.options
        stored, self._options = await _until_available(
            lambda: self._translations.stored(caller, segments.texts, segments.markups, options)
        )
        suggestions = await _until_available(
            lambda: self._translations.suggestions(
                caller, suggestible.texts, suggestible.markups, options
            )
        )
        answers: list[Translation | None] = await translate_segments(
            segments.texts, segments.markups, self._ask_until_done, stored
        )
        written = [
            None if answer is None else Answer(answer.text, answer.codes) for answer in answers
        ]
        return written, suggestions

    async def _ask_until_done(
        self, texts: Sequence[str], markups: Sequence[Markup] | None
    ) -> list[Translation | None]:
        return await _until_available(lambda: self._ask(texts, markups))

    async def _ask(
        self, texts: Sequence[str], markups: Sequence[Markup] | None
    ) -> list[Translation | None]:
        async def send(part: range) -> list[Translation]:
            these = slice(part.start, part.stop)
            options = self._options | ({"markup": markups[these]} if markups else {})
            return await self._translations.translate_admitted(self._caller, texts[these], options)

        results = await isolate(len(texts), send)
        return [
            translation if isinstance(translation, Translation) else None for translation in results
        ]
