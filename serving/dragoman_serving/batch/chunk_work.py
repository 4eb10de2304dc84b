"""The work on one chunk, which the loop of a process, a shard and an actor of Ray do alike."""

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
"""Of a request to an engine that this process started, which has nothing else to do."""


@dataclass(frozen=True)
class Format:
    """The format of the files of a job.

    Attributes:
        name: of the format.
        field: the member or column that holds the text, of JSON and Parquet.
        column: its number in columns between tabs, from 1.
    """

    name: FormatName
    field: str
    column: int

    def open(self, options: Mapping[str, Any]) -> RowFormat:
        """What reads and writes it.

        Raises:
            ValueError: a column before the first.
        """
        if self.name == "parquet":
            from dragoman_serving.batch.parquet_rows import ParquetRowFormat

            return ParquetRowFormat(self.field, options)
        if self.name == "jsonl":
            return LineRowFormat(JsonRows(self.field))
        return LineRowFormat(TabRows(self.column) if self.name == "tsv" else TextLines())


@dataclass(frozen=True)
class OwnEngine:
    """An engine's process of our own.

    Attributes:
        to_serve: its bundles.
        workers: its threads; None: as many as there are cores, up to the engine's most.
    """

    to_serve: ModelsToServe
    workers: int | None

    def open(self) -> Translator:
        """A client of it."""
        parameters = {"deadline_s": f"{_ENGINE_TIMEOUT_S:.0f}"}
        if self.workers is not None:
            parameters["workers"] = str(self.workers)
        transport = EngineTransport(self.to_serve, parameters)
        return Translator(transport=transport, timeout_s=_ENGINE_TIMEOUT_S, retries=0)


@dataclass(frozen=True)
class RunningServer:
    """A server that runs elsewhere: the arguments of `Translator`."""

    arguments: Mapping[str, Any]

    def open(self) -> Translator:
        """A client of it."""
        return Translator(**self.arguments)


@dataclass(frozen=True)
class WorkOrder:
    """All that the work on a chunk needs, so that another machine can do it.

    Attributes:
        output: folder or URI of the output.
        form: of the files.
        way: what translates.
        options: of all requests, checked.
        batch_size: rows in a request.
    """

    output: str
    form: Format
    way: OwnEngine | RunningServer
    options: Mapping[str, Any]
    batch_size: int


class ChunkWork:
    """Does chunks, several at once if there are as many threads."""

    def __init__(self, order: WorkOrder) -> None:
        """Open what the work needs; an engine starts with the first chunk."""
        self._form = order.form.open(order.options)
        self._output = open_storage(order.output)
        self.translator = order.way.open()
        self._rows = RowTranslation(self.translator, order.options, order.batch_size)

    def warm_up(self) -> None:
        """Start the engine; over before anything is measured.

        Raises:
            DragomanError: it does not start.
            TranslationError: the server does not answer, or refuses the options.
        """
        self._rows.check_control()

    def do(self, chunk: Chunk) -> Tally:
        """Translate a chunk and write its part, whose name is the mark that it is done.

        Raises:
            DragomanError: the file is not what it was.
            OSError: something cannot be read or written.
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
        """Whether the part of a chunk is there."""
        return self._output.state(self._part(chunk)) is not None

    def sample(self, chunk: Chunk, most_rows: int) -> Tally:
        """Translate the first rows of a chunk, and keep nothing.

        Raises:
            DragomanError: as `do`; OSError and TranslationError likewise.
        """
        texts = self._form.read(chunk).texts[:most_rows]
        return Tally.of(texts, self._translate(texts))

    def close(self) -> None:
        """Let go of the engine, or of the server."""
        self.translator.close()

    def _part(self, chunk: Chunk) -> str:
        return f"{parts_folder(chunk.source)}/{part_name(chunk, self._form.suffix)}"

    def _translate(self, texts: Sequence[str | RowError]) -> list[Outcome]:
        """What comes of each row."""
        found = iter(self._rows.translate([text for text in texts if isinstance(text, str)]))
        return [text if isinstance(text, RowError) else next(found) for text in texts]


def _errors(chunk: Chunk, outcomes: Sequence[Outcome]) -> bytes:
    """The rows without translations, counted from 1 in their file, as lines of JSON."""
    found = [
        {"row": number, "error": outcome.reason}
        for number, outcome in enumerate(outcomes, start=chunk.first_row + 1)
        if isinstance(outcome, RowError)
    ]
    return "".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in found).encode()
