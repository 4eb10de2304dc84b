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
        ("tea", "xml", "form is 'xml': give csv, tsv, json or tbx"),
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


_MARTIF = """<?xml version="1.0"?><martif type="TBX"><text><body>{}</body></text></martif>"""
_TBX_3 = """<?xml version="1.0"?><tbx:tbx xmlns:tbx="urn:iso:std:iso:30042:ed-2">
<text><body>{}</body></text></tbx:tbx>"""


def _concept(version: int, **terms: list[str]) -> str:
    """A concept with terms by language."""
    concept, section, inner = (
        ("termEntry", "langSet", "tig") if version == 2 else ("conceptEntry", "langSec", "termSec")
    )
    sections = (
        f'<{section} xml:lang="{language}">'
        + "".join(f"<{inner}><term>{term}</term><note>n</note></{inner}>" for term in several)
        + f"</{section}>"
        for language, several in terms.items()
    )
    return f"<{concept} id='a'><descrip>d</descrip>{''.join(sections)}</{concept}>"


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_terms_of_tbx_are_read_in_the_languages_asked_for(
    tmp_path: Path, version: int, encoding: str
) -> None:
    concepts = [
        _concept(version, en=["tea"], fr=["thé"], de=["Tee", "Aufguss"]),
        _concept(version, en=["hot  water", "boiling water"], de=["<hi>heißes</hi> Wasser"]),
        _concept(version, en=["milk &amp; sugar"], fr=["lait et sucre"]),
    ]
    content = (_MARTIF if version == 2 else _TBX_3).format("".join(concepts))
    file = tmp_path / "terms.tbx"
    file.write_text(content, encoding=encoding)
    german = {"tea": "Tee", "hot water": "heißes Wasser", "boiling water": "heißes Wasser"}
    french = {"tea": "thé", "milk & sugar": "lait et sucre"}
    assert read_glossary(file, languages=("en-US", "de")) == german
    assert read_glossary(file, languages=(None, "de")) == german
    assert read_glossary(file, languages=("auto", "de")) == german
    assert read_glossary(file) == french
    assert read_glossary(file, languages=("de", "en")) == {
        "Tee": "tea",
        "Aufguss": "tea",
        "heißes Wasser": "hot water",
    }
    assert parse_glossary(content, languages=("en", "fr")) == french
    with pytest.raises(ValueError, match=r"TBX without terms in en and pl$"):
        read_glossary(file, languages=("en", "pl"))


def test_tbx_that_is_not_well_formed_is_refused() -> None:
    bomb = '<?xml version="1.0"?><!DOCTYPE m [<!ENTITY a "b"><!ENTITY c "&a;&a;">]><martif/>'
    for content in ("<?xml version='1.0'?><martif>", bomb, "<?xml version='1.0'?><martif/>"):
        with pytest.raises(ValueError, match=r"\A[^\n]+\Z"):
            parse_glossary(content)
