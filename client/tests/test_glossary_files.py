"""Glossaries as CSV, TSV and JSON."""

from __future__ import annotations

from pathlib import Path

import pytest
from dragoman_client import format_glossary, parse_glossary, read_glossary
from dragoman_client.files.glossary_files import GlossaryForm
from hypothesis import given
from hypothesis import strategies as st

RARE_BREAKS = "\u2028\u2029\x85\x0b\x0c"
TERM = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), include_characters=RARE_BREAKS), min_size=1
).filter(lambda term: term == term.strip() and term != "\ufeff" and not term.startswith("\ufeff"))


@pytest.mark.parametrize(
    ("content", "form"),
    [
        ("tea,Tee\nhot water,heißes Wasser\n", None),
        ("tea,Tee\r\n\r\n hot water , heißes Wasser", "csv"),
        ('"tea";Tee\n"hot water";"heißes Wasser"\n', None),
        ("tea,Tee,en,de\nhot water,heißes Wasser,en,de", None),
        ("tea\tTee\n\nhot water\theißes Wasser", None),
        ('{"tea": "Tee", "hot water": "heißes Wasser"}', None),
        ("\ufefftea,Tee\ntea,Tee\nhot water,heißes Wasser", None),
    ],
)
def test_every_form_is_read(tmp_path: Path, content: str, form: GlossaryForm | None) -> None:
    expected = {"tea": "Tee", "hot water": "heißes Wasser"}
    assert parse_glossary(content, form) == expected
    assert parse_glossary(content.encode(), form) == expected
    (tmp_path / "terms").write_text(content, encoding="utf-8", newline="")
    assert read_glossary(tmp_path / "terms", form) == expected
    assert list(parse_glossary(content, form)) == list(expected)


def test_the_file_extension_determines_the_form(tmp_path: Path) -> None:
    (tmp_path / "terms.csv").write_text('"a\tb",c\n', encoding="utf-8")
    assert read_glossary(tmp_path / "terms.csv") == {"a\tb": "c"}


@pytest.mark.parametrize(
    ("content", "form", "message"),
    [
        ("tea,Tee\ntea,Tea", "csv", "line 2: 'tea' has two target terms: remove one"),
        ("tea,Tee\nwater, ", "csv", "line 2: the target term is empty"),
        ("\tTee", "tsv", "line 1: the source term is empty"),
        ("tea,Tee,Thee", "csv", "line 1: not a source term, a comma and a target term"),
        ("tea,Tee", "tsv", "line 1: not a source term, a tab and a target term"),
        ('tea,"Tee\nwater', "csv", "line 2: unexpected end of data"),
        (b"tea,Tee\nwater,\xff", "csv", "line 2: not valid UTF-8"),
        ('["tea"]', "json", "not an object of terms"),
        ('{"tea": ["Tee"]}', "json", "entry 1: the target term of 'tea' is not text"),
        ('{"tea": {"a": "b"}}', "json", "entry 1: the target term of 'tea' is not text"),
        ('{"tea": "a", "tea": "b"}', "json", "entry 2: 'tea' has two target terms"),
        ('{"tea"', "json", "not valid JSON"),
        ("tea", "xml", "form is 'xml': give csv, tsv or json"),
    ],
)
def test_an_invalid_glossary_is_refused_with_the_reason(
    content: str, form: GlossaryForm, message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        parse_glossary(content, form)


@given(st.dictionaries(TERM, TERM, max_size=5), st.sampled_from(["csv", "tsv", "json"]))
def test_a_written_glossary_is_read_back(terms: dict[str, str], form: GlossaryForm) -> None:
    assert parse_glossary(format_glossary(terms, form), form) == terms
