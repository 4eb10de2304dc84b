"""Documents: their formats, inspection, and splitting into portions."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Literal

from dragoman_client import Document, Translation
from dragoman_client.files.document_translation import excerpts_of, parts_of
from dragoman_client.files.file_formats import (
    READABLE,
    FormatName,
    ReadableFormat,
    Reading,
    check_archive,
    check_running_text,
    check_text,
    format_of,
    open_reader,
)
from dragoman_documents.core.suggestions import Suggestions
from dragoman_documents.office.container import Container
from dragoman_options.markup import Markup

from dragoman_gateway.reader.marked import ReadText

DocumentFormat = Literal["text", FormatName]
_TEXT = Document()
_DOCUMENT = "the document"
"""Name of each document, for messages."""
_HEAD_BYTES = 4096
"""How much of a document is read to detect its format, if its name does not show it."""
_SAMPLE_CHARACTERS = 4000
_PORTION_CHARACTERS = 8000
_PORTION_PARAGRAPHS = 100
"""Paragraphs in a request: enough for the engine's batch, but few enough to be fair to others."""
_PIECE_BYTES = 1 << 20
_ANY_LANGUAGE = "und"
_NO_TEXTS = ReadText((), ())


@dataclass(frozen=True)
class DocumentFacts:
    """Facts about a document.

    Attributes:
        form: its format.
        characters: number of characters: of a text file without the byte order mark, or of the
            texts of a document with markup.
        sample: the beginning of its text.
    """

    form: DocumentFormat
    characters: int
    sample: str


@dataclass(frozen=True)
class Portion:
    """A part of a document that is translated together.

    Attributes:
        segments: its texts with their markup.
        characters: its number of characters; the sum over all portions is that of `DocumentFacts`.
        left: number of other texts in it that are not translated, by their reason.
        suggestible: the texts for which suggestions are written.
    """

    segments: ReadText
    characters: int
    left: dict[str, int] = field(default_factory=dict)
    suggestible: ReadText = _NO_TEXTS


@dataclass(frozen=True)
class OpenPortion:
    """A portion, and what writes it.

    Attributes:
        portion: the portion.
        written: returns its bytes with translations of the texts; None: a text is not changed; and
            with suggestions for the texts of `Portion.suggestible`.
    """

    portion: Portion
    written: Callable[[Sequence[Translation | None], Sequence[Suggestions]], bytes]


def inspect(path: Path, name: str, options: Mapping[str, Any]) -> DocumentFacts:
    """Read and check a whole document.

    Args:
        path: path of the document.
        name: file name given by the caller.
        options: options of its translation, and the other fields of `Reading`.

    Raises:
        ValueError: the document does not have its format.
    """
    form = _format_of(path, name)
    characters, sample = 0, ""
    try:
        with path.open("rb") as file:
            # A bilingual document may be inspected before its target language is known.
            for opened in portions_of(file, form, {"target_language": _ANY_LANGUAGE, **options}):
                characters += opened.portion.characters
                if len(sample) < _SAMPLE_CHARACTERS:
                    sample += "".join(f"{text}\n" for text in opened.portion.segments.texts)
    except ValueError as error:
        if form == "text":
            raise
        message = str(error).removeprefix(_DOCUMENT).lstrip(",: ")
        raise ValueError(f"{_DOCUMENT} is not valid {READABLE[form].title}: {message}") from error
    return DocumentFacts(form, characters, sample[:_SAMPLE_CHARACTERS])


def portions_of(
    file: BinaryIO, form: DocumentFormat, options: Mapping[str, Any]
) -> Iterator[OpenPortion]:
    """Split a document into portions, always in the same way.

    Args:
        file: the document.
        form: its format.
        options: options of its translation, and the other fields of `Reading`.
    """
    if form == "text":
        yield from _portions_of_text(file)
        return
    reading = Reading.of(options, options.get("columns", ()), options.get("titles", False))
    reader = open_reader(form, reading)
    for excerpt in excerpts_of(parts_of(reader, file, _DOCUMENT)):
        suggestible = ReadText.of(excerpt.suggestible if options.get("memory_id") else ())
        segments = ReadText.of(excerpt.segments)
        portion = Portion(segments, excerpt.size, dict(excerpt.left), suggestible)
        yield OpenPortion(portion, excerpt.written)


def is_package(form: DocumentFormat) -> bool:
    """Whether the written portions of a document are put together when all are there."""
    return form != "text" and READABLE[form].is_package


def pieces_of(file: BinaryIO, portions: BinaryIO) -> Iterator[bytes]:
    """Yield a translated package.

    Args:
        file: the package.
        portions: its written portions, one after the other.
    """
    piece = bytearray()
    chunks = iter(lambda: portions.read(_PIECE_BYTES), b"")
    for content in Container(file).with_content(chunks):
        piece += content
        if len(piece) >= _PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece)


def _format_of(path: Path, name: str) -> DocumentFormat:
    with path.open("rb") as file:
        begin = file.read(_HEAD_BYTES)
    known = format_of(name, begin)
    if isinstance(known, ReadableFormat):
        (check_archive if known.is_package else check_text)(_DOCUMENT, begin)
        return known.name
    check_running_text(_DOCUMENT, begin)
    return "text"


def _portions_of_text(file: BinaryIO) -> Iterator[OpenPortion]:
    mark = file.read(len(codecs.BOM_UTF8))
    before = mark if mark == codecs.BOM_UTF8 else b""
    file.seek(0)
    for paragraphs in _chunks(_TEXT.paragraphs(file, _DOCUMENT)):
        texts = [_TEXT.read(paragraph) for paragraph in paragraphs]
        written = partial(_written_text, before, paragraphs)
        segments = ReadText(texts, [Markup()] * len(texts))
        yield OpenPortion(Portion(segments, sum(map(len, paragraphs))), written)
        before = b""
    if before:
        yield OpenPortion(Portion(_NO_TEXTS, 0), lambda *_: codecs.BOM_UTF8)


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
    before: bytes,
    paragraphs: Sequence[str],
    answers: Sequence[Translation | None],
    _suggestions: Sequence[Suggestions],
) -> bytes:
    pairs = zip(paragraphs, answers, strict=True)
    texts = (
        paragraph if answer is None else _TEXT.write(paragraph, answer)
        for paragraph, answer in pairs
    )
    return before + "".join(texts).encode("utf-8")
