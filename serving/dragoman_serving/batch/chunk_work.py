"""The work on one chunk, the same in a local process, a shard and a Ray actor."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dragoman_client import Translator

from dragoman.kernel.errors import DragomanError
from dragoman_serving.batch.chunks import (
    Chunk,
    Outcome,
    RowError,
    RowFormat,
    errors_name,
    part_name,
    parts_folder,
)
from dragoman_serving.batch.engine_transport import EngineTransport
from dragoman_serving.batch.line_rows import JsonRows, LineRowFormat, TabRows, TextLines
from dragoman_serving.batch.row_translation import RowTranslation
from dragoman_serving.batch.storage import open_storage
from dragoman_serving.batch.tally import Tally
from dragoman_serving.service.models_to_serve import ModelsToServe

FormatName = Literal["text", "jsonl", "tsv", "parquet"]

_ENGINE_TIMEOUT_S = 600.0
"""Timeout of a request to an engine that this process started."""


@dataclass(frozen=True)
class Format:
    """The format of the files of a job.

    Attributes:
        name: name of the format.
        field: the member or column with the text, for JSON and Parquet.
        column: number of the column with the text, from 1, for TSV.
    """

    name: FormatName
    field: str
    column: int

    def open(self, options: Mapping[str, Any]) -> RowFormat:
        """Returns the reader and writer of the format.

        Raises:
            ValueError: the column is below 1.
        """
        if self.name == "parquet":
            from dragoman_serving.batch.parquet_rows import ParquetRowFormat

            return ParquetRowFormat(self.field, options)
        if self.name == "jsonl":
            return LineRowFormat(JsonRows(self.field))
        return LineRowFormat(TabRows(self.column) if self.name == "tsv" else TextLines())


@dataclass(frozen=True)
class OwnEngine:
    """An engine process that is started for the job.

    Attributes:
        to_serve: its bundles.
        workers: its threads; None: one per core, up to the engine's maximum.
    """

    to_serve: ModelsToServe
    workers: int | None

    def open(self) -> Translator:
        """Returns a client of the engine."""
        parameters = {"deadline_s": f"{_ENGINE_TIMEOUT_S:.0f}"}
        if self.workers is not None:
            parameters["workers"] = str(self.workers)
        transport = EngineTransport(self.to_serve, parameters)
        return Translator(transport=transport, timeout_s=_ENGINE_TIMEOUT_S, retries=0)


@dataclass(frozen=True)
class RunningServer:
    """A running server: the arguments of `Translator`."""

    arguments: Mapping[str, Any]

    def open(self) -> Translator:
        """Returns a client of the server."""
        return Translator(**self.arguments)


@dataclass(frozen=True)
class WorkOrder:
    """All information for the work on chunks, so that another machine can do it.

    Attributes:
        output: folder or URI of the output.
        form: format of the files.
        way: engine or server that translates.
        options: checked options of all requests.
        batch_size: rows per request.
    """

    output: str
    form: Format
    way: OwnEngine | RunningServer
    options: Mapping[str, Any]
    batch_size: int


class ChunkWork:
    """Translates chunks; several threads may use it at the same time."""

    def __init__(self, order: WorkOrder) -> None:
        """Open files and the client; an engine starts with the first chunk."""
        self._form = order.form.open(order.options)
        self._output = open_storage(order.output)
        self.translator = order.way.open()
        self._rows = RowTranslation(self.translator, order.options, order.batch_size)

    def warm_up(self) -> None:
        """Start the engine before measurements.

        Raises:
            DragomanError: the engine does not start.
            TranslationError: the server does not answer, or refuses the options.
        """
        self._rows.check_control()

    def do(self, chunk: Chunk) -> Tally:
        """Translate a chunk and write its part; an existing part marks the chunk as done.

        Raises:
            DragomanError: the file has changed.
            OSError: a file cannot be read or written.
            TranslationError: nothing can be translated.
        """
        rows = self._form.read(chunk)
        outcomes = self._translate(rows.texts)
        written = rows.written(outcomes)
        for count in (len(outcomes), self._form.count(written)):
            if count != chunk.rows:
                raise DragomanError(
                    f"{chunk.source.name}, chunk {chunk.index}: {count} rows instead of "
                    f"{chunk.rows}: has the file changed?"
                )
        if errors := _errors(chunk, outcomes):
            self._output.write(f"{parts_folder(chunk.source)}/{errors_name(chunk)}", errors)
        self._output.write(self._part(chunk), written)
        return Tally.of(rows.texts, outcomes)

    def is_done(self, chunk: Chunk) -> bool:
        """Whether the part of a chunk exists."""
        return self._output.state(self._part(chunk)) is not None

    def sample(self, chunk: Chunk, most_rows: int) -> Tally:
        """Translate the first rows of a chunk, without writing them.

        Raises:
            DragomanError: as in `do`; OSError and TranslationError likewise.
        """
        texts = self._form.read(chunk).texts[:most_rows]
        return Tally.of(texts, self._translate(texts))

    def close(self) -> None:
        """Stop the engine, or close the connection to the server."""
        self.translator.close()

    def _part(self, chunk: Chunk) -> str:
        return f"{parts_folder(chunk.source)}/{part_name(chunk, self._form.suffix)}"

    def _translate(self, texts: Sequence[str | RowError]) -> list[Outcome]:
        """The outcome of each row."""
        outcomes = iter(self._rows.translate([text for text in texts if isinstance(text, str)]))
        return [text if isinstance(text, RowError) else next(outcomes) for text in texts]


def _errors(chunk: Chunk, outcomes: Sequence[Outcome]) -> bytes:
    """The rows without translations as lines of JSON, with row numbers from 1."""
    errors = [
        {"row": number, "error": outcome.reason}
        for number, outcome in enumerate(outcomes, start=chunk.first_row + 1)
        if isinstance(outcome, RowError)
    ]
    return "".join(f"{json.dumps(error, ensure_ascii=False)}\n" for error in errors).encode()
