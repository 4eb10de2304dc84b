# ruff: noqa: RUF001  dashes
"""Numbers of a text and of its translation, compared by value."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import pytest
from dragoman_serving.fidelity.numbers import (
    difference,
    end_of_scale,
    has_digits,
    localized,
    lost_signs,
    numbers_of,
    respelled,
)
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("source", "target", "language"),
    [
        ("10 people", "zehn Leute", "de"),
        ("the 3rd", "den dritten", "de"),
        ("1,000.5", "1.000,5", "de"),
        ("1,000.5", "1 000,5", "fr"),
        ("2,200,112", "2.200.112", "de"),
        ("at 2:30 p.m.", "um 14:30 Uhr", "de"),
        ("7 p.m.", "19 Uhr", "de"),
        ("14 h 30", "14:30", "en"),
        ("14.30 Uhr", "2:30 p.m.", "en"),
        ("the 1990s", "die 90er Jahre", "de"),
        ("won 1:0", "a gagné 1-0", "fr"),
        ("on 10/3/1990", "am 10.3.1990", "de"),
        ("page 007", "Seite 7", "de"),
        ("2-11 days", "2 bis 11 Tage", "de"),
        ("2 to 11 days", "2–11 Tage", "de"),
        ("won 2-1", "gewann 2–1", "de"),
        ("13.30 Uhr", "1:30 p.m.", "en"),
        ("at -5 °C or -1,234.5", "bei –5 °C oder minus 1.234,5", "de"),
        ("minus 5, 8 - 3 - 2", "-5, 8 -3 - 2", "de"),
    ],
)
def test_languages_write_the_same_numbers(source: str, target: str, language: str) -> None:
    assert difference(source, target, ("", language)) == ([], [])


@pytest.mark.parametrize(
    ("source", "target", "missing"),
    [
        ("2 pills every 8 hours", "28 Stunden", ["2", "8"]),
        ("3,5 rooms", "35 Zimmer", ["3,5"]),
        ("2,200,112", "2.200,112", ["2,200,112"]),
        ("244890 people", "2444890 Menschen", ["244890"]),
        ("2 and 2", "2", ["2"]),
        ("5 and 5", "fünf und 6", ["5"]),
        ("at 2:30", "um 14:30", ["2:30"]),
        ("0800 555 111", "0800 551 11", ["555 111"]),
        ("2-11 days", "211 Tage", ["2-11"]),
        ("17-21 June", "17-2 Juni", ["17-21"]),
        ("13:30 Uhr", "1:30", ["13:30"]),
        ("on the B 33", "auf der B 33,000", ["33"]),
        ("3 percent", "3 Hundert", ["3"]),
        ("5.277 cents", "5277 Cent", ["5.277"]),
        ("-5 to 3", "5 bis -3", ["-5", "3"]),
        ("existing 777s", "vorhandene 7777s", ["777"]),
    ],
)
def test_changed_and_lost_numbers_are_missing(source: str, target: str, missing: list[str]) -> None:
    assert [number.text for number in difference(source, target, ("en", "de")).missing] == missing


@pytest.mark.parametrize("target", ["10 miles", "10,000 objects", "10 thousand objects"])
def test_french_miles_may_be_thousands(target: str) -> None:
    assert difference("10 milles", target, ("fr", "en")) == ([], [])


def test_the_place_and_the_additional_numbers_are_known() -> None:
    differences = difference("It has 3.5 rooms", "Es hat 35 Zimmer", ("en", "de"))
    assert [(number.begin, number.end) for number in differences.missing] == [(7, 10)]
    assert [number.text for number in differences.additional] == ["35"]


def test_a_number_with_spaces_has_the_whole_span() -> None:
    text = "Le train part à 14 h 30 demain."
    (number,) = numbers_of(text)
    assert (text[number.begin : number.end], number.text) == ("14 h 30", "14:30")


def test_numbers_too_long_to_convert_equal_themselves() -> None:
    long = "1" * 5000
    assert difference(long, long, ("en", "de")) == ([], [])
    assert [number.text for number in difference(long, long[1:], ("en", "de")).missing] == [long]


def test_numbers_of_the_translation_may_be_words_of_the_text() -> None:
    assert difference("3 and three", "3 und 3", ("en", "de")) == ([], [])


@pytest.mark.parametrize(
    ("number", "source", "target", "written"),
    [
        ("1.5", "en", "de", "1,5"),
        ("2,200,112", "en", "fr", "2\u00a0200\u00a0112"),
        ("1,234", "en", "de", "1.234"),
        ("1.234", "de", "en", "1,234"),
        ("1 000,5", "fr", "de", "1.000,5"),
        ("14:30", "en", "de", "14:30"),
        ("3.10.1990", "de", "en", "3.10.1990"),
        ("2010", "en", "de", "2010"),
        ("1.5", "en", "xx", "1.5"),
        ("12", "ja", "en", "12"),
        ("2.5 billion", "en", "de", "2,5 Milliarden"),
        ("1 Million", "de", "fr", "1 million"),
        ("2,8\u00a0Milliarden", "de", "en", "2.8 billion"),
        ("27-Millionen", "de", "en", "27 million"),
        ("50bn", "en", "de", "50 Milliarden"),
        ("12 milliards", "fr", "en", "12 billion"),
        ("3 trillion", "en", "es", "3 trillion"),
    ],
)
def test_numbers_get_the_spelling_of_the_target(
    number: str, source: str, target: str, written: str
) -> None:
    assert localized(number, source, target) == written


def test_large_numbers_are_not_left_in_the_spelling_of_the_source() -> None:
    source = "In 2010 26,750 of 1,200,000.5 at 3.5 or 12,5"
    changes = list(respelled(source, "2010: 26,750; 1,200,000.5; 3.5; 26,75", "en", "de"))
    assert changes == [(6, 12, "26.750"), (14, 25, "1.200.000,5")]
    assert list(respelled("1.250 m", "1.250 m", "de", "fr")) == [(0, 5, "1\u00a0250")]
    assert list(respelled("5.277 or 5.28", "5.277 oder 5.28", "en", "de")) == [(0, 5, "5,277")]
    text = "de 1,967 à 3,698 et 0,5"
    assert list(respelled(text, "from 1,967 to 3.698 and 0.5", "fr", "en")) == [(14, 19, "3,698")]
    assert not list(respelled(text, "from 1.967 to 3.698 and 0.5", "fr", "en"))
    assert not list(respelled(source, source, "en", "en"))


@pytest.mark.parametrize(
    ("source", "target", "languages", "right"),
    [
        ("It costs €3.50.", "Es kostet €3.50.", ("en", "de"), "Es kostet €3,50."),
        ("$1.99 and $2.49", "$ 1.99 und 2.49 $", ("en", "de"), "$ 1,99 und 2,49 $"),
        ("3.5 kg of 2.5%", "3.5 kg von 2.5 %", ("en", "fr"), "3,5 kg von 2,5 %"),
        (
            "3.5kg, 1.5 km/h, 0.5 GB",
            "3.5kg, 1.5 km/h, 0.5 Go",
            ("en", "fr"),
            "3,5kg, 1,5 km/h, 0,5 Go",
        ),
        ("-2.5°C", "-2.5 °C", ("en", "de"), "-2,5 °C"),
        ("für 2,49 €", "for 2,49 €", ("de", "en"), "for 2.49 €"),
        ("pour 2,49 €", "for 2.49 €", ("fr", "en"), "for 2.49 €"),
        ("Python 3.11 in section 2.5", "Python 3.11 in 2.5", ("en", "de"), "Python 3.11 in 2.5"),
        ("version 3.5 goes", "3.5 geht", ("en", "de"), "3.5 geht"),
        ("at 3.30 h of 2.5.1 %", "um 3.30 h von 2.5.1 %", ("de", "en"), "um 3.30 h von 2.5.1 %"),
        ("3.50 €", "3,50 $", ("en", "en"), "3,50 $"),
        ("€3.50", "€4.50", ("en", "de"), "€4.50"),
        ("2.5 x 3.5 cm", "2.5 x 3.5 cm", ("en", "de"), "2,5 x 3,5 cm"),
        ("1.5–2.5 x 3", "1.5–2.5 x 3", ("en", "de"), "1.5–2.5 x 3"),
    ],
)
def test_amounts_are_not_left_in_the_spelling_of_the_source(
    source: str, target: str, languages: tuple[str, str], right: str
) -> None:
    assert changed(target, respelled(source, target, *languages)) == right


def changed(text: str, changes: Iterable[tuple[int, int, str]]) -> str:
    for begin, end, written in sorted(changes, reverse=True):
        text = text[:begin] + written + text[end:]
    return text


@pytest.mark.parametrize(
    ("source", "target", "languages", "right"),
    [
        ("She earns $12.", "Sie verdient 12.", ("en", "de"), "Sie verdient 12 $."),
        ("$30.25 for it", "30.25 dafür", ("en", "de"), "30,25 $ dafür"),
        ("from $3.50 to $900", "von 3,50 $ auf 900", ("en", "de"), "von 3,50 $ auf 900 $"),
        ("$2.7 billion", "2,7 Milliarden", ("en", "de"), "2,7 Milliarden $"),
        ("$1,250", "1.250", ("en", "de"), "1.250 $"),
        ("a $325m package", "un paquet de 325m", ("en", "fr"), "un paquet de $325m"),
        ("$2.7 billion", "2.7 Milliarden", ("en", "de"), "2,7 Milliarden $"),
        ("de 2,5 $ à 12 $", "from $2.5 to 12", ("fr", "en"), "from $2.5 to $12"),
        ("$12 and $13", "12 Dollar und 13 Dollar", ("en", "de"), "12 Dollar und 13 Dollar"),
        ("$12 and $12", "12 und 12", ("en", "de"), "12 $ und 12 $"),
        ("$12", "zwölf", ("en", "de"), "zwölf"),
        ("the $ sign, 12", "das Zeichen, 12", ("en", "de"), "das Zeichen, 12"),
        ("¤12", "12", ("en", "de"), "12"),
        ("a 0.5% rise", "une 0.5 augmentation", ("en", "fr"), "une 0,5 % augmentation"),
        ("17 percent of them", "17 von ihnen", ("en", "de"), "17 % von ihnen"),
        ("rund 70 Prozent", "around 70", ("de", "en"), "around 70%"),
        ("5 % and 6%", "5 Prozent und 6 Prozent", ("en", "de"), "5 Prozent und 6 Prozent"),
        ("5 to 10%", "5 bis 10-prozentig", ("en", "de"), "5 bis 10-prozentig"),
        ("20 euros", "20", ("en", "de"), "20 €"),
        ("20 pounds", "20", ("en", "de"), "20"),
    ],
)
def test_lost_signs_of_amounts_are_written(
    source: str, target: str, languages: tuple[str, str], right: str
) -> None:
    assert changed(target, lost_signs(source, target, *languages)) == right


@pytest.mark.parametrize(
    ("languages", "written", "other", "is_equal"),
    [
        (("en", "de"), "26,750", "26.75", False),
        (("en", "de"), "26,750", "26.750", True),
        (("de", "en"), "26.750", "26.75", False),
        (("de", "en"), "3,125", "3125", False),
        (("fr", "en"), "46,000", "46,000", True),
        (("fr", "en"), "46,125", "46125", True),
        (("xx", "yy"), "46,125", "46.125", True),
        (("de", "en"), "2.307.609", "2:307.609", False),
        (("de", "en"), "3.10.1990", "3:10:1990", True),
    ],
)
def test_a_separator_means_what_it_does_in_its_language(
    languages: tuple[str, str], written: str, other: str, is_equal: bool
) -> None:
    assert (difference(written, other, languages) == ([], [])) is is_equal


@pytest.mark.parametrize(
    ("text", "begin", "rest"),
    [
        ("€3.1b Millionen.", 4, "."),
        ("32,7 Md£", 4, "£"),
        ("5 Menschen", 1, " Menschen"),
        ("14 Mr Euro", 2, " Euro"),
        ("12,3 Mrd. €", 4, " €"),
        ("2 Mio.", 1, "."),
        ("7X", 1, ""),
        ("3 billion million", 1, ""),
    ],
)
def test_the_power_of_ten_behind_a_number_has_an_end(text: str, begin: int, rest: str) -> None:
    assert text[end_of_scale(text, begin) :] == rest


@given(st.integers(0, 10**9), st.sampled_from(["de", "fr", "en"]))
def test_a_number_in_another_spelling_is_equal(number: int, language: str) -> None:
    source = f"{number:,}.25"
    written = localized(source, "en", language)
    assert difference(source, written, ("en", language)).missing == []


@given(st.text("0123456789.,:/h pm's er"))
def test_a_text_has_its_own_numbers(text: str) -> None:
    assert difference(text, text, ("en", "en")) == ([], [])
    for number in numbers_of(text):
        assert text[number.begin].isdigit()


@pytest.mark.parametrize(
    ("source", "target", "languages", "missing"),
    [
        ("27 billion euros", "27 Milliarden Euro", ("en", "de"), []),
        ("2.5 billion euros", "2,5 Mrd. Euro", ("en", "de"), []),
        ("2.5 billion euros", "2.500.000.000 Euro", ("en", "de"), []),
        ("27 billion euros", "27 Euro", ("en", "de"), ["27 billion"]),
        ("$50bn of investment", "50 Milliarden Dollar", ("en", "de"), []),
        ("$50bn of investment", "$50", ("en", "de"), ["50bn"]),
        ("500 thousand people", "500.000 Menschen", ("en", "de"), []),
        ("12 mille euros", "12 Euro", ("fr", "de"), ["12 mille"]),
        ("a 27-million-euro house", "ein Haus für 27 Millionen", ("en", "de"), []),
        ("27 billion euros", "27 Millionen Euro", ("en", "de"), ["27 billion"]),
        ("1.6 million euros", "1.6 Millionen Millionen Euro", ("en", "de"), ["1.6 million"]),
        ("27 Billionen Euro", "27 billion euros", ("de", "en"), ["27 Billionen"]),
        ("3,1 milliards d'euros", "3.1 billion euros", ("fr", "en"), []),
        ("27 euros", "27 Millionen Euro", ("en", "de"), ["27"]),
        ("27 billion euros", "27 mil millones de euros", ("en", "es"), []),
    ],
)
def test_a_power_of_ten_in_words_is_part_of_a_number(
    source: str, target: str, languages: tuple[str, str], missing: list[str]
) -> None:
    assert [number.text for number in difference(source, target, languages).missing] == missing


def test_digits_are_those_of_unicode() -> None:
    characters = map(chr, range(sys.maxunicode + 1))
    assert not [each for each in characters if has_digits(each) != each.isdigit()]
