"""The tables of formats in docs/documents.md, compared with the code's table."""

from __future__ import annotations

import re

from dragoman_client.files.file_formats import FORMATS, READABLE

from tests.conftest import REPOSITORY


def _rows(head: str) -> list[list[str]]:
    """The cells of each row of the table with a heading."""
    page = (REPOSITORY / "docs" / "documents.md").read_text("utf-8")
    table = page.partition(f"\n{head}")[2].partition("\n\n")[0]
    lines = table.splitlines()[2:]
    return [[cell.strip() for cell in re.findall(r"[^|]+", line)] for line in lines]


def test_the_documentation_lists_all_formats_with_their_extensions() -> None:
    rows = _rows("| `--format` | files |")
    assert [(row[0], re.findall(r"`([^`]+)`", row[2])) for row in rows] == [
        (f"`{name}`", list(known.endings)) for name, known in READABLE.items()
    ]


def test_the_documentation_lists_what_is_refused() -> None:
    refused = [kind for kind in FORMATS if kind.endings and kind not in READABLE.values()]
    assert [(row[0], re.findall(r"`([^`]+)`", row[1])) for row in _rows("| refused |")] == [
        (kind.title, list(kind.endings)) for kind in refused
    ]
