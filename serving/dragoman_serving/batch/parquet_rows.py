"""Parquet files: one column holds the texts, and columns are added for the outcomes."""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import pyarrow
from dragoman_client.files.line_formats import answer_as_json
from dragoman_options.table import OUTPUTS, TRANSLATE, requested_outputs
from pyarrow import parquet

from dragoman_serving.batch.chunks import Chunk, Outcome, RowError
from dragoman_serving.batch.storage import InputFile

_THREADS = False
"""Arrow's threads release a file of Python's some time after the read. If the interpreter ends
before that, the process aborts: https://github.com/apache/arrow/issues/34314 and 50482."""
_TYPES = {"INT32": pyarrow.int32(), "FP32": pyarrow.float64(), "BYTES": pyarrow.string()}
"""Types of columns by Triton's types; lists and objects are written as JSON text."""
_GROUP_ROWS = 100_000
"""Rows per row group in a joined file."""


class ParquetRowFormat:
    """Rows of Parquet files; see `RowFormat`. A chunk is within one row group."""

    suffix = ".parquet"

    def __init__(self, column: str, options: Mapping[str, Any]) -> None:
        """Choose the columns.

        Args:
            column: the column with the texts.
            options: checked options of the requests, which determine the added columns.
        """
        self._column = column
        requested = requested_outputs(options)
        self._added = {
            output.line: _TYPES[output.codec.datatype]
            for output in OUTPUTS.values()
            if output.name in requested or output.if_any or TRANSLATE in output.always
        }
        self._added["error"] = pyarrow.string()
        if options.get("num_return_sequences", 1) > 1:
            self._added["alternatives"] = pyarrow.string()

    def cut(self, source: InputFile, most_rows: int) -> Sequence[tuple[int, int, int]]:
        """See `RowFormat`."""
        with source.storage.open(source.name) as opened:
            file = _opened(opened, source.name)
            self._check(file.schema_arrow, source.name)
            groups = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        cuts, first = [], 0
        for rows in groups:
            begins = range(first, first + rows, most_rows)
            ends = ((begin, min(begin + most_rows, first + rows)) for begin in begins)
            cuts += [(begin, end, end - begin) for begin, end in ends]
            first += rows
        return cuts

    def read(self, chunk: Chunk) -> ParquetRows:
        """See `RowFormat`."""
        first, group = _group_at(chunk.source, chunk.begin)
        table = group.slice(chunk.begin - first, chunk.rows)
        return ParquetRows(table, self._column, self._added)

    def count(self, written: bytes) -> int:
        """See `RowFormat`."""
        return int(parquet.read_metadata(io.BytesIO(written)).num_rows)

    def join(self, parts: Iterator[bytes], source: InputFile, file: BinaryIO) -> int:
        """See `RowFormat`."""
        with source.storage.open(source.name) as opened:
            empty = _opened(opened, source.name).schema_arrow.empty_table()
        schema = ParquetRows(empty, self._column, self._added).with_outcomes([]).schema
        rows, gathered, waiting = 0, [], 0
        with parquet.ParquetWriter(file, schema) as writer:
            for part in parts:
                table = _opened(io.BytesIO(part), "a part").read(use_threads=_THREADS).cast(schema)
                gathered.append(table)
                rows, waiting = rows + table.num_rows, waiting + table.num_rows
                if waiting >= _GROUP_ROWS:
                    writer.write_table(pyarrow.concat_tables(gathered))
                    gathered, waiting = [], 0
            if gathered:
                writer.write_table(pyarrow.concat_tables(gathered))
        return rows

    def _check(self, schema: Any, name: str) -> None:
        if self._column not in schema.names:
            raise ValueError(
                f"{name}: there is no column {self._column!r}; there are {', '.join(schema.names)}"
            )
        kind = schema.field(self._column).type
        if not _is_text(kind):
            raise ValueError(f"{name}: the column {self._column!r} is of {kind}: name one of text")
        if taken := [column for column in self._added if column in schema.names]:
            raise ValueError(f"{name}: has a column {taken[0]!r} already: rename it")


class ParquetRows:
    """The rows of a chunk; see `Rows`."""

    def __init__(self, table: Any, column: str, added: Mapping[str, Any]) -> None:
        """Store a table, the column of its texts, and the columns to add with their types."""
        self._table, self._added = _decoded(table), added
        cells = self._table.column(column).to_pylist()
        self.texts: Sequence[str | RowError] = ["" if text is None else text for text in cells]

    def written(self, outcomes: Sequence[Outcome]) -> bytes:
        """See `Rows`."""
        file = io.BytesIO()
        parquet.write_table(self.with_outcomes(outcomes), file)
        return file.getvalue()

    def with_outcomes(self, outcomes: Sequence[Outcome]) -> Any:
        """Returns the table with the columns of the outcomes."""
        rows = [
            {"error": outcome.reason} if isinstance(outcome, RowError) else answer_as_json(outcome)
            for outcome in outcomes
        ]
        table = self._table
        for name, kind in self._added.items():
            values = [_plain(row.get(name)) for row in rows]
            table = table.append_column(name, pyarrow.array(values, kind))
        return table


def _is_text(kind: Any) -> bool:
    kind = _decoded_type(kind)
    return bool(pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind))


def _decoded(table: Any) -> Any:
    """A table whose columns have the types that they keep when they are written and read."""
    fields = [field.with_type(_decoded_type(field.type)) for field in table.schema]
    return table.cast(pyarrow.schema(fields, table.schema.metadata))


def _decoded_type(kind: Any) -> Any:
    """The type of the values of a dictionary, as pandas writes categories, or of a view."""
    if pyarrow.types.is_dictionary(kind):
        kind = kind.value_type
    if pyarrow.types.is_string_view(kind):
        return pyarrow.string()
    return pyarrow.binary() if pyarrow.types.is_binary_view(kind) else kind


def _plain(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value


def _opened(file: BinaryIO, name: str) -> parquet.ParquetFile:
    try:
        return parquet.ParquetFile(file)
    except pyarrow.ArrowInvalid as error:
        raise ValueError(f"{name}: not Parquet: {error}") from error


@functools.lru_cache(maxsize=2)
def _group(source: InputFile, index: int) -> Any:
    """A row group, cached because consecutive chunks are in the same one."""
    with source.storage.open(source.name) as opened:
        return parquet.ParquetFile(opened).read_row_group(index, use_threads=_THREADS)


@functools.lru_cache(maxsize=2)
def _group_begins(source: InputFile) -> tuple[int, ...]:
    with source.storage.open(source.name) as opened:
        metadata = parquet.read_metadata(opened)
    begins = [0]
    for index in range(metadata.num_row_groups):
        begins.append(begins[-1] + metadata.row_group(index).num_rows)
    return tuple(begins)


def _group_at(source: InputFile, row: int) -> tuple[int, Any]:
    """The first row of the row group that holds a row, and the group."""
    begins = _group_begins(source)
    index = next(i for i, end in enumerate(begins[1:]) if row < end)
    return begins[index], _group(source, index)
