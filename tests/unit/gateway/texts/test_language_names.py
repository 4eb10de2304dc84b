"""The gateway's names of languages, compared with those of Babel, which the gateway does not need.

`python -m tests.unit.gateway.texts.test_language_names` writes the file again.
"""

from __future__ import annotations

import json
from importlib import resources

import pytest
from babel import Locale
from babel.core import get_global
from dragoman_gateway.texts.languages import name_of

FILE = resources.files("dragoman_gateway.texts") / "language_names.json"
ENGLISH = Locale("en")


def names() -> dict[str, dict[str, str]]:
    """The content of the file: English names by code, as Unicode's CLDR has them."""
    languages = {code: name for code, name in ENGLISH.languages.items() if code.isalpha()}
    aliases = get_global("language_aliases")
    languages = {
        old: languages[new] for old, new in aliases.items() if new in languages
    } | languages
    tables = {"languages": languages, "scripts": ENGLISH.scripts, "regions": ENGLISH.territories}
    return {table: dict(sorted(codes.items())) for table, codes in tables.items()}


def test_the_file_has_the_names_of_babel() -> None:
    assert json.loads(FILE.read_text("utf-8")) == names()


@pytest.mark.parametrize("code", ["de", "zh", "nb", "yue", "zh-Hans", "sr-Latn", "pt-BR", "es-419"])
def test_a_language_is_named_as_by_babel(code: str) -> None:
    assert name_of(code) == Locale.parse(code, sep="-").get_display_name("en")


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("ZH-hant-tw", "Chinese (Traditional, Taiwan)"),
        ("cmn_Hans", "Chinese (Simplified)"),
        ("deu", "German"),
        ("iw", "Hebrew"),
        ("ceb", "Cebuano"),
        ("ca-valencia", "Catalan (valencia)"),
        ("xx", "xx"),
        ("xx-DE", "xx-DE"),
        ("e", "e"),
        ("", ""),
    ],
)
def test_codes_of_any_spelling_are_named(code: str, name: str) -> None:
    assert name_of(code) == name


if __name__ == "__main__":
    with resources.as_file(FILE) as path:
        text = json.dumps(names(), ensure_ascii=False).replace("}, ", "},\n")
        path.write_text(text + "\n", "utf-8")
