"""Which translations are faulty, and what a second search makes of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from dragoman_serving.translation.faults import fault_of, has_loop, is_copy
from dragoman_serving.translation.translator import Translator

from dragoman.kernel.hypothesis import Hypothesis
from tests.conftest import REPOSITORY

BUNDLE = REPOSITORY / "model_repository/translate/1/bundle"


@pytest.fixture(scope="module")
def shipped() -> Iterator[Translator]:
    translator = Translator(BUNDLE)
    yield translator
    translator.close()


@pytest.mark.parametrize(
    ("ids", "loops"),
    [
        ([], False),
        ([1] * 5, False),
        ([1] * 6, True),
        ([1, 2] * 3, False),
        ([1, 2] * 4, True),
        ([7, 1, 2, 3, 1, 2, 3, 1, 2, 3, 8], True),
        ([1, 2, 3, 4, 1, 2, 3, 4, 9, 1, 2, 3, 4], False),
        ([*range(12)] * 3, True),
        ([*range(13)] * 3, False),
        ([1, 5, 1, 6, 1, 7, 1, 8, 1, 9, 1], False),
    ],
)
def test_loops(ids: list[int], loops: bool) -> None:
    assert has_loop(ids) is loops


@pytest.mark.parametrize(
    ("src", "tgt", "complete", "fault"),
    [
        (range(20), range(20), True, None),
        (range(20), [3] * 20, True, "repetition"),
        ([3] * 20, [3] * 20, True, None),  # "ha ha ha" is one in every language
        (range(20), range(5), True, "short"),
        (range(20), range(5), False, None),  # its limit says so
        (range(20), range(61), True, "long"),
        (range(9), range(40), True, None),
        (range(9), range(1), True, None),
    ],
)
def test_faults(src: list[int], tgt: list[int], complete: bool, fault: str | None) -> None:
    assert fault_of(tuple(src), Hypothesis(tuple(tgt), None, complete)) == fault


@pytest.mark.parametrize(
    ("text", "translation", "copied"),
    [
        ("Chapter 7.", "Chapter 7", True),
        ("Chapter 7.", "Kapitel 7.", False),
        ("BOSTON", "Boston.", True),
        ("12:30", "12:30", False),
        ("", "", False),
        ("Tom, come in!", "Tom, komm herein!", False),
    ],
)
def test_copies(text: str, translation: str, copied: bool) -> None:
    assert is_copy(text, translation) is copied


def looping_text(translator: Translator) -> str:
    """A text whose translation loops; words that the model does not know make it do so."""
    words = ("zyx", "quorl", "vramp", "blint", "snarf", "grelp", "twonk", "plim")
    for first in range(len(words)):
        for count in range(6, 26):
            text = (
                "The " + " ".join(words[(first + i * i) % len(words)] for i in range(count)) + "."
            )
            (found,) = translator.translate([text], {"beam_width": 1, "repair": False})
            if "repetition" in found.warnings:
                return text
    raise AssertionError("no translation loops: find other words")


def test_a_loop_is_named_and_repaired(shipped: Translator) -> None:
    text = looping_text(shipped)
    (kept,) = shipped.translate([text], {"beam_width": 1, "repair": False})
    good, repaired = shipped.translate(["Good morning.", text], {"beam_width": 1})
    assert kept.warnings == ("repetition",)
    assert repaired.text != kept.text
    assert "repetition" not in repaired.warnings
    assert good.warnings == ()
    assert good.text == shipped.translate(["Good morning."], {"beam_width": 1})[0].text


def test_searches_with_results_of_their_own_are_not_repaired(shipped: Translator) -> None:
    text = looping_text(shipped)
    (found,) = shipped.translate([text], {"beam_width": 1, "prefix": "Die"})
    (whole,) = shipped.translate([text], {"beam_width": 1, "prefix": "Die", "repair": False})
    assert found == whole


def test_a_copy_is_named(shipped: Translator) -> None:
    copied, mixed = shipped.translate(["Chapter 7.", "Chapter 7. I am hungry."])
    assert copied.warnings == mixed.warnings == ("untranslated",)


def test_every_alternative_has_its_own_warnings(shipped: Translator) -> None:
    (found,) = shipped.translate(["Chapter 7."], {"num_return_sequences": 3})
    assert found.warnings == ("untranslated",)
    assert found.others[0].warnings == ()
