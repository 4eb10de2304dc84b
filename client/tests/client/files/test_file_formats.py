"""Files that are not running text, by name and by content."""

from __future__ import annotations

from typing import get_args

import pytest
from dragoman_client.files import file_formats

CONTENTS = {
    "SubRip subtitles": b"1\r\n00:00:01,000 --> 00:00:04,000\r\nHello, how are you?\r\n",
    "WebVTT subtitles": b"WEBVTT\n\n00:01.000 --> 00:04.000\nHello.\n",
    "SubStation Alpha subtitles": b"[Script Info]\nTitle: A film\n",
    "gettext PO": b'# German\n#: a.c:1\nmsgid "Open the door"\nmsgstr ""\n',
    "JSON": b'{\n  "title": "Open the door"\n}\n',
    "YAML": b"---\ntitle: Open the door\n",
    "Apple strings": b'/* A door */\n"open" = "Open the door";\n',
    "LaTeX": b"% A letter\n\\documentclass{letter}\n",
    "an Apple property list": b'<?xml version="1.0"?>\n<!DOCTYPE plist PUBLIC "a" "b">\n<plist/>',
    "a flat OpenDocument file": b'<?xml version="1.0"?>\n<office:document xmlns:office="a"/>',
    "INI": b"[door]\nopen = yes\n",
}
RUNNING_TEXTS = (
    b"",
    b"Hello, how are you?\n",
    b"1\nThe first chapter\n",
    b"00:00:01 is a time.\n",
    b'{name}, you have [1] message: "Hello".\n',
    b"[Note] A door = a hole.\n",
    b"[1] is a footnote.\n",
    b"- one\n- two\n",
    b"---\nA scene begins.\n",
    b'"Open the door," he said.\n',
    b"# Kapitel\nText mit msgid.\n",
    "Öffne die Tür.\n".encode(),
)


@pytest.mark.parametrize(("kind", "content"), CONTENTS.items(), ids=list(CONTENTS))
@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("name", ["a", "a.txt", "standard input"])
def test_a_format_is_recognized_by_its_beginning(
    kind: str, content: bytes, before: bytes, name: str
) -> None:
    with pytest.raises(ValueError, match=f"^{name} is {kind}, and may be damaged"):
        file_formats.check_running_text(name, before + content)


@pytest.mark.parametrize(
    "content",
    [b'[{"text": "Hello"}]', b'["Hello", "you"]', b'{"a": {"b": 1}}', b'  [\n  {"id": 1}]'],
)
def test_json_has_several_beginnings(content: bytes) -> None:
    known = file_formats.format_of("a", content)
    assert known is not None
    assert known.title == "JSON"


@pytest.mark.parametrize("content", RUNNING_TEXTS)
@pytest.mark.parametrize("name", ["a", "a.txt", "A.TXT"])
def test_running_text_is_not_refused(name: str, content: bytes) -> None:
    file_formats.check_running_text(name, content)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.srt", "SubRip subtitles"),
        ("a.PO", "gettext PO"),
        ("a.b.json", "JSON"),
        ("a.md", "Markdown"),
        ("a.csv", "CSV"),
        ("a.properties", "Java properties"),
        ("a.yml", "YAML"),
        ("a.xyz", "a file of the unknown format '.xyz'"),
    ],
)
def test_a_format_is_recognized_by_its_name(name: str, kind: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} is {kind}, and may be damaged"):
        file_formats.check_running_text(name, b"Hello.\n")


def test_programs_in_typescript_are_no_files_of_qt() -> None:
    known = file_formats.format_of("a.ts", b"\n<!DOCTYPE TS><TS/>")
    assert known is file_formats.READABLE["xml"] is file_formats.format_of("a.ts")
    with pytest.raises(ValueError, match=r"unknown format '\.ts'"):
        file_formats.check_running_text("a.ts", b"import {a} from 'b';\n")


@pytest.mark.parametrize(
    ("content", "message"), [(b"PK\x03\x04", "a is a ZIP archive"), (b"a\0b", "bytes of 0")]
)
def test_binary_files_are_refused(content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        file_formats.check_running_text("a", content)


def test_each_name_of_a_format_has_one_entry_that_reads_it() -> None:
    assert list(file_formats.READABLE) == list(get_args(file_formats.FormatName))
    for name in file_formats.READABLE:
        assert not file_formats.open_reader(name, file_formats.Reading("en", "de", ("a",))).warnings
    with pytest.raises(ValueError, match=r"^format 'pdf' is not known: give html, "):
        file_formats.open_reader("pdf", file_formats.Reading())


def test_each_extension_belongs_to_one_format() -> None:
    endings = [ending for known in file_formats.FORMATS for ending in known.endings]
    assert len(endings) == len(set(endings))
    assert all(ending == ending.lower() and ending.startswith(".") for ending in endings)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_the_first_bytes_are_read_in_the_encoding_that_their_mark_names(encoding: str) -> None:
    known = file_formats.format_of(
        "a", "WEBVTT\n\n00:01.000 --> 00:04.000\nHello.\n".encode(encoding)
    )
    assert known is not None
    assert known.title == "WebVTT subtitles"


@pytest.mark.parametrize(
    ("name", "program"), [("a.rst", "sphinx-build"), ("a.ass", "ffmpeg"), ("a.tex", "po4a")]
)
def test_a_refusal_names_what_to_do_instead(name: str, program: str) -> None:
    with pytest.raises(ValueError, match=f"may be damaged as running text: .*{program}"):
        file_formats.check_running_text(name, b"Hello")
