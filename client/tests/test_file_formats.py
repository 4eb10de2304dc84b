"""Detection of the format of files, and refusal of unsuitable files."""

from __future__ import annotations

import codecs
import io
from pathlib import Path

import pytest
from dragoman_client.document_translation import format_of, open_reader, parts_of
from dragoman_client.file_translation import read_lines
from dragoman_client.line_formats import PlainLines


@pytest.mark.parametrize(
    ("name", "begin", "wanted"),
    [
        ("a.HTM", b"", "html"),
        ("a.xhtml", b"<html>", "xml"),
        ("a.svg", b"", "xml"),
        ("a.xlf", b"", "xliff"),
        ("a", b"<!DOCTYPE html><p>", "html"),
        ("a", codecs.BOM_UTF8 + b"\n <HTML lang=en>", "html"),
        ("a", b"<!-- a\ncomment --> <body>", "html"),
        ("a.txt", b"<p>Hello", "html"),
        ("a", b"<p:x xmlns:p='u'>", None),
        ("a", b"<para>", None),
        ("a", b"<3 you", None),
        ("a", codecs.BOM_UTF8 + b'<?xml version="1.0"?><a/>', "xml"),
        ("a", b'<?xml version="1.0"?>\n<xliff version="2.0">', "xliff"),
        ("a", b'<xliff version="2.0">', "xliff"),
        ("a.md", b"# Title\n<b>bold</b>", None),
        ("a.txt", b"", None),
    ],
)
def test_a_format_is_detected_by_name_or_content(
    name: str, begin: bytes, wanted: str | None
) -> None:
    assert format_of(name, begin) == wanted


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK\x03\x04...", "a.b is a ZIP archive, as DOCX, ODT and EPUB are: save its content"),
        (b"%PDF-1.7\n%\xe2\xe3", "a.b is a PDF: save"),
        (b"<p>\0\0\1", "a.b is not text: it has bytes of 0"),
        (b"<p>caf\xe9.</p>", r"a.b, 'caf.\.' is not valid in utf-8: name the encoding"),
    ],
)
def test_files_that_are_not_html_are_refused(content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        list(parts_of(open_reader("html", {}), io.BytesIO(content), "a.b"))


def test_invalid_bytes_outside_texts_are_accepted() -> None:
    for page in (b"<p>ok</p><!-- \xe9 --><script>\xe9</script>", "<p>ok \ufffd".encode()):
        assert list(parts_of(open_reader("html", {}), io.BytesIO(page), "a.b"))
    page = codecs.BOM_UTF16_LE + "<p>ok".encode("utf-16-le")
    assert list(parts_of(open_reader("html", {}), io.BytesIO(page), "a.b"))


def test_errors_name_the_file() -> None:
    with pytest.raises(ValueError, match=r"^a\.b, line 1, column 9: mismatched tag"):
        list(parts_of(open_reader("xml", {}), io.BytesIO(b"<a><b></a>"), "a.b"))


def test_lines_are_not_read_from_binary_files(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"%PDF-1.7\n")
    with pytest.raises(ValueError, match="is a PDF"):
        list(read_lines(path, PlainLines()))
    path.write_bytes(b"%PDF is a format.\n")
    assert [line.text for line in read_lines(path, PlainLines())] == ["%PDF is a format."]
