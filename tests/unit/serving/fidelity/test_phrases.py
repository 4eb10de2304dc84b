# ruff: noqa: RUF001  the apostrophes of several languages
from __future__ import annotations

import re

import pytest
from dragoman_serving.fidelity.phrases import _sources, months, phrases_of, points


@pytest.mark.parametrize(
    ("languages", "text", "phrases"),
    [
        (("en", "de"), "On Monday, 5 May, it rained.", {"Monday": "Montag", "May": "Mai"}),
        (("en", "de"), "It may rain in March; Mr. May saw the march.", {"March": "März"}),
        (("en", "fr"), "the 3rd May 2024, Dec. 5", {"May": "mai", "Dec.": "décembre"}),
        (("en", "de"), "Fri 31 Dec, not Sat", {"Fri": "Freitag", "Dec": "Dezember"}),
        (("en", "de"), "Friday October 31", {"Friday": "Freitag", "October": "Oktober"}),
        (("en", "de"), "Black Friday in the Sunday Times", {}),
        (("en", "de"), "No fewer than 5, less than 6", {"less than": "weniger als"}),
        (("en", "fr"), "At most 5 of no. 7, no. Not that.", {"At most": "au plus", "no.": "n°"}),
        (("en", "de"), "500 BC, i.e. see p. 5, not p. X", {"BC": "v. Chr.", "p.": "S."}),
        (("de", "en"), "Am Mittwoch, S. 12, 300 v. Chr.", {"Mittwoch": "Wednesday", "S.": "p."}),
        (("de", "fr"), "Höchstens 5 im Mai, Freitagabend", {"Höchstens": "au plus", "Mai": "mai"}),
        (("fr", "en"), "Mars est loin, le 3 mars; lundi", {"mars": "March", "lundi": "Monday"}),
        (("fr", "de"), "moins d’un an, plus de 5 n° 7", {"moins d’": "weniger als", "n°": "Nr."}),
        (
            ("fr", "en"),
            "le lundi de Pâques, puis un lundi",
            {"lundi de Pâques": "Easter Monday", "lundi": "Monday"},
        ),
        (("de", "fr"), "Karfreitag, ein Freitag", {"Karfreitag": "vendredi saint"}),
        (("fr", "en"), "l'inexpérience des jeunes", {"inexpérience": "inexperience"}),
        (("de", "en"), "harmlose Hunde, wertlos", {"harmlose": "harmless", "wertlos": "worthless"}),
        (("en", "fr"), "two tenants, a tenant", {"tenants": "locataires", "tenant": "locataire"}),
        (("de", "en"), "Mieter mit Mietern", {"Mieter": "tenant", "Mietern": "tenants"}),
        (("en", "de"), "It does not freeze; they freeze it.", {"freeze": "einfrieren"}),
        (("en", "de"), "the harmlessness of it", {}),
        (("en", "en"), "On Monday", {}),
        (("en", "it"), "On Monday", {}),
    ],
)
def test_phrases_of_a_text(languages: tuple[str, str], text: str, phrases: dict[str, str]) -> None:
    every = {text[phrase.begin : phrase.end]: phrase for phrase in phrases_of(text, *languages)}
    assert {source: every[source].written for source in phrases if source in every} == phrases
    assert bool(every) == bool(phrases)


@pytest.mark.parametrize(
    ("text", "translation", "is_accepted"),
    [
        ("on Monday", "am Montagabend", True),
        ("on Monday", "am Dienstag", False),
        ("at least 5", "wenigstens fünf", True),
        ("at least 5", "höchstens 5", False),
        ("less than 5", "unter 5", True),
        ("less than 5", "mehr als 5", False),
        ("no more than 5", "mehr als 5", False),
        ("in May", "im Main", False),
        ("No. 5", "Nein. 5", False),
        ("No. 5", "Nummer 5", True),
        ("harmless", "harmlosere", True),
        ("harmless", "harmvoll", False),
    ],
)
def test_a_translation_may_have_another_phrase_of_the_same_meaning(
    text: str, translation: str, is_accepted: bool
) -> None:
    (phrase,) = phrases_of(text, "en", "de")
    assert bool(phrase.accepted.search(translation)) == is_accepted


@pytest.mark.parametrize(
    ("text", "translation"),
    [("less than 5", "au moins 5"), ("at least 5", "moins de 5"), ("more than 5", "au plus 5")],
)
def test_an_opposite_limit_in_french_is_no_translation(text: str, translation: str) -> None:
    (phrase,) = phrases_of(text, "en", "fr")
    assert phrase.accepted.search(translation) is None


@pytest.mark.parametrize("language", ["en", "de", "fr"])
def test_each_language_has_all_months(language: str) -> None:
    assert len(months(language)) == 12
    assert months(language)[8].casefold().startswith("septemb")


@pytest.mark.parametrize(
    ("source", "target", "changes"),
    [
        ("approx. 5 euros", "ungefähr. 5 Euro", [(8, 9, "")]),
        ("approx. 5 euros", "ca. 5 Euro", []),
        ("It is approx. 5.", "Es sind ungefähr. Und 5.", []),
        ("about 5", "ungefähr. 5", []),
    ],
)
def test_words_have_no_point_of_an_abbreviation(
    source: str, target: str, changes: list[tuple[int, int, str]]
) -> None:
    assert list(points(source, target, "en", "de")) == changes


@pytest.mark.parametrize(
    ("language", "prefix"),
    [("en", "un|in|im|ir|dis"), ("de", "un"), ("fr", "in|im|ir|dés|mal")],
)
def test_no_word_with_a_negative_prefix_may_lose_it(language: str, prefix: str) -> None:
    source = "de" if language == "en" else "en"
    tried = set()
    for words in _sources(language):
        if (positive := re.sub(f"^(?:{prefix})", "", words)) == words or len(positive) < 5:
            continue
        for phrase in phrases_of(f"die {words} und the {words}", language, source):
            for back in phrases_of(phrase.written, source, language):
                assert not back.accepted.search(positive), (words, positive)
                tried.add(words)
    assert len(tried) > 10
