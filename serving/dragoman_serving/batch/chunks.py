"""Chunks of files: the units of work of a job, each with a unique id."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import BinaryIO, Protocol

from dragoman_options.table import Translation

from dragoman_serving.batch.storage import FileState, InputFile, Storage

ERRORS = ".errors.jsonl"
"""Suffix of error files."""


@dataclass(frozen=True)
class Chunk:
    """Some rows of a file.

    Attributes:
        source: the file.
        index: index of the chunk in its file, from 0; the id is the file's name and this index.
        begin: where the rows begin, in the unit of the format: bytes or rows.
        end: where they end.
        first_row: index of the first row in the file, from 0.
        rows: number of rows.
    """

    source: InputFile
    index: int
    begin: int
    end: int
    first_row: int
    rows: int


@dataclass(frozen=True)
class FileIndex:
    """The positions of a file's chunks.

    Attributes:
        size_bytes: size of the file.
        modified_ns: its modification time.
        sha256: SHA-256 of its content.
        cuts: begin, end and number of rows of each chunk.
    """

    size_bytes: int
    modified_ns: int
    sha256: str
    cuts: Sequence[tuple[int, int, int]]

    @classmethod
    def parse(cls, written: bytes) -> FileIndex:
        """Parses the output of `packed`."""
        fields = json.loads(written)
        fields["cuts"] = tuple(map(tuple, fields["cuts"]))
        return cls(**fields)

    @property
    def packed(self) -> bytes:
        """The index as JSON, for a file."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @property
    def state(self) -> FileState:
        """State of the file when the index was made."""
        return FileState(self.size_bytes, self.modified_ns)

    @property
    def rows(self) -> int:
        """Number of rows of the file."""
        return sum(rows for _, _, rows in self.cuts)

    def chunks(self, source: InputFile) -> Iterator[Chunk]:
        """Yields all chunks of the file, in order."""
        first_row = 0
        for index, (begin, end, rows) in enumerate(self.cuts):
            yield Chunk(source, index, begin, end, first_row, rows)
            first_row += rows


@dataclass(frozen=True)
class RowError:
    """The reason why a row has no translation."""

    reason: str


Outcome = Translation | RowError
"""The outcome of a row."""


class Rows(Protocol):
    """The rows of a chunk.

    Attributes:
        texts: the text of each row, or the reason why it has none.
    """

    texts: Sequence[str | RowError]

    def written(self, outcomes: Sequence[Outcome]) -> bytes:
        """Returns the rows with their outcomes, as a file of the format."""


class RowFormat(Protocol):
    """A format of files of rows.

    Attributes:
        suffix: file name suffix of chunks.
    """

    suffix: str

    def cut(self, source: InputFile, most_rows: int) -> Sequence[tuple[int, int, int]]:
        """Split a file; returns begin, end and number of rows of each chunk.

        Raises:
            ValueError: the file is not in the format.
        """

    def read(self, chunk: Chunk) -> Rows:
        """Read the rows of a chunk."""

    def count(self, written: bytes) -> int:
        """Returns the number of rows in a written chunk."""

    def join(self, parts: Iterator[bytes], source: InputFile, file: BinaryIO) -> int:
        """Join the chunks of a file, and return the number of rows.

        Args:
            parts: all written chunks of the file, in order.
            source: the source file.
            file: output file.
        """


def parts_folder(source: InputFile) -> str:
    """Returns the folder of a file's parts in the output."""
    return f"{source.name}.parts"


def part_name(chunk: Chunk, suffix: str) -> str:
    """Returns the name of a chunk's part in that folder."""
    return f"{chunk.index:08d}{suffix}"


def errors_name(chunk: Chunk) -> str:
    """Returns the name of a chunk's error file in that folder."""
    return f"_{chunk.index:08d}{ERRORS}"


def read_whole(storage: Storage, name: str) -> bytes:
    """Returns the content of a small file.

    Raises:
        OSError: the file cannot be read.
    """
    with storage.open(name) as file:
        return file.read()
