"""Translates a text file paragraph by paragraph, and resumes where it stopped."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from dragoman_client import Document, Translation

from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.errors import DeadlineExceeded, InvalidInput, Unavailable
from dragoman_gateway.core.job_files import JobFiles, JobRecord
from dragoman_gateway.core.translations import Translations, is_of_one_text

_FORM = Document()
_CHUNK_CHARACTERS = 8000
_CHUNK_PARAGRAPHS = 100
"""Of a request: enough for the engine's batch, and few enough that others have their turn soon."""
_LONGEST_PAUSE_S = 10.0
_REFUSED = Translation("", 0, "refused")


async def translate_text_file(
    record: JobRecord, files: JobFiles, translations: Translations
) -> None:
    """Translate what is left of a document.

    While the server is down or overloaded, requests are retried until the job is removed. A
    paragraph that the server refuses stays as it is.

    Args:
        record: of the job; it is brought up to date.
        files: of all jobs.
        translations: translates.

    Raises:
        GatewayError: it cannot be translated.
    """
    caller = Caller(record.caller, record.owner or None, caches=record.caches)
    with files.source(record.id).open("rb") as file:
        bom = file.read(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8
        file.seek(0)
        paragraphs = itertools.islice(
            _FORM.paragraphs(file, "the document"), record.done_paragraphs, None
        )
        if bom and not record.partial_bytes:
            await asyncio.to_thread(files.append, record, "\ufeff", 0, 0)
        for chunk in _chunks(paragraphs):
            texts = [_FORM.read(paragraph) for paragraph in chunk]
            found = await _translated_when_available(translations, caller, texts, record.options)
            written = "".join(map(_FORM.write, chunk, found))
            characters = sum(map(len, chunk))
            await asyncio.to_thread(files.append, record, written, len(chunk), characters)


def _chunks(paragraphs: Iterator[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    characters = 0
    for paragraph in paragraphs:
        chunk.append(paragraph)
        characters += len(paragraph)
        if characters >= _CHUNK_CHARACTERS or len(chunk) == _CHUNK_PARAGRAPHS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


async def _translated_when_available(
    translations: Translations, caller: Caller, texts: Sequence[str], options: dict[str, Any]
) -> list[Translation]:
    """As `_translated`, tried again as long as the server is down or overloaded."""
    pause_s = 0.5
    while True:
        with contextlib.suppress(Unavailable, DeadlineExceeded):
            return await _translated(translations, caller, texts, options)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


async def _translated(
    translations: Translations, caller: Caller, texts: Sequence[str], options: dict[str, Any]
) -> list[Translation]:
    """Translations of texts; of one that is refused alone, an empty one."""
    try:
        return await translations.translate_admitted(caller, texts, options)
    except InvalidInput as error:
        if not is_of_one_text(error):
            raise
        if len(texts) == 1:
            return [_REFUSED]
    found = []
    for text in texts:
        found += await _translated(translations, caller, [text], options)
    return found
