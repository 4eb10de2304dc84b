"""Translations that say the opposite of their sentence."""

from __future__ import annotations

import itertools

import pytest
from dragoman_serving.fidelity.negations import says_opposite

DIRECTIONS = [("en", "de"), ("de", "en"), ("en", "fr"), ("fr", "en"), ("de", "fr"), ("fr", "de")]
NEGATED = {
    "en": [
        "This is not a house.",
        "I don't see it.",
        "He never came.",
        "You cannot open it.",
        "No one came.",
        "Unable to open it.",
        "The code is incorrect.",
        "Disconnect the line.",
        "An unknown error",
    ],
    "de": [
        "Das ist kein Haus.",
        "Ich sehe es nicht.",
        "Er kam nie.",
        "Niemand kam.",
        "Ohne das Haus.",
        "Das ist unmöglich.",
        "Ungültiger Code",
        "Ein unbekanntes Haus",
    ],
    "fr": [
        "Ce n'est pas une maison.",
        "Il n'est jamais venu.",
        "Personne n'est venu, jamais.",
        "Je ne vois rien.",
        "C'est impossible.",
        "Le code est incorrect.",
        "Une erreur inconnue",
    ],
}
PLAIN = {
    "en": ["This is a house.", "Rule No. 5 is noted.", "I know it, and nowadays he comes."],
    "de": [
        "Das ist ein Haus.",
        "Ich niese, er verneinte es im Niederland.",
        "Er kam, wie er nun ist.",
    ],
    "fr": ["C'est une maison.", "Il est venu.", "Le passage est une panne."],
}


@pytest.mark.parametrize(("source", "target"), DIRECTIONS)
def test_a_negation_is_on_both_sides_or_on_none(source: str, target: str) -> None:
    for text in NEGATED[source]:
        for translation in PLAIN[target]:
            assert says_opposite(text, translation, source, target), (text, translation)
        for translation in NEGATED[target]:
            assert not says_opposite(text, translation, source, target), (text, translation)
    for text in PLAIN[source]:
        for translation in NEGATED[target]:
            assert says_opposite(text, translation, source, target), (text, translation)
        for translation in PLAIN[target]:
            assert not says_opposite(text, translation, source, target), (text, translation)


@pytest.mark.parametrize(
    ("source", "target", "text", "translation"),
    [
        ("en", "de", "No matter what he says.", "Egal, was er sagt."),
        ("en", "de", "You know it, don't you?", "Du weißt es, oder?"),
        ("en", "de", "Not only here, there too.", "Hier und dort."),
        ("en", "fr", "Remember to close the door.", "N'oubliez pas de fermer la porte."),
        ("en", "fr", "It is only a house.", "Ce n'est qu'une maison."),
        ("en", "fr", "We ran out of wine.", "Nous n'avons plus de vin."),
        ("fr", "en", "Il est venu sans doute.", "He probably came."),
        ("fr", "en", "Ce n'est qu'une maison.", "It is a house."),
        ("de", "en", "Es ist nicht möglich.", "It is impossible."),
        ("de", "en", "Das ist gut, nicht wahr?", "That is good, right?"),
        ("en", "de", "Disconnect the lines.", "Die Linien trennen"),
        ("en", "de", "Unlock the door and unite.", "Schließ die Tür auf und vereinige dich."),
        ("en", "fr", "Unexpected error", "Erreur inattendue"),
        ("de", "en", "Der unmittelbare Grund", "The immediate reason"),
        ("en", "de", "He refused to come.", "Er wollte nicht kommen."),
        ("en", "es", "This is not a house.", "Es una casa."),
        ("en", "en", "This is not a house.", "This is a house."),
    ],
)
def test_a_negation_may_be_said_in_another_way(
    source: str, target: str, text: str, translation: str
) -> None:
    assert not says_opposite(text, translation, source, target)


CLAUSES = {
    "en": ["he did not come", "she never saw it", "without a coat", "neither rich nor poor"],
    "de": ["er kam nicht", "sie sah es nie", "ohne Mantel", "weder reich noch arm"],
    "fr": [
        "il n'est pas venu",
        "elle ne l'a jamais vu",
        "sans manteau",
        "il n'est ni riche ni pauvre",
    ],
}


@pytest.mark.parametrize(("source", "target"), DIRECTIONS)
def test_two_negations_are_two_in_the_translation(source: str, target: str) -> None:
    for first, last in itertools.permutations(range(4), 2):
        text = f"{CLAUSES[source][first]}, {CLAUSES[source][last]}."
        both = f"{CLAUSES[target][first]}, {CLAUSES[target][last]}."
        assert not says_opposite(text, both, source, target), (text, both)
        for index in (first, last):
            single = f"{CLAUSES[target][index]}."
            has_two_words = " ni " in single or " nor " in single
            assert says_opposite(text, single, source, target) != has_two_words, (text, single)


@pytest.mark.parametrize(
    ("text", "translation", "target"),
    [
        ("Personne ne dit jamais rien.", "No one ever says anything.", "en"),
        ("Je ne crois plus rien.", "Ich glaube nichts mehr.", "de"),
        ("Il n'a ni frère ni sœur.", "He has no brother or sister.", "en"),
    ],
)
def test_a_french_negation_of_several_words_is_one(
    text: str, translation: str, target: str
) -> None:
    assert not says_opposite(text, translation, "fr", target)


@pytest.mark.parametrize(
    ("source", "target", "text", "translation"),
    [
        ("en", "de", "The uncertainty is a problem.", "Die Ungewissheit ist ein Problem."),
        ("en", "de", "The inability is a problem.", "Die Unfähigkeit ist ein Problem."),
        ("de", "fr", "Die Unsicherheit ist ein Problem.", "La précarité est un problème."),
        ("fr", "en", "les incompatibilités", "the conflicts"),
    ],
)
def test_a_noun_is_no_negation(source: str, target: str, text: str, translation: str) -> None:
    assert not says_opposite(text, translation, source, target)
