"""Translates a generated package: `docx PARAGRAPHS PICTURE_BYTES`, or `epub PAGES`; prints JSON.

Prints the sizes of the package and of its largest text, and the process's peak memory before and
after. Runs in a separate process, because peak memory is measured per process.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import BinaryIO

from dragoman_client.core.request import Translation
from dragoman_client.files.document_translation import translate_document
from dragoman_client.files.file_formats import Reading, open_reader
from dragoman_client.files.file_report import FileReport
from dragoman_options.markup import Markup, PlacedCodes
from office_documents import docx, members, run
from page_memory import peak_kib

_WORDS = [
    *("the", "a", "of", "and", "in", "to", "book", "house", "water"),
    *("light", "number", "small", "green", "river", "under", "found"),
]
_PARAGRAPHS_OF_A_PAGE = 12
"""About 2,000 characters."""


def _sentence(random: Random) -> str:
    return " ".join(f"{random.choice(_WORDS)}{random.randint(0, 99)}" for _ in range(10)) + ". "


def _write_docx(file: BinaryIO, paragraphs: int, picture_bytes: int) -> None:
    random = Random(1)
    begin, end = members(docx("|"))["word/document.xml"].split(b"|")
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", members(docx(""))["[Content_Types].xml"])
        with archive.open("word/document.xml", "w") as document:
            document.write(begin)
            for _ in range(paragraphs):
                looks = ["", "", "<w:b/>", ""]
                runs = [run(_sentence(random), f'{look}<w:lang w:val="en-US"/>') for look in looks]
                document.write(f"<w:p>{''.join(runs)}</w:p>".encode())
            document.write(end)
        with archive.open("word/media/image1.png", "w") as picture:
            for _ in range(picture_bytes >> 16):
                picture.write(random.randbytes(1 << 16))


def _write_epub(file: BinaryIO, pages: int) -> None:
    random = Random(1)
    item = '<item href="%d.xhtml" media-type="application/xhtml+xml"/>'
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/epub+zip", zipfile.ZIP_STORED)
        archive.writestr("META-INF/container.xml", '<c><rootfile full-path="a.opf"/></c>')
        archive.writestr(
            "a.opf", f"<package>{''.join(item % page for page in range(pages))}</package>"
        )
        for page in range(pages):
            texts = (f"{_sentence(random)}<em>now</em>" for _ in range(_PARAGRAPHS_OF_A_PAGE))
            body = "".join(f"<p>{text}</p>" for text in texts)
            archive.writestr(f"{page}.xhtml", f"<html><body>{body}</body></html>")


def _translate(texts: Sequence[str], markup: Sequence[Markup]) -> list[Translation]:
    return [
        Translation(
            text.upper(),
            1,
            "stop",
            codes=PlacedCodes(tuple((a, b) for a, b, _ in text_markup.codes)),
        )
        for text, text_markup in zip(texts, markup, strict=True)
    ]


def main(kind: str, *sizes: int) -> None:
    """Translate a generated package, and print the measurements."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / f"a.{kind}"
        with source.open("wb") as file:
            if kind == "docx":
                _write_docx(file, *sizes)
            else:
                _write_epub(file, *sizes)
        with zipfile.ZipFile(source) as archive:
            text_bytes = max(
                member.file_size for member in archive.infolist() if member.filename.endswith("ml")
            )
        before, begin_s = peak_kib() >> 10, time.process_time()
        texts = translate_document(
            source,
            source.with_name(f"b.{kind}"),
            partial(open_reader, kind, Reading("en", "de")),
            _translate,
            report=FileReport(),
            force=False,
            refuse=lambda _number, _error: None,
            tell=lambda _done, _of: None,
        )
        counts = {"bytes": source.stat().st_size, "largest_text_bytes": text_bytes, "texts": texts}
        took_s = round(time.process_time() - begin_s, 1)
    print(
        json.dumps({**counts, "mib_before": before, "mib": peak_kib() >> 10, "processor_s": took_s})
    )


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
