"""Properties of translated text files that hold for any output of a translator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from dragoman_client.files.file_formats import READABLE, Reader, Reading, open_reader
from dragoman_documents.core.segments import Segment
from hypothesis import strategies as st
from markup_laws import check_document
from translated_documents import (
    at_once,
    blank,
    careless,
    hostile,
    read,
    shuffled,
    swapped,
    written,
)

READING = Reading("en", "de")
_SHARED = Path(__file__).parents[3] / "shared" / "documents"
NOISE = st.text(
    "<&>\"'\\/ ab1\n\r\t-#*_`[](){}|=:%$!~+.,;\0\x0b\x85\u2028\ud800\ufeffé日\u202e", max_size=9
)
"""Texts that hostile translators add; most of their characters are syntax somewhere."""


def check_text_file(
    name: str,
    document: bytes,
    skeleton: Callable[[bytes], Any],
    noise: str,
    random: Random,
    reading: Reading = READING,
) -> None:
    """Check a file of a format.

    Args:
        name: name of the format.
        document: the file.
        skeleton: returns everything that a translation must not change, of this file and of its
            translations, by another parser than the product's.
        noise: text that a hostile translator adds to each text.
        random: chooses sizes of chunks and positions of codes.
        reading: what the reader needs to know.
    """

    def reader() -> Reader:
        return open_reader(name, reading)

    check_document(reader, document, random)
    before = skeleton(document)
    for translate in (
        *(swapped, blank(""), blank(" "), at_once, shuffled(random), careless(random)),
        *(hostile(noise), hostile(f"\n{noise}\n")),
    ):
        content = written(reader(), document, translate)
        assert skeleton(content) == before, content


def texts_of(name: str, document: bytes, reading: Reading = READING) -> list[str]:
    """The texts of a file."""
    parts = read(open_reader(name, reading), document)
    return [part.text for part in parts if isinstance(part, Segment)]


def shape(value: Any) -> Any:
    """A value of JSON or YAML without its texts."""
    if isinstance(value, dict):
        return [(key, shape(member)) for key, member in value.items()]
    if isinstance(value, list):
        return [shape(element) for element in value]
    return type(value) if isinstance(value, str) else value


def real_files(name: str) -> Iterator[Path]:
    """The real files of a format, if they are beside the project."""
    for path in sorted(_SHARED.rglob("*")):
        if path.suffix in READABLE[name].endings and path.is_file():
            yield path
