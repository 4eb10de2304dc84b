"""Parquet files, split by row groups and joined."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from dragoman_options.table import Translation
from dragoman_serving.batch.chunks import FileIndex, RowError
from dragoman_serving.batch.parquet_rows import ParquetRowFormat
from dragoman_serving.batch.storage import InputFile
from pyarrow import parquet

TEXTS = [None, *map(str, range(1, 25))]


@pytest.fixture
def source(tmp_path: Path) -> InputFile:
    table = pyarrow.table({"id": range(25), "text": TEXTS})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=10)
    return InputFile(str(tmp_path), "a.parquet")


def outcome(text: str) -> Translation | RowError:
    if text == "7":
        return RowError("no")
    return Translation(f"<{text}>", 2, "stop", score=-1.0, warnings=("short",))


def test_rows_get_columns_and_stay_in_order(source: InputFile) -> None:
    form = ParquetRowFormat("text", {"return_scores": True})
    index = FileIndex(0, 0, "", form.cut(source, 4))
    assert [rows for _, _, rows in index.cuts] == [4, 4, 2, 4, 4, 2, 4, 1]
    parts = []
    for chunk in index.chunks(source):
        rows = form.read(chunk)
        parts.append(rows.written([outcome(str(text)) for text in rows.texts]))
        assert form.count(parts[-1]) == chunk.rows
    joined = io.BytesIO()
    assert form.join(iter(parts), source, joined) == index.rows == 25
    table = parquet.read_table(io.BytesIO(joined.getvalue()))
    assert table.column("id").to_pylist() == list(range(25))
    assert table.column("text").to_pylist() == TEXTS
    expected = [None if text == "7" else f"<{text or ''}>" for text in TEXTS]
    assert table.column("translation").to_pylist() == expected
    assert [text for text in table.column("error").to_pylist() if text] == ["no"]
    first: dict[str, Any] = table.to_pylist()[1]
    assert first["score"] == -1.0
    assert first["warnings"] == '["short"]'
    assert "confidence" not in first


@pytest.mark.parametrize(
    "kind",
    [
        pyarrow.large_string(),
        pyarrow.string_view(),
        pyarrow.dictionary(pyarrow.int8(), pyarrow.string()),
        pyarrow.dictionary(pyarrow.int32(), pyarrow.large_string()),
    ],
    ids=str,
)
def test_every_type_of_text_is_read(tmp_path: Path, kind: Any) -> None:
    texts = pyarrow.array(["b", "a", None, "b"]).cast(kind)
    parquet.write_table(pyarrow.table({"text": texts}), tmp_path / "a.parquet", row_group_size=3)
    source, form = InputFile(str(tmp_path), "a.parquet"), ParquetRowFormat("text", {})
    chunks = FileIndex(0, 0, "", form.cut(source, 2)).chunks(source)
    rows = [form.read(chunk) for chunk in chunks]
    assert [text for chunk in rows for text in chunk.texts] == ["b", "a", "", "b"]
    parts = [chunk.written([Translation("x", 1, "stop")] * len(chunk.texts)) for chunk in rows]
    joined = io.BytesIO()
    assert form.join(iter(parts), source, joined) == 4
    table = parquet.read_table(io.BytesIO(joined.getvalue()))
    assert table.column("text").to_pylist() == ["b", "a", None, "b"]
    assert table.column("translation").to_pylist() == ["x"] * 4


def test_a_file_without_rows_gets_the_columns_too(tmp_path: Path) -> None:
    parquet.write_table(pyarrow.table({"text": pyarrow.array([], "string")}), tmp_path / "a")
    source = InputFile(str(tmp_path), "a")
    form = ParquetRowFormat("text", {})
    assert not form.cut(source, 10)
    joined = io.BytesIO()
    assert form.join(iter(()), source, joined) == 0
    assert "translation" in parquet.read_schema(io.BytesIO(joined.getvalue())).names


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"words": ["a"]}, "there is no column 'text'; there are words"),
        ({"text": [1]}, "the column 'text' is of int64: name one of text"),
        ({"text": ["a"], "error": ["b"]}, "has a column 'error' already: rename it"),
    ],
)
def test_columns_that_do_not_fit_are_named(
    tmp_path: Path, columns: dict[str, list[Any]], message: str
) -> None:
    parquet.write_table(pyarrow.table(columns), tmp_path / "a")
    with pytest.raises(ValueError, match=message):
        ParquetRowFormat("text", {}).cut(InputFile(str(tmp_path), "a"), 10)


def test_files_that_are_not_parquet_are_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("text")
    with pytest.raises(ValueError, match="a: not Parquet"):
        ParquetRowFormat("text", {}).cut(InputFile(str(tmp_path), "a"), 10)
