"""Translates documents with markup: replaces the texts in them, and nothing else."""

from __future__ import annotations

import contextlib
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from reprlib import repr as brief
from typing import BinaryIO, Self

from dragoman_documents.core.segments import Raw, Segment
from dragoman_documents.core.suggestions import Suggestions, WithSuggestions
from dragoman_documents.office.container import Container, MemberBegin, frame
from dragoman_documents.office.package_reader import PackageReader
from dragoman_options.markup import Markup, PlacedCodes
from dragoman_options.table import Translation

from dragoman_client.core.errors import InvalidRequest
from dragoman_client.files.compressed_files import HEAD_BYTES
from dragoman_client.files.file_formats import Reader, check_archive, check_text
from dragoman_client.files.file_report import FileReport
from dragoman_client.files.isolation import isolate
from dragoman_client.files.partial_output import check_absent, lock, partial_path
from dragoman_client.transports.blocking import run_each
from dragoman_client.transports.pools import ThreadPool, in_order

_LOG = logging.getLogger(__name__)
_CHUNK_BYTES = 1 << 16
_BATCH_CHARACTERS = 8000
"""Approximate total length of the texts in a request."""
_HELD_BYTES = 1 << 20
"""Approximate size of the part of a document that waits for its translations."""
Translate = Callable[[Sequence[str], Sequence[Markup]], Sequence[Translation]]
"""Translates texts with their markup; raises `InvalidRequest` if one is refused."""
Suggest = Callable[[Sequence[str], Sequence[Markup]], Sequence[Suggestions]]
"""Returns suggestions for each text with its markup."""
Refuse = Callable[[int, InvalidRequest], None]
"""Called with the number of a refused text, from 1, and the error; the text is not changed."""


Part = Raw | Segment | MemberBegin
"""A part of a document; in an archive, of a member that may change."""


def parts_of(reader: Reader | PackageReader, file: BinaryIO, name: str) -> Iterator[Part]:
    """Read a document and yield its parts.

    Args:
        reader: reader of the document.
        file: the document; it must be possible to seek in an archive.
        name: name of the file, for messages.

    Raises:
        ValueError: the document does not have the format; the message says where.
    """
    if isinstance(reader, PackageReader):
        file.seek(0)
        check_archive(name, file.read(HEAD_BYTES))
        try:
            yield from reader.parts(file)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
        return
    chunk = file.read(_CHUNK_BYTES)
    check_text(name, chunk)
    while chunk:
        yield from _named(reader.feed, chunk, name)
        chunk = file.read(_CHUNK_BYTES)
    yield from _named(lambda _: reader.close(), b"", name)


def _named(
    read: Callable[[bytes], Iterable[Raw | Segment]], chunk: bytes, name: str
) -> Iterator[Raw | Segment]:
    """Read the next chunk; an error names the file."""
    try:
        for part in read(chunk):
            if isinstance(part, Segment):
                check_encoding(part)
            yield part
    except ValueError as error:
        raise ValueError(f"{name}, {error}") from error


def check_encoding(segment: Segment) -> None:
    """Refuse a text with bytes that are not valid in the document's encoding.

    Raises:
        ValueError: the text has such bytes.
    """
    if "\ufffd" not in segment.text:
        return
    encoding = segment.spelling.encoding
    try:
        segment.original.decode(encoding)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{brief(segment.text)} is not valid in {encoding}: name the encoding in the document, "
            "or convert it to UTF-8"
        ) from error


@dataclass
class Excerpt:
    """Parts of a document that are translated together.

    Attributes:
        parts: the parts in document order.
        segments: segments of the parts and of the tags in them; the attributes of a tag come
            before the text that contains it.
        size: total number of characters of the segments.
        held_bytes: total size of the parts.
        member: the member of an archive in which it begins.
        left: number of texts that are not translated, by their reason; see `Raw`.
    """

    parts: list[Part] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    size: int = 0
    held_bytes: int = 0
    member: MemberBegin | None = None
    left: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, parts: Iterable[Part]) -> Self:
        """Make an excerpt of some parts."""
        excerpt = cls()
        for part in parts:
            excerpt.add(part)
        return excerpt

    def add(self, part: Part) -> None:
        """Add the next part."""
        self.parts.append(part)
        if isinstance(part, Segment):
            self.held_bytes += len(part.original)
            self._add_segment(part)
        elif isinstance(part, Raw):
            self.held_bytes += len(part.content)
            if part.left:
                self.left[part.left] += 1

    @property
    def suggestible(self) -> list[Segment]:
        """The texts for which suggestions are written."""
        places = (part for part in self.parts if isinstance(part, WithSuggestions))
        return [segment for place in places for segment in place.segments]

    def written(
        self,
        answers: Iterable[Translation | None],
        suggestions: Iterable[Suggestions] = (),
    ) -> bytes:
        """Returns the excerpt with its translations; of an archive, as frames.

        Args:
            answers: translations of the segments; None: a segment is not changed.
            suggestions: suggestions for each of the texts of `suggestible`; empty: none.
        """
        remaining, suggested = iter(answers), iter(suggestions)

        def write(segment: Segment) -> bytes:
            attributes = [write(attribute) for attribute in segment.attributes]
            if (answer := next(remaining)) is None:
                spans = tuple((begin, end) for begin, end, _ in segment.markup.codes)
                return segment.write(segment.text, PlacedCodes(spans), attributes)
            return segment.write(answer.text, answer.codes or PlacedCodes(), attributes)

        member, written, contents = self.member, b"", list[bytes]()
        for part in (*self.parts, None):
            if isinstance(part, WithSuggestions):
                some = [next(suggested, ()) for _ in part.segments]
                contents.append(part.write(some) if any(some) else part.content)
            elif isinstance(part, Raw):
                contents.append(part.content)
            elif isinstance(part, Segment):
                contents.append(write(part))
            else:
                content = b"".join(contents)
                written += frame(member.index, content) if member and content else content
                member, contents = part, []
        return written

    def _add_segment(self, segment: Segment) -> None:
        for attribute in segment.attributes:
            self._add_segment(attribute)
        self.segments.append(segment)
        self.size += len(segment.text)


