"""YAML with messages."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from dragoman_client.files.file_formats import open_reader
from dragoman_documents.core.segments import Segment
from hypothesis import given
from hypothesis import strategies as st
from text_laws import NOISE, READING, check_text_file, real_files, shape, texts_of
from translated_documents import hostile, identity, read, swapped, written


def _skeleton(document: bytes) -> tuple[Any, list[str]]:
    """The structure, and the comments."""
    text = document.decode("utf-8-sig")
    comments = [line for line in text.splitlines() if line.lstrip().startswith("# note")]
    return shape(yaml.safe_load(text)), comments


_TEXTS = st.text("ab Cé.\"\\',:#-\n{}0%$*&!|>@`[]", max_size=12)


@given(st.lists(_TEXTS, max_size=5), st.sampled_from(['"', "'", "|", ">", None]), NOISE)
def test_random_files(texts: list[str], style: str | None, noise: str) -> None:
    values: dict[str, Any] = {f"k{n}": text for n, text in enumerate(texts)}
    values |= {f"text {n}": "Some words" for n in range(2 * len(texts) + 1)}
    dumped = yaml.dump({"en": values}, default_style=style, allow_unicode=True, sort_keys=False)
    document = f"# note é\n{dumped}# note: end\n".encode()
    check_text_file("yaml", document, _skeleton, noise, Random(0))


@pytest.mark.parametrize("path", real_files("yaml"), ids=lambda path: path.name)
def test_real_files(path: Path) -> None:
    document = path.read_bytes()
    if path.name in ("deepl-cli-reserved-words.yaml", "non-string.yml"):
        with pytest.raises(ValueError, match=r"^\d of its \d values seem to be text"):
            read(open_reader("yaml", READING), document)
        return
    assert written(open_reader("yaml", READING), document, identity) == document
    for translate in (swapped, hostile(": #'\"\n- x"), hostile("\n\n  ")):
        assert _skeleton(written(open_reader("yaml", READING), document, translate)) == _skeleton(
            document
        )


@pytest.mark.parametrize(
    ("source", "translation"),
    [
        ("a: Hi you # note\n", "a: hI YOU # note\n"),
        ("a: 'It''s'\nb: \"x\\ty z\"\n", "a: 'iT''S'\nb: \"X\\tY Z\"\n"),
        ("a: |\n  Hi\n  you\n\nb: Yes, it is\n", "a: |\n  hI\n  YOU\n\nb: yES, IT IS\n"),
        ("a: |\n  Hi\n    you\nb: c d\n", "a: |\n  hI\n    YOU\nb: C D\n"),
        ("a: >-\n    Hi\n    you\nb: c d\n", "a: >-\n    hI YOU\nb: C D\n"),
        ("a: &x Hi you\nb: *x\n", "a: &x hI YOU\nb: *x\n"),
        ("a: Hi you\nb: 1\nc: [One day, Two days]\n", "a: hI YOU\nb: 1\nc: [oNE DAY, tWO DAYS]\n"),
        ("a: Hi\n   you\n", "a: hI YOU\n"),
        ("a: {message: Hi, description: A note}\n", "a: {message: hI, description: A note}\n"),
    ],
)
def test_scalars_keep_their_style(source: str, translation: str) -> None:
    assert written(open_reader("yaml", READING), source.encode(), swapped).decode() == translation


@pytest.mark.parametrize(
    "text", ["no", "Null", "a: b", "a #b", "- a", "1", "*a", "@a", "a\nb", "'a'", "a:"]
)
def test_a_plain_scalar_gets_quotes_if_it_needs_them(text: str) -> None:
    def translate(_segment: Any) -> Any:
        from dragoman_options.markup import PlacedCodes

        return text, PlacedCodes()

    document = b"a: Hi you\nb: {c: Hi you}\n"
    translated = yaml.safe_load(written(open_reader("yaml", READING), document, translate))
    assert translated == {"a": text, "b": {"c": text}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: [", "line 2: did not find"),
        ("a: b\n  c: d", "line 2: mapping values"),
        ("[" * 10**4, "200 values"),
        ("- a: Some text\n", "it is data"),
        ("a: 1\nb: 2\nc: Some text\n", "1 of its 3 values"),
        ("a: *b\n", None),
        ("a: \x01", "control characters"),
    ],
)
def test_other_files_are_refused(content: str, message: str | None) -> None:
    if message is None:
        assert not texts_of("yaml", content.encode())
        return
    with pytest.raises(ValueError, match=message):
        read(open_reader("yaml", READING), content.encode())


def test_tags_are_kept() -> None:
    document = b"en:\n  a: See <b>it</b>,<br/> <name>\n"
    (segment,) = (
        part for part in read(open_reader("yaml", READING), document) if isinstance(part, Segment)
    )
    kept = [segment.text[begin:end] for begin, end in segment.markup.keep]
    assert kept == ["<b>", "</b>", "<br/>"]
