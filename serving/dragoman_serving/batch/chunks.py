"""Chunks: the units of work into which files are cut, each with an id of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import BinaryIO, Protocol

from dragoman_client.request import Translation

from dragoman_serving.batch.storage import FileState, Source, Storage

ERRORS = ".errors.jsonl"
"""What names of files of errors end with."""


@dataclass(frozen=True)
class Chunk:
    """Some rows of a file.

    Attributes:
        source: the file.
        index: of the chunk in its file, from 0; with the file's name, its id.
        begin: where the rows begin, in the unit of the format: bytes or rows.
        end: where they end.
        first_row: of the file, from 0.
        rows: how many.
    """

    source: Source
    index: int
    begin: int
    end: int
    first_row: int
    rows: int


@dataclass(frozen=True)
class FileIndex:
    """Where the chunks of a file are.

    Attributes:
        size_bytes: of the file.
        modified_ns: when it was written last.
        sha256: of its content.
        cuts: of each chunk its begin, end and rows.
    """

    size_bytes: int
    modified_ns: int
    sha256: str
    cuts: Sequence[tuple[int, int, int]]

    @classmethod
    def parse(cls, written: bytes) -> FileIndex:
        """From what `packed` gave."""
        found = json.loads(written)
        found["cuts"] = tuple(map(tuple, found["cuts"]))
        return cls(**found)

    @property
    def packed(self) -> bytes:
        """As a file has it."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @property
    def state(self) -> FileState:
        """Of the file when it was cut."""
        return FileState(self.size_bytes, self.modified_ns)

    @property
    def rows(self) -> int:
        """Of the file."""
        return sum(rows for _, _, rows in self.cuts)

    def chunks(self, source: Source) -> Iterator[Chunk]:
        """All chunks of the file, in order."""
        first_row = 0
        for index, (begin, end, rows) in enumerate(self.cuts):
            yield Chunk(source, index, begin, end, first_row, rows)
            first_row += rows


@dataclass(frozen=True)
class RowError:
    """Why a row has no translation."""

    reason: str


Outcome = Translation | RowError
"""What comes of a row."""


class Rows(Protocol):
    """The rows of a chunk.

    Attributes:
        texts: what is to be translated, or why a row has no text.
    """

    texts: Sequence[str | RowError]

    def written(self, outcomes: Sequence[Outcome]) -> bytes:
        """The rows with what came of them, as a file of the format."""


class RowFormat(Protocol):
    """A format of files of rows.

    Attributes:
        suffix: of the names of chunks.
    """

    suffix: str

    def cut(self, source: Source, most_rows: int) -> Sequence[tuple[int, int, int]]:
        """Cut a file: begin, end and rows of each chunk.

        Raises:
            ValueError: the file is not of the format.
        """

    def read(self, chunk: Chunk) -> Rows:
        """The rows of a chunk."""

    def count(self, written: bytes) -> int:
        """How many rows a chunk has that was written."""

    def join(self, parts: Iterator[bytes], source: Source, file: BinaryIO) -> int:
        """Write one file of chunks; how many rows it has.

        Args:
            parts: chunks as they were written, all of the file in order.
            source: the file that was cut.
            file: to write to.
        """


def parts_folder(source: Source) -> str:
    """The folder of a file's parts in the output."""
    return f"{source.name}.parts"


def part_name(chunk: Chunk, suffix: str) -> str:
    """The name of a chunk's part in that folder."""
    return f"{chunk.index:08d}{suffix}"


def errors_name(chunk: Chunk) -> str:
    """The name of the file of a chunk's errors in that folder."""
    return f"_{chunk.index:08d}{ERRORS}"


def read_whole(storage: Storage, name: str) -> bytes:
    """The content of a small file.

    Raises:
        OSError: it cannot be read.
    """
    with storage.open(name) as file:
        return file.read()
