"""Jobs whose files are joined while another process does the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from dragoman_serving.batch.chunks import errors_name, part_name, parts_folder
from dragoman_serving.batch.corpus import Corpus, Shard
from dragoman_serving.batch.line_rows import LineRowFormat, TextLines
from dragoman_serving.batch.storage import InputFile, LocalStorage


class OvertakenFormat(LineRowFormat):
    """Runs a callback when it has started to join."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        super().__init__(TextLines())
        self._meanwhile = meanwhile

    def join(self, parts: Iterator[bytes], source: InputFile, file: BinaryIO) -> int:
        self._meanwhile()
        return super().join(parts, source, file)


def write_parts(corpus: Corpus, output: LocalStorage) -> None:
    for chunk in corpus.pending():
        folder = parts_folder(chunk.source)
        output.write(f"{folder}/{errors_name(chunk)}", b"%d\n" % chunk.index)
        output.write(f"{folder}/{part_name(chunk, '.txt')}", b"part\n" * chunk.rows)


def test_two_processes_that_join_the_same_file_lose_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("row\n" * 7)
    sources = [InputFile(str(tmp_path), "a.txt")]
    output = LocalStorage(tmp_path / "out")
    first = Corpus(sources, output, LineRowFormat(TextLines()), 3, {})
    late = Corpus(sources, output, OvertakenFormat(first.join), 3, {})
    write_parts(first, output)
    late.join()
    assert (tmp_path / "out/a.txt").read_text() == "part\n" * 7
    assert (tmp_path / "out/a.txt.errors.jsonl").read_text() == "0\n1\n2\n"
    assert output.names("a.txt.parts") == ["a.txt.parts/_index.json"]
    assert not late.pending()


def test_shards_share_the_chunks_of_all_files(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text("row\n" * 7)
    sources = [InputFile(str(tmp_path), f"{name}.txt") for name in "ab"]
    corpus = Corpus(sources, LocalStorage(tmp_path / "out"), LineRowFormat(TextLines()), 3, {})
    shards = [corpus.pending(Shard(index, 4)) for index in range(4)]
    assert [len(shard) for shard in shards] == [2, 2, 1, 1]
    chunks = {(chunk.source.name, chunk.index) for shard in shards for chunk in shard}
    assert len(chunks) == len(corpus.pending()) == 6
    assert corpus.rows == sum(chunk.rows for chunk in corpus.pending()) == 14
