"""Excerpts of documents, which limit memory while translations are awaited."""

from __future__ import annotations

import io
from collections.abc import Iterator

from dragoman_client.document_translation import Excerpt, excerpts_of, parts_of
from dragoman_client.file_formats import Reading, open_reader

_PAGE = b"<p>I like <b title='blue'>red</b> cars.</p>\n"
_SCRIPT = b"<script>" + b"x = 1;\n" * 40_000 + b"</script>"
"""A script of 280 kB, which contains no text."""


def excerpts(document: bytes) -> Iterator[Excerpt]:
    return excerpts_of(parts_of(open_reader("html", Reading()), io.BytesIO(document), "a.html"))


def untranslated(found: list[Excerpt]) -> bytes:
    return b"".join(one.written([None] * len(one.segments)) for one in found)


def test_texts_of_an_excerpt_are_bounded() -> None:
    document = _PAGE * 2000
    found = list(excerpts(document))
    assert max(one.size for one in found) < 8100
    assert sum(one.size for one in found) == 2000 * len("I like red cars.blue")
    assert untranslated(found) == document


def test_bytes_of_an_excerpt_are_bounded() -> None:
    document = 9 * _SCRIPT + _PAGE + _SCRIPT
    found = list(excerpts(document))
    assert max(one.held_bytes for one in found) < (1 << 20) + len(_SCRIPT)
    assert sum(one.held_bytes for one in found) == len(document)
    assert untranslated(found) == document
