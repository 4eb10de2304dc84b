"""Labels of encodings in documents."""

from __future__ import annotations

import codecs
import encodings
import pkgutil
from encodings.aliases import aliases

import pytest
from dragoman_client.files.document_translation import read_text
from dragoman_documents.core.encodings import codec_name
from dragoman_documents.html.html_reader import HtmlReader

MODULES = [module.name for module in pkgutil.iter_modules(encodings.__path__)]


@pytest.mark.parametrize("change", [str, str.upper, lambda label: label.replace("_", "-")])
def test_known_labels_are_those_of_python(change: object) -> None:
    assert callable(change)
    for label in (*aliases, *aliases.values(), *MODULES, "latin 1", "utf8", "x"):
        try:
            name = codecs.lookup(change(label)).name
        except LookupError:
            name = None
        assert codec_name(change(label)) == name, label


def test_unknown_labels_leave_nothing_in_memory() -> None:
    kept = len(encodings._cache)
    for number in range(50):
        tags = f"<meta charset=q{number}z>" + f"<meta charset=utf{number * '-'}8>"
        read_text(f"{tags}<p>Text.", HtmlReader())
        assert codec_name(f"q{number}") is None
    assert codec_name("utf-8" + 100 * " ") is None
    assert len(encodings._cache) <= kept + 1
