"""Names that no list of words has."""

from __future__ import annotations

import random

import pytest
from dragoman_serving.fidelity.names import WordList, names_of, plain


@pytest.mark.parametrize(
    ("language", "text", "names"),
    [
        (
            "en",
            "Yesterday Kuno met Ms. Brandvold in Dorvenham.",
            ["Kuno", "Brandvold", "Dorvenham"],
        ),
        ("en", "On Monday the French President went to Munich, Vienna and Cologne.", []),
        ("en", "The Republicans of Scotland and the Mexican Embassy", []),
        ("en", "Unsubscribe. Recently reopened: Kuno's shop", ["Kuno"]),
        ("en", "KUNO, kuno, #Kuno, kuno.Kuno, Kuno-Haus, Kuno(3), Ku", []),
        (
            "fr",
            "Lundi, l'ami d'Ilsabet a quitté la Macédoine pour Quillmere.",
            ["Ilsabet", "Quillmere"],
        ),
        ("fr", "Êtes-vous allé à Munich, à Vienne ou en Écosse ?", []),
        ("en", "The order DWLMDNNZCP of MONUSCO is IMPORTANT", ["DWLMDNNZCP", "MONUSCO"]),
        ("en", "THE ORDER OF MONUSCO", []),
        ("xx", "Kuno met Brandvold.", []),
    ],
)
def test_names_are_words_that_no_list_has(language: str, text: str, names: list[str]) -> None:
    assert [text[begin:end] for begin, end in names_of(text, language)] == names


def test_a_list_has_its_words_and_hardly_others() -> None:
    generator = random.Random(0)
    words = ["".join(generator.choices("abcdefghijklmnop", k=8)) for _ in range(4000)]
    listed = WordList.of(words[:2000])
    assert all(word in listed for word in words[:2000])
    assert sum(word in listed for word in words[2000:]) < 40


@pytest.mark.parametrize("word", ["garden", "gardens", "gardener", "regarden", "Gärden"])
def test_forms_of_a_word_are_known(word: str) -> None:
    assert WordList.of(["garden"]).has_form_of(plain(word))


@pytest.mark.parametrize("word", ["gard", "gardening", "ragarden"])
def test_other_words_are_not(word: str) -> None:
    assert not WordList.of(["garden"]).has_form_of(word)
