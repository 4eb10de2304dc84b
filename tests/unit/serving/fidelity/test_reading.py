"""How the model reads a sentence with literals."""

from __future__ import annotations

from itertools import pairwise

import pytest
from dragoman_serving.fidelity.literals import Literal, known_literals
from dragoman_serving.fidelity.reading import Reading, StandIns
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.kernel.text import Tokenizer
from tests.conftest import REPOSITORY

BUNDLE = REPOSITORY / "model_repository/translate/1/bundle"
STAND_INS = StandIns(Tokenizer(BUNDLE / "tokenizer.model"))


def read(line: str, attempt: int = 0) -> Reading:
    return Reading.of(line, known_literals(line), STAND_INS, attempt)


def test_each_literal_has_a_stand_in_and_equal_ones_the_same() -> None:
    reading = read("{a} and {b} are {a} :-) :-(")
    assert reading.text == "X1 and X2 are X1 * *"
    assert reading.line == "{a} and {b} are {a} :-) :-("
    again = read(reading.line, 1)
    assert len(set(again.stand_ins)) == 4
    assert not set(again.stand_ins) & {"X1", "X2", "*"}


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("X1 has {a}", "X1 has [1]"),
        ("X1 is [{a}]", "X1 is [#1]"),
        ("2 * 3 :-)", "2 * 3 #"),
        ("COVID-19 is here", "COVID-19 is here"),
    ],
)
def test_stand_ins_are_not_in_the_sentence(line: str, text: str) -> None:
    assert read(line).text == text


def test_placeholders_of_numbers_are_read_as_numbers() -> None:
    reading = read("{n} of {total} files in {folder}, {n} new, not 34")
    numbers = [int(stand_in) for stand_in in reading.stand_ins if stand_in.isdigit()]
    assert len(numbers) == 3
    assert numbers[0] == numbers[2] < numbers[1]
    assert 34 not in numbers
    first, second, _ = numbers
    written = f"In X3 sind {first} von {second} Dateien, {first} neue, nicht 34"
    assert reading.is_in(written)
    assert reading.restored(written).text == (
        "In {folder} sind {n} von {total} Dateien, {n} neue, nicht 34"
    )
    for other in (
        f"1{first}",
        f"{first}5",
        f"{first}.5",
        f"1,{first}",
        f"{first},000",
        f"{first}eingeladen",
    ):
        assert not Reading.count(str(first), other)
    assert not any(stand_in.isdigit() for stand_in in read(reading.line, 1).stand_ins)


def test_any_number_of_placeholders_of_numbers_has_distinct_stand_ins() -> None:
    line = " ".join(f"{{count{index}}}," for index in range(20))
    assert len(set(read(line).stand_ins)) == 20


def test_codes_that_models_repeat_have_stand_ins_in_further_searches() -> None:
    assert "COVID" not in read("COVID-19 is here", 1).text


def test_a_translation_must_have_each_stand_in_as_often() -> None:
    reading = read("{a}, {b}, {a}")
    assert reading.is_in("X2 X1 X1")
    for written in ("X2 X1", "X2 X1 X1 X1", "X12 X1 X1 X1", "X1 X1", ""):
        assert not reading.is_in(written)


def test_a_stand_in_that_is_a_word_is_no_part_of_another() -> None:
    assert [Reading.count("art", text) for text in ("Der Start", "Art und art")] == [0, 2]


def test_indices_are_those_of_the_line() -> None:
    reading = read("See {name} now")
    assert [reading.index(at) for at in (0, 4, 6, 7)] == [0, 4, 10, 11]


@pytest.mark.parametrize(
    ("written", "line", "expected"),
    [
        ("X2 und X1 .", "{a} and {b} .", "{b} und {a} ."),
        ("Rot ( X1 ) und „ X2 “", 'Red ({a}) and "{x}"', "Rot ({a}) und „{x} “"),
        ("Salut X1 !", "Hello {name}!", "Salut {name} !"),
        ("Bitte X1 warten.", "Wait, {name}, please.", "Bitte {name} warten."),
        ("zu X1 ein", "to <%= a %>.", "zu <%= a %> ein"),
        ("X1 -mal X2", "{a}-fold {m}", "{a}-mal {m}"),
        ("Katzen* da", "cats :-) there", "Katzen :-) da"),
        ("supprimer «X1 »", "delete “{a}”", "supprimer « {a} »"),
        ('the " X1"', "le « {a} »", 'the "{a}"'),
        ("« X1 »", "« {a} »", "« {a} »"),
        ("TheX1 is", "L'{a} est", "The {a} is"),
        ("有X1", "({a})", "有{a}"),
        ("Hallo X1 da", "Hello\u00a0{a} there", "Hallo\u00a0{a} da"),
    ],
)
def test_white_space_beside_the_same_neighbour_equals_the_sources(
    written: str, line: str, expected: str
) -> None:
    assert read(line).restored(written).text == expected


_WORDS = st.sampled_from(("Tom", "has", "öl", "(", "-", '"'))
_PARTS = st.tuples(_WORDS | st.sampled_from(("{a}", "${x}", "%s", ":-)")), st.sampled_from(" "))


@settings(max_examples=300)
@given(st.lists(_PARTS, min_size=1, max_size=8))
def test_the_same_words_have_the_same_white_space(parts: list[tuple[str, str]]) -> None:
    line = "".join(word + gap for word, gap in parts).strip()
    reading = read(line)
    assert reading.line == line
    restored = reading.restored(reading.text)
    assert restored.text == line
    assert [line[begin:end] for begin, end, _ in restored.placed] == list(reading.raw)
    indices = [restored.index(at) for at in range(len(reading.text) + 1)]
    assert all(a <= b for a, b in pairwise(indices))


def test_a_translation_of_another_reading_becomes_one_of_the_own() -> None:
    own, other = read("COVID-19 in {a} :-)"), read("COVID-19 in {a} :-)", 1)
    first, second, third = other.stand_ins
    assert own.replaced(f"{third} In {second} ist {first}.", other) == "* In X1 ist COVID-19."


def test_a_literal_at_the_end_of_a_number_stays_apart_from_digits() -> None:
    reading = Reading.of("20€ today", [Literal(2, 3, is_sign=True)], STAND_INS)
    assert reading.restored("heute 20*").text == "heute 20€"


def test_a_masked_translation_tells_signs_of_currencies_from_others() -> None:
    signs = [Literal(begin, begin + 1, is_sign=True) for begin in (9, 15)]
    assert Reading.of("It costs €3.50 ☺", signs, STAND_INS).masked("*3,50 *") == "¤3,50 ¤"
    assert read("{a} for 3.50 :-)").masked("X1 für 3,50 *") == "   für 3,50  "


def test_apostrophes_of_messages_are_doubled_outside_literals() -> None:
    reading = read("{a'b} is here")
    reading.doubles = True
    restored = reading.restored("L'X1 n'est pas ici")
    assert restored.text == "L''{a'b} n''est pas ici"
    assert restored.text[restored.index(7) :] == "est pas ici"
