"""Parentheses of translations."""

from __future__ import annotations

import pytest
from dragoman_serving.fidelity.brackets import lost_brackets
from dragoman_serving.fidelity.restored import Edit, edited
from hypothesis import example, given
from hypothesis import strategies as st

TEXTS = st.text(st.sampled_from("()ab1, .;"), max_size=30)


def corrected(source: str, target: str) -> str:
    return edited(target, [Edit(*change) for change in lost_brackets(source, target, "en", "de")])


@pytest.mark.parametrize(
    ("source", "target", "right"),
    [
        (
            "They are old (Far, Near).",
            "Sie sind alt (fern, nah.",
            "Sie sind alt (fern, nah).",
        ),
        (
            "If you fly (or sail), stop.",
            "Wer (oder segelt, hält an.",
            "Wer (oder segelt), hält an.",
        ),
        ("RGB(255, 0, 128)", "RGB(255, 0, 128", "RGB(255, 0, 128)"),
        ("a book (not new)", "ein Buch (nicht neu))", "ein Buch (nicht neu)"),
        ("point (a) is here (now)", "Punkt a) ist hier (jetzt", "Punkt a) ist hier (jetzt)"),
        ("press it (three times):", "drücke (drei Mal:", "drücke (drei Mal):"),
    ],
)
def test_brackets_are_closed_where_the_sentence_closes_them(
    source: str, target: str, right: str
) -> None:
    assert corrected(source, target) == right


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("No (brackets) here.", "Keine hier."),
        ("The king (born in 1950) died.", "Der König (geboren 1950 starb."),
        ("point (a)", "Punkt a)"),
        ("1) open it", "1) öffne es"),
        ("It is (not open", "Es ist (nicht offen"),
        ("(yes) (no)", "(ja) (nein)"),
    ],
)
def test_pairs_enumerations_and_broken_sentences_stay(source: str, target: str) -> None:
    assert corrected(source, target) == target


@given(TEXTS, TEXTS)
@example("", "111111)1)")
def test_a_correction_has_pairs_and_nothing_else_changes(source: str, target: str) -> None:
    text = corrected(f"a ({source.replace('(', '').replace(')', '')}) b", target)
    assert text.replace(")", "") == target.replace(")", "")
    assert corrected("a (b) c", text) == text
