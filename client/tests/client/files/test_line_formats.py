"""Formats of lines before and after translation: plain text, JSON objects, columns."""

import json
from pathlib import Path

import pytest
from dragoman_client import (
    JsonLines,
    PlainLines,
    PlainLinesToJson,
    TabColumns,
    Translation,
)
from dragoman_client.files.line_formats import LineFormat
from stand_ins import translate_file

ANSWER = Translation("zwei\nZeilen\tund", 3, "stop")


@pytest.mark.parametrize(
    ("form", "line", "text", "written"),
    [
        (PlainLines(), "a b", "a b", "zwei Zeilen\tund"),
        (TabColumns(), "a\tb", "a", "a\tb\tzwei Zeilen und"),
        (TabColumns(2), "a\tb", "b", "a\tb\tzwei Zeilen und"),
        (TabColumns(3), "", "", "\tzwei Zeilen und"),
    ],
)
def test_lines_and_columns(form: LineFormat, line: str, text: str, written: str) -> None:
    """A translation with line feeds or tabs stays in its line and column."""
    assert form.read(line) == text
    assert form.write(line, ANSWER) == written


def test_objects_keep_their_other_fields() -> None:
    line = '{"id": 7, "text": "Grüße", "more": [1]}'
    form = JsonLines()
    assert form.read(line) == "Grüße"
    assert json.loads(form.write(line, ANSWER)) == {
        "id": 7,
        "text": "Grüße",
        "more": [1],
        "translation": "zwei\nZeilen\tund",
        "output_tokens": 3,
        "finish_reason": "stop",
    }
    assert "\n" not in form.write(line, ANSWER)
    assert JsonLines("body").read('{"body": "b"}') == "b"
    assert form.read(" ") == ""
    row = json.loads(PlainLinesToJson().write("a", ANSWER))
    assert (row["source"], row["translation"]) == ("a", ANSWER.text)


@pytest.mark.parametrize(
    ("form", "line", "message"),
    [
        (JsonLines(), "{", "not JSON"),
        (JsonLines(), "[" * 100_000, "not JSON"),
        (JsonLines(), "[]", "not a JSON object"),
        (JsonLines(), '{"text": 5}', "no text under 'text'"),
        (JsonLines("body"), '{"text": "a"}', "no text under 'body'"),
        (TabColumns(2), "a", "there is no column 2"),
    ],
)
def test_a_line_of_another_format_is_refused(
    form: LineFormat, line: str, message: str, tmp_path: Path
) -> None:
    """The error names the file and the line."""
    with pytest.raises(ValueError, match=message):
        form.read(line)
    source = tmp_path / "source"
    source.write_text(f"{form.write('', ANSWER)}\n{line}\n")
    with pytest.raises(ValueError, match=r"source, line 2: "):
        translate_file(source, tmp_path / "target", form=form)
    with pytest.raises(ValueError, match="counted from 1"):
        TabColumns(0)
