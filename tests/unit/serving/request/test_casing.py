"""The case of letters in which a model reads a sentence."""

from __future__ import annotations

import pytest
from dragoman_serving.request.casing import Capitals, Cased, Casing
from hypothesis import given
from hypothesis import strategies as st

from dragoman.kernel.text import Tokenizer
from tests.conftest import REPOSITORY

BUNDLE = REPOSITORY / "model_repository/translate/1/bundle"


@pytest.fixture(scope="module")
def casing() -> Casing:
    return Casing(Tokenizer(BUNDLE / "tokenizer.model"))


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("HE DOESN'T LIVE IN BOSTON.", "He doesn't live in Boston."),
        ("WO IST DAS HAUS MEINER FREUNDIN?", "Wo ist das Haus meiner Freundin?"),
        ("OÙ EST L'ÉCOLE?", "Où est l'école?"),
        ("3 DAYS AGO", "3 days ago"),
    ],
)
def test_words_in_capitals_get_their_usual_case(casing: Casing, text: str, read: str) -> None:
    assert casing.of(text, False) == Cased(read, Capitals(False))


@pytest.mark.parametrize(
    "text", ["NATO", "U.S.A.", "BMW X5", "Hello WORLD AND ALL", "", "1234", "你好"]
)
def test_other_text_stays_as_it_is(casing: Casing, text: str) -> None:
    assert casing.of(text, False) == casing.of(text, True) == Cased(text)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("wo ist der bahnhof bitte", "wo ist der Bahnhof bitte"),
        (
            "open docs/boston.txt or boston.org, boston",
            "open docs/boston.txt or boston.org, Boston",
        ),
        ("boston", "boston"),
        ("save as", "save as"),
    ],
)
def test_text_without_capitals_gets_those_of_known_words(
    casing: Casing, text: str, read: str
) -> None:
    assert casing.of(text, False) == Cased(read)


def test_kept_placeholders_keep_their_case(casing: Casing) -> None:
    assert casing.of("{name} IS HERE NOW", True).text == "{name} is here now"
    assert casing.of("wo ist {NAME} am bahnhof", True).text == "wo ist {NAME} am Bahnhof"
    text = "OPEN {name} AT https://EXAMPLE.org/a NOW %s"
    assert casing.of(text, True) == Cased(
        "Open {name} at https://EXAMPLE.org/a now %s", Capitals(True)
    )
    assert casing.of(text, False) == Cased(text)
    assert Capitals(True).put_into("Öffne {name} bei https://EXAMPLE.org/a nun") == (
        "ÖFFNE {name} BEI https://EXAMPLE.org/a NUN"
    )


@given(st.text() | st.text("aßSTǅŉİi\u0131ﬁ .'{}"), st.booleans())
def test_no_character_is_added_or_removed(casing: Casing, text: str, keeps: bool) -> None:
    for form in (text, text.upper(), text.lower()):
        assert len(casing.of(form, keeps).text) == len(form) == len(Capitals(keeps).put_into(form))


def test_capitals_of_a_beginning_are_the_beginning_of_the_capitals() -> None:
    text = "Die Straße heißt ŉ ﬁ"
    for end in range(len(text)):
        assert Capitals(False).put_into(text).startswith(Capitals(False).put_into(text[:end]))
    assert Capitals(False).put_into("Straße") == "STRAẞE"
