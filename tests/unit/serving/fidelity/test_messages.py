"""Apostrophes of ICU messages."""

from __future__ import annotations

import pytest
from dragoman_serving.fidelity.literals import known_literals
from dragoman_serving.fidelity.messages import doubled_apostrophes, quoted_spans


@pytest.mark.parametrize("text", ["Don''t go", "l''{name}", "{name}''s file"])
def test_a_doubled_apostrophe_in_a_word_is_no_sign(text: str) -> None:
    (span,) = doubled_apostrophes(text)
    assert text[slice(*span)] == "''"
    assert not any(literal.is_sign for literal in known_literals(text))


@pytest.mark.parametrize("text", ["''not''", "a ''b", "a'' b", "5''6", "''{name}''", "don't"])
def test_other_apostrophes_are_not_doubled_ones(text: str) -> None:
    assert doubled_apostrophes(text) == []


def test_quoted_braces_are_kept() -> None:
    text = "It''s '{'name'}' and '{0}'"
    assert [text[slice(*span)] for span in quoted_spans(text)] == ["'{'", "'}'", "'{0}'"]
