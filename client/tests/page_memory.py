"""Translates a long document that is generated while it is read, and prints JSON: `KIND BYTES`.

Prints by how many KiB memory grew, and how many bytes were read before the first bytes were
written. Runs in a separate process, because peak memory is measured per process.
"""

from __future__ import annotations

import io
import itertools
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from dragoman_client.files.document_translation import parts_of, translate_parts
from dragoman_client.files.file_formats import Reading, open_reader
from dragoman_client.files.file_report import FileReport
from dragoman_options.markup import Markup, PlacedCodes
from dragoman_options.table import Translation

_PARTS = {
    "html": (
        b"<!DOCTYPE html><title>T</title>",
        b"<p>See <a href=x title='The manual'>the <b>manual</b></a>, page 7.<br>Or don't.</p>\n"
        b"<pre>" + b"A longer text. " * 200 + b"</pre><script>if (a < b) f()</script>",
        b"",
    ),
    "script": (b"<p>Text<script>", b"if (a < b) document.write('<b>no</b>')\n" * 10, b""),
    "xml": (
        b"<article>",
        b"<para>See <link linkend='a'>the manual</link> now.</para>\n"
        b"<screen>" + b"A longer text. " * 200 + b"</screen>",
        b"</article>",
    ),
}
"""The beginning, the repeated part and the end of each document."""


class _Document(io.RawIOBase):
    """A file whose content is generated as it is read."""

    def __init__(self, kind: str, size: int) -> None:
        begin, part, end = _PARTS[kind]
        self._parts = itertools.chain([begin], itertools.repeat(part, size // len(part)), [end])
        self.bytes_read = 0

    def read(self, size: int = -1, /) -> bytes:
        content = b""
        while len(content) < size and (part := next(self._parts, None)) is not None:
            content += part
        self.bytes_read += len(content)
        return content


def _translate(texts: Sequence[str], markup: Sequence[Markup]) -> Iterator[Translation]:
    for text, text_markup in zip(texts, markup, strict=True):
        codes = PlacedCodes(tuple((code.begin, code.end) for code in text_markup.codes))
        yield Translation(text.upper(), 1, "stop", codes=codes)


def peak_kib() -> int:
    """The most memory of this process; `ru_maxrss` begins with that of the parent."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.findall(r"VmHWM:\s*(\d+) kB", status)[0])


def main(kind: str, size: int) -> None:
    """Translate a generated document, and print the measurements."""
    document = _Document(kind, size)
    parts = parts_of(open_reader("html" if kind != "xml" else "xml", Reading()), document, "a page")
    before_kib = peak_kib()
    read_before_first = written = 0
    contents = translate_parts(parts, lambda *given: list(_translate(*given)), report=FileReport())
    for content in contents:
        read_before_first = read_before_first or document.bytes_read
        written += len(content)
    measured = {
        "grown_kib": peak_kib() - before_kib,
        "read": document.bytes_read,
        "written": written,
    }
    print(json.dumps({**measured, "read_before_first": read_before_first}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
