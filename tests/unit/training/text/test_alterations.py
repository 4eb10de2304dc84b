# ruff: noqa: RUF001  the quotation marks of several languages
"""Text as users type it, made from pairs by rule."""

from __future__ import annotations

import pytest
from dragoman_serving.fidelity.literals import known_literals
from dragoman_training.text.alterations import RULES, Example, altered, applied

ENGLISH, GERMAN = "Tom's bus has 41 seats.", "Toms Bus hat 41 Plätze."
PAIR = Example(ENGLISH, GERMAN, "en", "de")


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("lower_case", ("tom's bus has 41 seats.", GERMAN)),
        ("upper_case", ("TOM'S BUS HAS 41 SEATS.", "TOMS BUS HAT 41 PLÄTZE.")),
        ("no_final_mark", (ENGLISH[:-1], GERMAN[:-1])),
        ("typographic", ("“Tom’s bus has 41 seats.”", "„Toms Bus hat 41 Plätze.“")),
        ("copied", (GERMAN, GERMAN)),
    ],
)
def test_each_rule_changes_a_pair_as_expected(rule: str, expected: tuple[str, str]) -> None:
    assert applied(RULES[rule], PAIR) == expected


def test_quotations_have_the_marks_of_their_languages() -> None:
    pair = Example('Say "yes" or "no".', 'Dis "oui" ou "non".', "en", "fr")
    changed = applied(RULES["typographic"], pair)
    assert changed == ("Say “yes” or “no”.", "Dis « oui » ou « non ».")


def test_numbers_are_written_in_the_format_of_each_language() -> None:
    numbers = set()
    for seats in range(10, 60):
        pair = Example(f"{seats} seats are free.", f"{seats} places sont libres.", "en", "fr")
        changed = applied(RULES["other_number"], pair)
        assert changed is not None
        english, french = (
            changed[0].removesuffix(" seats are free."),
            changed[1].split(" places")[0],
        )
        assert float(english.replace(",", "")) == float(french.replace(" ", "").replace(",", "."))
        numbers.add(english)
    assert any("," in number for number in numbers)
    assert any("." in number for number in numbers)


@pytest.mark.parametrize(
    ("src", "tgt"),
    [
        ("Room 12 is free.", "Zimmer zwölf ist frei."),
        ("It is 3.5 km.", "Es sind 3,5 km."),
        ("1", "1"),
    ],
)
def test_other_numbers_stay(src: str, tgt: str) -> None:
    assert applied(RULES["other_number"], Example(src, tgt, "en", "de")) is None


def literals(text: str) -> list[str]:
    return [text[literal.begin : literal.end] for literal in known_literals(text)]


def test_both_sides_have_the_same_placeholders() -> None:
    for name in ("Anna", "Boston", "Berlin", "Maria", "Tokyo", "Peter", "Paris", "Sami"):
        for english, german in ((f"Is {name} here?", f"Ist {name} hier?"), ("It rains.", name)):
            changed = applied(RULES["placeholder"], Example(english, german, "en", "de"))
            assert changed is not None
            assert changed != (english, german)
            assert literals(changed[0]) == literals(changed[1])


def test_text_without_words_stays() -> None:
    for number in range(50):
        changed = applied(RULES["no_text"], Example(str(number), "", "en", "de"))
        assert changed is not None
        assert changed[0] == changed[1] != ""


def test_rules_take_turns_and_the_same_pairs_are_altered_the_same_way() -> None:
    examples = [
        Example(f"I have {n} of it.", f"Ich habe {n} davon.", "en", "de") for n in range(90)
    ]
    pairs = list(altered(examples, 0.2))
    assert pairs == list(altered(examples, 0.2))
    assert len(pairs) == 18
    assert pairs.count(("i have 9 of it.", "Ich habe 9 davon.")) == 1
    assert next(src for src, tgt in pairs if src == tgt) == "Ich habe 29 davon."
    assert not any(src.isupper() for src, _ in pairs)
    assert len(list(altered(examples, 1.0))) == 90
