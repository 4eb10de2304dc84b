"""The files of a job: splits them into chunks, resumes earlier runs, and joins the results.

The output folder contains:

- `_batch.json`: the description of the job; another job must not write there.
- `NAME.parts/_index.json`: the digest of an input file, and the positions of its chunks.
- `NAME.parts/00000012.txt`: a finished chunk.
- `NAME.parts/_00000012.errors.jsonl`: its rows without translations, if it has any.
- `NAME`: the joined parts, when all are finished; then the parts are removed. `NAME.errors.jsonl`
  has the errors of all chunks. In an object store, nothing is joined: the parts are the result.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.kernel.errors import DragomanError, UsageError
from dragoman_serving.batch.chunks import (
    ERRORS,
    Chunk,
    FileIndex,
    RowFormat,
    part_name,
    parts_folder,
    read_whole,
)
from dragoman_serving.batch.storage import FileState, InputFile, LocalStorage, Storage

_JOB = "_batch.json"
_INDEX = "_index.json"
_DIGEST_BYTES = 1 << 20


@dataclass(frozen=True)
class Shard:
    """A part of a job: every `of`th chunk, starting at `index`, from 0."""

    index: int = 0
    of: int = 1

    def takes(self, number: int) -> bool:
        """Whether a chunk belongs to the shard, by its index among the chunks of all files."""
        return number % self.of == self.index


@dataclass(frozen=True)
class _File:
    source: InputFile
    index: FileIndex

    @property
    def parts(self) -> str:
        return parts_folder(self.source)


class Corpus:
    """The input and the output of a job."""

    def __init__(
        self,
        sources: Sequence[InputFile],
        output: Storage,
        form: RowFormat,
        chunk_rows: int,
        options: Mapping[str, Any],
    ) -> None:
        """Start a job, or resume it.

        Args:
            sources: files to translate.
            output: storage for the translations.
            form: format of the files.
            chunk_rows: maximum rows of a chunk.
            options: other settings that determine the translations.

        Raises:
            DragomanError: the output belongs to another job, or a file cannot be read.
        """
        self._output, self._form, self._chunk_rows = output, form, chunk_rows
        self._claim({**options, "chunk_rows": chunk_rows})
        self._files = [self._file(source) for source in sources]

    @property
    def rows(self) -> int:
        """Number of rows of all files."""
        return sum(file.index.rows for file in self._files)

    def pending(self, shard: Shard = Shard()) -> list[Chunk]:
        """Returns the unfinished chunks of a shard."""
        unfinished, number = [], 0
        for file in self._files:
            done = self._done(file)
            for chunk in file.index.chunks(file.source):
                if shard.takes(number) and part_name(chunk, self._form.suffix) not in done:
                    unfinished.append(chunk)
                number += 1
        return unfinished

    def join(self) -> None:
        """Join the parts of each complete file, except in object stores.

        Raises:
            DragomanError: the parts do not have the expected number of rows.
        """
        if not isinstance(self._output, LocalStorage):
            return
        for file in self._files:
            names = [
                part_name(chunk, self._form.suffix) for chunk in file.index.chunks(file.source)
            ]
            if not self._is_joined(file) and self._parts_there(file) >= {*names}:
                self._join(file, self._output, names)

    def _join(self, file: _File, output: LocalStorage, names: Sequence[str]) -> None:
        name, paths = file.source.name, [f"{file.parts}/{part}" for part in names]
        try:
            # The process that joins a file removes its error files last. So if some are missing
            # here, all parts are missing too, and nothing is written.
            errors = b"".join(read_whole(output, path) for path in self._errors_there(file))
            with output.writing(name) as joined:
                parts = (read_whole(output, path) for path in paths)
                rows = self._form.join(parts, file.source, joined)
                if rows != file.index.rows:
                    raise DragomanError(
                        f"{file.parts}: the parts have {rows} rows and {name} {file.index.rows}: "
                        "remove the folder and run again"
                    )
                if errors:
                    output.write(f"{name}{ERRORS}", errors)
        except FileNotFoundError:
            if output.state(name) is None:  # else another process has joined the file
                raise
        for path in (*paths, *self._errors_there(file)):
            self._output.remove(path)

    def _errors_there(self, file: _File) -> list[str]:
        return [name for name in self._output.names(file.parts) if name.endswith(ERRORS)]

    def _claim(self, job: Mapping[str, Any]) -> None:
        """Write the description of the job, or check that it is the same."""
        written = json.dumps(job, sort_keys=True, indent=1, ensure_ascii=False).encode()
        if self._output.state(_JOB) is None:
            self._output.write(_JOB, written)
        former, current = json.loads(read_whole(self._output, _JOB)), json.loads(written)
        if other := [name for name in current if current[name] != former.get(name)]:
            raise UsageError(
                f"--output: holds a job with other {', '.join(other)} ({_JOB} has them): name "
                "another folder, or remove this one"
            )

    def _file(self, source: InputFile) -> _File:
        state = source.storage.state(source.name)
        if state is None:
            raise UsageError(f"{source.name}: cannot be read")
        name = f"{parts_folder(source)}/{_INDEX}"
        if self._output.state(name) is None:
            if self._output.state(source.name) is not None:
                raise UsageError(
                    f"--output: {source.name} exists and is not of this job: name another folder"
                )
            self._output.write(name, self._index(source, state).packed)
        index = FileIndex.parse(read_whole(self._output, name))
        if state != index.state and self._index(source, state).sha256 != index.sha256:
            raise UsageError(
                f"{source.name}: has changed since the job began: name another --output"
            )
        return _File(source, index)

    def _index(self, source: InputFile, state: FileState) -> FileIndex:
        """Makes the index of a file, which reads the whole file."""
        try:
            cuts = self._form.cut(source, self._chunk_rows)
        except ValueError as error:
            raise UsageError(str(error)) from error
        digest = hashlib.sha256()
        with source.storage.open(source.name) as file:
            while block := file.read(_DIGEST_BYTES):
                digest.update(block)
        return FileIndex(state.size_bytes, state.modified_ns, digest.hexdigest(), cuts)

    def _parts_there(self, file: _File) -> set[str]:
        return {name.rpartition("/")[2] for name in self._output.names(file.parts)}

    def _is_joined(self, file: _File) -> bool:
        return self._output.state(file.source.name) is not None

    def _done(self, file: _File) -> set[str]:
        """Names of finished parts."""
        if self._is_joined(file):
            return {part_name(chunk, self._form.suffix) for chunk in file.index.chunks(file.source)}
        return self._parts_there(file)
