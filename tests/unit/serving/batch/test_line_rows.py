"""Files of lines: how chunks are split, and rows with and without translations."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from pathlib import Path

import pytest
from dragoman_options.table import Translation
from dragoman_serving.batch.chunks import Chunk, FileIndex, RowError
from dragoman_serving.batch.line_rows import JsonRows, LineRowFormat, Lines, TabRows, TextLines
from dragoman_serving.batch.storage import InputFile
from hypothesis import given
from hypothesis import strategies as st

LINES = st.lists(st.sampled_from(["", "a", "b c", "\r", "ü" * 30]), max_size=30)


def chunks_of(source: InputFile, form: LineRowFormat, most_rows: int) -> list[Chunk]:
    index = FileIndex(0, 0, "", tuple(form.cut(source, most_rows)))
    assert FileIndex.parse(index.packed) == index
    return list(index.chunks(source))


@given(LINES, st.integers(1, 7), st.booleans())
def test_chunks_contain_every_line_once(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], most_rows: int, has_end: bool
) -> None:
    path = tmp_path_factory.mktemp("lines") / "a.txt"
    content = "".join(f"{line}\n" for line in lines) + ("" if has_end else "end")
    path.write_bytes(content.encode())
    form = LineRowFormat(TextLines())
    chunks = chunks_of(InputFile(str(path.parent), path.name), form, most_rows)
    texts: list[str | RowError] = []
    for chunk in chunks:
        assert chunk.first_row == len(texts)
        rows = form.read(chunk)
        assert len(rows.texts) == chunk.rows <= most_rows
        texts += rows.texts
    expected = [line.rstrip("\r") for line in lines] + ([] if has_end else ["end"])
    assert texts == expected


def test_lines_may_span_the_blocks_that_are_read(tmp_path: Path) -> None:
    lines = [str(number) * 40 for number in range(20_000)]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    form = LineRowFormat(TextLines())
    chunks = chunks_of(InputFile(str(tmp_path), "a.txt"), form, 1000)
    assert [chunk.rows for chunk in chunks] == [1000] * 20
    assert [text for chunk in chunks for text in form.read(chunk).texts] == lines


@pytest.mark.parametrize(
    ("lines", "content", "written"),
    [
        (TextLines(), b"a\n\xff\n", b"A\n\n"),
        (
            TabRows(2),
            b"1\ta\n2\n3\t\xff\n",
            b"1\ta\tA\t\n2\t\t1 columns: there is no column 2\n"
            b"3\t\xff\t\tnot valid UTF-8: convert the input, for example with iconv\n",
        ),
    ],
)
def test_rows_without_translations_are_not_dropped(
    tmp_path: Path, lines: Lines, content: bytes, written: bytes
) -> None:
    (tmp_path / "a").write_bytes(content)
    form = LineRowFormat(lines)
    (chunk,) = chunks_of(InputFile(str(tmp_path), "a"), form, 9)
    rows = form.read(chunk)
    outcomes = [
        text if isinstance(text, RowError) else Translation(text.upper(), 1, "stop")
        for text in rows.texts
    ]
    assert rows.written(outcomes) == written
    assert form.count(written) == chunk.rows


def test_objects_without_translations_have_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b'{"id": 1, "text": "a"}\n{"id": 2}\nno\xff\n')
    form = LineRowFormat(JsonRows("text"))
    (chunk,) = chunks_of(InputFile(str(tmp_path), "a"), form, 9)
    rows = form.read(chunk)
    assert isinstance(rows.texts[0], str)
    bad = [text for text in rows.texts if isinstance(text, RowError)]
    records = [json.loads(line) for line in rows.written([RowError("no"), *bad]).splitlines()]
    assert records == [
        {"id": 1, "text": "a", "error": "no"},
        {"id": 2, "error": "no text under 'text'"},
        {"line": "no\ufffd", "error": "not valid UTF-8: convert the input, for example with iconv"},
    ]


@pytest.mark.parametrize(
    ("program", "content"),
    [
        ("gzip", gzip.compress(b"text", mtime=0)),
        ("xz", lzma.compress(b"text")),
        ("bzip2", bz2.compress(b"text")),
        ("zstd", b"\x28\xb5\x2f\xfd\x20\x04"),
    ],
)
def test_compressed_files_are_refused(tmp_path: Path, program: str, content: bytes) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(ValueError, match=rf"a\.txt is compressed by {program}: decompress"):
        LineRowFormat(TextLines()).cut(InputFile(str(tmp_path), "a.txt"), 10)
