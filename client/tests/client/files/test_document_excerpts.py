"""Excerpts of documents, which limit memory while translations are awaited."""

from __future__ import annotations

import io
from collections.abc import Iterator

from dragoman_client.files.document_translation import Excerpt, excerpts_of, parts_of
from dragoman_client.files.file_formats import Reading, open_reader

_PAGE = b"<p>I like <b title='blue'>red</b> cars.</p>\n"
_SCRIPT = b"<script>" + b"x = 1;\n" * 40_000 + b"</script>"
"""A script of 280 kB, which contains no text."""


def excerpts(document: bytes) -> Iterator[Excerpt]:
    return excerpts_of(parts_of(open_reader("html", Reading()), io.BytesIO(document), "a.html"))


def untranslated(all_excerpts: list[Excerpt]) -> bytes:
    return b"".join(excerpt.written([None] * len(excerpt.segments)) for excerpt in all_excerpts)


def test_texts_of_an_excerpt_are_bounded() -> None:
    document = _PAGE * 2000
    all_excerpts = list(excerpts(document))
    assert max(excerpt.size for excerpt in all_excerpts) < 8100
    assert sum(excerpt.size for excerpt in all_excerpts) == 2000 * len("I like red cars.blue")
    assert untranslated(all_excerpts) == document


def test_bytes_of_an_excerpt_are_bounded() -> None:
    document = 9 * _SCRIPT + _PAGE + _SCRIPT
    all_excerpts = list(excerpts(document))
    assert max(excerpt.held_bytes for excerpt in all_excerpts) < (1 << 20) + len(_SCRIPT)
    assert sum(excerpt.held_bytes for excerpt in all_excerpts) == len(document)
    assert untranslated(all_excerpts) == document
