"""Glossaries, placeholders and suppressed words, as texts and as pieces."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dragoman_serving.request.glossary import Glossary
from dragoman_serving.request.placeholders import find_placeholders, split_at_placeholders
from dragoman_serving.request.suppression import SuppressedWords
from hypothesis import given, settings
from hypothesis import strategies as st

PIECES = ("", "▁ab", "▁a", "b", "c", "▁", "a", "bc", "▁(", "▁ab▁c", "▁b")


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("Tea!", ("Tee",)),
        ("tea and TEA", ("Tee",)),
        ("Iced tea and tea", ("Eistee", "Tee")),
        ("steamed teapots", ()),
        ("a C++ (beta) book", ("C++ (beta)",)),
        ("", ()),
    ],
)
def test_terms_are_found_as_words(text: str, targets: tuple[str, ...]) -> None:
    glossary = Glossary({"tea": "Tee", "iced tea": "Eistee", "c++ (beta)": "C++ (beta)"})
    assert glossary.targets_of(text) == targets


def test_no_terms_are_no_terms() -> None:
    assert Glossary({}).targets_of("tea") == ()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Hi {name}, {0} {} {{ a.b }} ${C}", ["{name}", "{0}", "{}", "{{ a.b }}", "${C}"]),
        ("%s %1$s %(count)d %.2f %@ 9% sure", ["%s", "%1$s", "%(count)d", "%.2f", "%@", "9"]),
        ("See https://a.de/x?y=1&z=(2), or www.b.org.", ["https://a.de/x?y=1&z=(2", "www.b.org"]),
        ("<b>bold</b> <br/> a < b > c", ["<b>", "</b>", "<br/>"]),
        ("at 10:30 on 2024-01-31 for 1,234.50", ["10:30", "2024-01-31", "1,234.50"]),
        ("mail tom.x+y@example.co.uk.", ["tom.x+y@example.co.uk"]),
        ("nothing here: B12, MP3s and 3D", []),
    ],
)
def test_placeholders_of_all_forms_are_found(text: str, found: list[str]) -> None:
    assert find_placeholders(text) == found


@settings(deadline=None)
@given(st.text(st.sampled_from("ab {}%sd<>/:.0 hw$@\n")))
def test_a_text_is_its_placeholders_and_what_is_between(text: str) -> None:
    found, between = find_placeholders(text), split_at_placeholders(text)
    assert len(between) == len(found) + 1
    assert "".join(a + b for a, b in zip(between, [*found, ""], strict=True)) == text


def whole_word(text: str, word: str) -> bool:
    before = text[: len(text) - len(word)]
    return text.endswith(word) and not before[-1:].isalnum()


@settings(deadline=None)
@given(
    st.lists(st.integers(0, len(PIECES) - 1), max_size=4).map(tuple),
    st.lists(st.sampled_from(["ab", "abc", "b", "ab c", "a"]), min_size=1, max_size=3),
)
def test_a_token_is_forbidden_where_a_word_would_be_whole(
    said: tuple[int, ...], words: list[str]
) -> None:
    scores = np.zeros(len(PIECES), np.float32)
    SuppressedWords(words, PIECES).apply(said, scores)
    text = "".join(PIECES[i] for i in said)
    for piece, score in zip(PIECES, scores, strict=True):
        written = (text + piece).replace("▁", " ")
        forbidden = bool(piece) and any(whole_word(written, word) for word in words)
        assert (score == -math.inf) == forbidden
