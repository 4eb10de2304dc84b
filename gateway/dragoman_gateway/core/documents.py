"""Documents that jobs translate: their formats, what is in them, and portions of them."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, Literal

from dragoman_client import Document, Translation
from dragoman_client.document_translation import (
    ENDINGS,
    Excerpt,
    MarkupFormat,
    excerpts_of,
    format_of,
    open_reader,
    parts_of,
)
from dragoman_client.documents import decoded
from dragoman_options.markup import Markup

from dragoman_gateway.core.errors import InvalidInput

DocumentFormat = Literal["text", MarkupFormat]
FORMATS = (".txt", *ENDINGS)
"""Endings of the files that can be translated."""

_NAMES = {"html": "HTML", "xml": "XML", "xliff": "XLIFF"}
_TEXT = Document()
_CHUNK_BYTES = 1 << 13
"""Read at once: a few milliseconds of work with markup, between which other requests are served."""
_HEAD_BYTES = 4096
"""By which a document shows its format, if its name does not."""
_SAMPLE_CHARACTERS = 4000
_PORTION_CHARACTERS = 8000
_PORTION_PARAGRAPHS = 100
"""Of a request: enough for the engine's batch, and few enough that others have their turn soon."""
_ANY_LANGUAGE = "und"
"""For a reader that has to name one, of a document that is only counted."""


@dataclass(frozen=True)
class DocumentFacts:
    """What there is to know of a document.

    Attributes:
        form: its format.
        characters: of a text file, a byte order mark not counted; else of its texts.
        sample: how its text begins.
    """

    form: DocumentFormat
    characters: int
    sample: str


@dataclass(frozen=True)
class Portion:
    """A part of a document that is translated at once.

    Attributes:
        texts: in it.
        markups: of each text.
        characters: in it; together those of the document's `DocumentFacts`.
        written: its bytes with translations of the texts; None: a text stays as it is.
    """

    texts: Sequence[str]
    markups: Sequence[Markup]
    characters: int
    written: Callable[[Sequence[Translation | None]], bytes]


async def inspect(path: Path, name: str) -> DocumentFacts:
    """Read a document through.

    A document with markup takes a second for each megabyte. Other requests are served meanwhile,
    and cancelling ends the work.

    Args:
        path: of the document.
        name: given by its owner.

    Raises:
        InvalidInput: it is not of its format.
    """
    form = await asyncio.to_thread(_format_of, path, name)
    try:
        if form == "text":
            return await asyncio.to_thread(_inspect_text, path)
        return await _inspect_markup(path, form)
    except ValueError as error:
        what = "" if form == "text" else f"the document is not valid {_NAMES[form]}: "
        raise InvalidInput(f"{what}{error}") from error


def portions_of(
    file: BinaryIO, form: DocumentFormat, target_language: str | None
) -> Iterator[Portion]:
    """A document in portions; the same file always gives the same ones.

    Args:
        file: the document.
        form: its format.
        target_language: that a file with translations beside its texts is to name.
    """
    if form == "text":
        yield from _portions_of_text(file)
        return
    for excerpt in excerpts_of(parts_of(open_reader(form, target_language), file)):
        segments = excerpt.segments
        texts, markups = [one.text for one in segments], [one.markup for one in segments]
        yield Portion(texts, markups, excerpt.size, excerpt.written)


def _format_of(path: Path, name: str) -> DocumentFormat:
    with path.open("rb") as file:
        return format_of(name, file.read(_HEAD_BYTES)) or "text"


def _inspect_text(path: Path) -> DocumentFacts:
    characters, sample = 0, ""
    with path.open("rb") as file:
        for text in decoded(file, "the document"):
            characters += len(text)
            sample += text[: max(0, _SAMPLE_CHARACTERS - len(sample))]
    return DocumentFacts("text", characters, sample)


async def _inspect_markup(path: Path, form: MarkupFormat) -> DocumentFacts:
    reader = open_reader(form, _ANY_LANGUAGE)
    characters, sample, is_whole = 0, "", False
    with path.open("rb") as file:
        while not is_whole:
            chunk = file.read(_CHUNK_BYTES)
            is_whole = not chunk
            read = partial(reader.feed, chunk) if chunk else reader.close
            excerpt = Excerpt.of(await asyncio.to_thread(read))
            characters += excerpt.size
            for segment in excerpt.segments if len(sample) < _SAMPLE_CHARACTERS else ():
                sample += f"{segment.text}\n"
    return DocumentFacts(form, characters, sample[:_SAMPLE_CHARACTERS])


def _portions_of_text(file: BinaryIO) -> Iterator[Portion]:
    mark = file.read(len(codecs.BOM_UTF8))
    before = mark if mark == codecs.BOM_UTF8 else b""
    file.seek(0)
    for paragraphs in _chunks(_TEXT.paragraphs(file, "the document")):
        texts = [_TEXT.read(one) for one in paragraphs]
        written = partial(_written_text, before, paragraphs)
        yield Portion(texts, [Markup()] * len(texts), sum(map(len, paragraphs)), written)
        before = b""
    if before:
        yield Portion((), (), 0, lambda _: codecs.BOM_UTF8)


def _chunks(paragraphs: Iterator[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    characters = 0
    for paragraph in paragraphs:
        chunk.append(paragraph)
        characters += len(paragraph)
        if characters >= _PORTION_CHARACTERS or len(chunk) == _PORTION_PARAGRAPHS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def _written_text(
    before: bytes, paragraphs: Sequence[str], answers: Sequence[Translation | None]
) -> bytes:
    pairs = zip(paragraphs, answers, strict=True)
    texts = (one if answer is None else _TEXT.write(one, answer) for one, answer in pairs)
    return before + "".join(texts).encode("utf-8")
