"""The case of letters in which a model reads a sentence."""

# ruff: noqa: RUF001

from __future__ import annotations

import pytest
from dragoman_serving.fidelity.casing import Capitals, Cased, Casing
from dragoman_serving.fidelity.letter_case import lower
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
    assert casing.of(text, "en") == Cased(read, Capitals())


@pytest.mark.parametrize(
    ("language", "text", "read"),
    [
        ("en", "This is NOT my house.", "This is not my house."),
        ("en", "You DON'T go, you MUST stay.", "You don't go, you must stay."),
        ("en", "NEVER in BOSTON!", "Never in Boston!"),
        ("en", "DO NOT DELETE IT now.", "Do not delete IT now."),
        ("en", "please do NOT go to boston", "please do not go to Boston"),
        ("en", "It is STRICTLY forbidden (REALLY).", "It is strictly forbidden (really)."),
        ("de", "Das ist NICHT mein HAUS, NIE.", "Das ist nicht mein Haus, nie."),
        ("fr", "Je N'AI PAS vu L'ÉCOLE.", "Je n'ai pas vu l'école."),
        ("ru", "Это НЕ дом.", "Это не дом."),
        ("en", "wo ist der bahnhof bitte", "wo ist der Bahnhof bitte"),
        ("en", "see a/boston.txt or boston.org, boston", "see a/boston.txt or boston.org, Boston"),
        ("en", "boston", "boston"),
        ("en", "save as", "save as"),
    ],
)
def test_emphasized_and_known_words_get_their_usual_case(
    casing: Casing, language: str, text: str, read: str
) -> None:
    assert casing.of(text, language) == Cased(read)


@pytest.mark.parametrize(
    "text",
    [
        "NATO, UNESCO and the EU use USB, HTML and PDF.",
        "The US and the UK left the UN.",
        "Who at IBM knows the WHO?",
        "Chapter XIV follows on II and VIII.",
        "Set MAX_NOT, $NOT, %NEVER%, NEVER=1, --ALWAYS and NOT() in /NOT/never.",
        "The SELECT statement is short.",
        "L'OTAN and McDONALD know A and I.",
    ],
)
def test_abbreviations_and_identifiers_stay_in_capitals(casing: Casing, text: str) -> None:
    for language in ("en", "de", "fr", "xx"):
        assert casing.of(text, language) == Cased(text)


def test_a_word_that_needs_more_tokens_with_a_capital_begins_without(casing: Casing) -> None:
    cased = casing.of("WARNING: this is hot.", "en")
    assert cased == Cased("warning: this is hot.", Capitals(only_first=True))
    assert cased.capitals is not None
    assert cased.capitals.put_into("„warnung: heiß.") == "„Warnung: heiß."


@pytest.mark.parametrize(("text", "read"), [("STOP!", "Stop!"), ("NO", "No")])
def test_a_short_text_in_capitals_is_a_word_if_the_vocabulary_has_it(
    casing: Casing, text: str, read: str
) -> None:
    assert casing.of(text, "en") == Cased(read, Capitals())


@pytest.mark.parametrize("text", ["NATO", "U.S.A.", "BMW X5", "", "1234", "你好"])
def test_other_text_stays_as_it_is(casing: Casing, text: str) -> None:
    assert casing.of(text, "en") == casing.of(text, "en") == Cased(text)


def test_fixed_spans_keep_their_case(casing: Casing) -> None:
    assert casing.of("X1 IS HERE NOW", "en", [(0, 2)]) == Cased("X1 is here now", Capitals())
    assert casing.of("wo ist NAME am bahnhof", "de", [(7, 11)]).text == "wo ist NAME am Bahnhof"


@given(st.text() | st.text("aßSTǅŉİi\u0131ﬁ .'{}"))
def test_no_character_is_added_or_removed(casing: Casing, text: str) -> None:
    for form in (text, text.upper(), text.lower()):
        assert len(casing.of(form, "en").text) == len(form) == len(Capitals().put_into(form))


def test_capitals_of_a_beginning_are_the_beginning_of_the_capitals() -> None:
    text = "Die Straße heißt ŉ ﬁ"
    for end in range(len(text)):
        assert Capitals().put_into(text).startswith(Capitals().put_into(text[:end]))
    assert Capitals().put_into("Straße") == "STRAẞE"


@pytest.mark.parametrize(
    ("language", "text", "read"),
    [
        ("tr", "IŞIK AÇIK KALDI", "ışık açık kaldı"),
        ("tur", "İSTANBUL'DA KALIYOR", "istanbul'da kalıyor"),
        ("az", "QIRMIZI KİTAB", "qırmızı kitab"),
        ("crh_Latn", "QIRIM TİLİ", "qırım tili"),
        ("gag", "GAGAUZIYA", "gagauzıya"),
        ("en", "İSTANBUL IS BIG", "istanbul is big"),
        ("el", "Ο ΔΡΟΜΟΣ ΕΙΝΑΙ ΜΕΓΑΛΟΣ", "ο δρομος ειναι μεγαλος"),
        ("de", "DIE STRAẞE IST LANG", "die straße ist lang"),
    ],
)
def test_text_in_capitals_is_read_by_the_rules_of_its_language(
    casing: Casing, language: str, text: str, read: str
) -> None:
    cased = casing.of(text, language)
    assert lower(cased.text, language) == read
    assert cased.capitals == Capitals()


@pytest.mark.parametrize(
    ("language", "text", "capitals", "beginning"),
    [
        ("tr", "iyi günler", "İYİ GÜNLER", "İyi günler"),
        ("tr_TR", "ışık", "IŞIK", "Işık"),
        ("az", "işıq", "İŞIQ", "İşıq"),
        ("el", "άνθρωπος", "ΑΝΘΡΩΠΟΣ", "Άνθρωπος"),
        ("nl", "ijsland is koud", "IJSLAND IS KOUD", "IJsland is koud"),
        ("en", "ijsland", "IJSLAND", "Ijsland"),
        ("de", "straße", "STRAẞE", "Straße"),
        ("fr", "été", "ÉTÉ", "Été"),
    ],
)
def test_translations_in_capitals_follow_the_rules_of_their_language(
    language: str, text: str, capitals: str, beginning: str
) -> None:
    assert Capitals(language=language).put_into(text) == capitals
    assert Capitals(only_first=True, language=language).put_into(text) == beginning