def read_text(text: str, reader: Reader) -> Excerpt:
    """Read a text with markup as one excerpt.

    Args:
        text: the text with its tags.
        reader: a new reader for UTF-8.

    Raises:
        ValueError: the text does not have the reader's format.
    """
    return Excerpt.of([*reader.feed(text.encode("utf-8", "replace")), *reader.close()])


def translate_parts(
    parts: Iterable[Part],
    translate: Translate,
    *,
    report: FileReport,
    suggest: Suggest | None = None,
    least_confidence: float | None = None,
    concurrency: int = 2,
    refuse: Refuse = lambda _number, _error: None,
    tell: Callable[[int], None] = lambda _texts: None,
) -> Iterator[bytes]:
    """Translate a document, in constant memory.

    Args:
        parts: parts of the document.
        translate: translates texts; several threads call it.
        report: counts the texts.
        suggest: returns suggestions for texts, if the document shows some; None: there are none.
        least_confidence: see `FileReport.add`.
        concurrency: number of concurrent requests.
        refuse: called for each refused text.
        tell: called with the number of finished texts.

    Yields:
        The document with its translations, in order.
    """

    async def translated(
        excerpt: Excerpt,
    ) -> tuple[list[Translation | Exception], Sequence[Suggestions]]:
        segments, suggestible = excerpt.segments, excerpt.suggestible

        async def send(part: range) -> Sequence[Translation]:
            these = segments[part.start : part.stop]
            return translate(
                [segment.text for segment in these], [segment.markup for segment in these]
            )

        suggestions: Sequence[Suggestions] = ()
        if suggest is not None and suggestible:
            suggestions = suggest(
                [segment.text for segment in suggestible],
                [segment.markup for segment in suggestible],
            )
        return await isolate(len(segments), send), suggestions

    done = 0
    excerpts = in_order(ThreadPool(concurrency), excerpts_of(parts), translated)
    with contextlib.closing(run_each(excerpts)) as answered:
        for excerpt, (results, suggestions) in answered:
            answers = [answer if isinstance(answer, Translation) else None for answer in results]
            numbered = enumerate(zip(excerpt.segments, answers, results, strict=True), done + 1)
            for number, (segment, answer, result) in numbered:
                report.add(number, segment.text, answer, least_confidence)
                if isinstance(result, InvalidRequest):
                    refuse(number, result)
            report.left.update(excerpt.left)
            done += len(results)
            yield excerpt.written(answers, suggestions)
            tell(done)


def translate_document(
    source: Path,
    target: Path,
    open_reader: Callable[[], Reader | PackageReader],
    translate: Translate,
    *,
    report: FileReport,
    suggest: Suggest | None = None,
    least_confidence: float | None = None,
    force: bool,
    refuse: Refuse,
    tell: Callable[[int, int], None],
) -> int:
    """Translate a file into another one, which appears when it is complete.

    Args:
        source: the file to read.
        target: the file to write.
        open_reader: opens a reader of the format of both, which is read twice.
        translate: translates texts.
        report: counts the texts, and gets the reader's warnings.
        suggest: see `translate_parts`.
        least_confidence: see `FileReport.add`.
        force: replace an existing target.
        refuse: called for each refused text.
        tell: called with the number of finished texts and the total.

    Returns:
        The number of texts in the file.

    Raises:
        FileExistsError: the target exists.
        OSError: a file cannot be read or written.
        ValueError: the source does not have the format, or another run is writing the target.
    """
    path = partial_path(source, target)
    if not force:
        check_absent(target)
    number = 0
    with source.open("rb") as file:
        for part in parts_of(open_reader(), file, str(source)):
            number += len(Excerpt.of([part]).segments)
    reader = open_reader()
    with source.open("rb") as file, path.open("ab") as output:
        lock(output, path)
        try:
            output.truncate(0)
            contents = translate_parts(
                parts_of(reader, file, str(source)),
                translate,
                report=report,
                suggest=suggest,
                least_confidence=least_confidence,
                refuse=refuse,
                tell=lambda done: tell(done, number),
            )
            for content in whole(reader, file, contents):
                output.write(content)
            output.flush()
            os.fsync(output.fileno())
            if not force:
                check_absent(target)
            os.replace(path, target)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
    report.warnings += reader.warnings
    for message in reader.warnings:
        _LOG.warning("%s: %s", source, message)
    return number


def whole(
    reader: Reader | PackageReader, file: BinaryIO, contents: Iterator[bytes]
) -> Iterator[bytes]:
    """Returns a translated document from its written parts; puts an archive together.

    Args:
        reader: reader of the document.
        file: the document.
        contents: what `translate_parts`, or `Excerpt.written` of each excerpt, returned.
    """
    is_archive = isinstance(reader, PackageReader)
    return Container(file).with_content(contents) if is_archive else contents


def excerpts_of(parts: Iterable[Part]) -> Iterator[Excerpt]:
    """Split a document into excerpts, each with the texts of one request."""
    window, member = Excerpt(), None
    for part in parts:
        window.add(part)
        if isinstance(part, MemberBegin):
            member = part
        if (
            max(window.size, len(window.parts)) >= _BATCH_CHARACTERS
            or window.held_bytes >= _HELD_BYTES
        ):
            yield window
            window = Excerpt(member=member)
    if window.parts:
        yield window
