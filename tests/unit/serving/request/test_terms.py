"""Glossaries and suppressed words, as texts and as tokens."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from dragoman_serving.engine.compiled.compiled_searches import NativeSearches
from dragoman_serving.engine.constraints import Constraints
from dragoman_serving.engine.sentence import SearchOptions, Sentence
from dragoman_serving.engine.session import Ranking
from dragoman_serving.request.glossary import Glossary
from dragoman_serving.request.suppression import suppressed_words
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.kernel.texts.terms import folded, folded_text
from tests.timing import fastest_s

PIECES = ("", "▁ab", "▁a", "b", "c", "▁", "a", "bc", "▁(", "▁ab▁c", "▁b", "?", "a?!", "!")


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("Tea!", ("Tee",)),
        ("tea and TEA", ("Tee", "Tee")),
        ("Iced tea and tea", ("Eistee", "Tee")),
        ("steamed teapots", ()),
        ("a C++ (beta) book", ("C++ (beta)",)),
        ("", ()),
    ],
)
def test_terms_are_found_as_words(text: str, targets: tuple[str, ...]) -> None:
    glossary = Glossary({"tea": "Tee", "iced tea": "Eistee", "c++ (beta)": "C++ (beta)"})
    assert tuple(term.target for term in glossary.of(text)) == targets


def test_empty_terms_are_no_terms() -> None:
    assert Glossary({}).of("tea") == []


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("A cup of tea\u00a0time.", "tea\u00a0time"),
        ("A tea  time", "tea  time"),
        ("the nai\u0308ve \uff34ea man", "nai\u0308ve \uff34ea"),
        ("Größe", "Größe"),
        ("in-house work", None),
        ("@tea #tea a/tea", None),
        ("tea-time", None),
        ("tea time-table", "tea"),
        ("TEA-Haus", "TEA"),
        ("tea-là, dit-il", "tea"),
        ("tea - hot", "tea"),
    ],
)
def test_spelling_and_white_space_make_no_difference(text: str, source: str | None) -> None:
    terms = ("tea time", "naïve tea", "GRÖSSE", "house", "tea")
    matches = Glossary(dict.fromkeys(terms, "x")).of(text)
    assert [text[match.begin : match.end] for match in matches] == ([source] if source else [])


SMALL_WORDS = st.lists(st.sampled_from("ab+ß "), min_size=1, max_size=6).map("".join)


@given(st.lists(SMALL_WORDS.filter(str.strip)), st.text(st.sampled_from("abB+ ß")))
def test_the_longest_of_several_terms_at_a_position_counts(terms: list[str], text: str) -> None:
    all_terms = sorted({folded(term) for term in terms}, key=len, reverse=True)
    any_term = "|".join(map(re.escape, all_terms))
    written = folded_text(text)[0]
    expected = re.findall(rf"(?<!\w)(?:{any_term})(?!\w)", written) if terms else []
    glossary = Glossary({term: folded(term) for term in terms})
    assert [match.target.casefold() for match in glossary.of(text)] == expected


def test_many_terms_with_one_prefix_take_little_longer_than_few() -> None:
    few, many = (
        Glossary({"z": "z", **{"- " * 90 + str(i): "x" for i in range(number)}})
        for number in (9, 900)
    )
    text = "- " * 10_000
    assert fastest_s(lambda: many.of(text)) < 10 * fastest_s(lambda: few.of(text))


def completes(text: str, piece: str, word: str) -> bool:
    """Whether a piece completes a word: at its end, or punctuation anywhere in it."""
    if not word[0].isalnum() and word in piece:
        return True
    before = (text + piece)[: -len(word)]
    return (text + piece).endswith(word) and not (word[0].isalnum() and before[-1:].isalnum())


@settings(max_examples=50)
@given(
    st.lists(st.integers(1, len(PIECES) - 1), max_size=4).map(tuple),
    st.lists(
        st.sampled_from(["ab", "abc", "b", "ab c", "a", "?", "?!", "!b"]), min_size=1, max_size=3
    ),
)
def test_a_token_that_would_complete_a_word_is_forbidden(
    prefix: tuple[int, ...], words: list[str]
) -> None:
    constraints = Constraints(prefix=prefix, suppressed=suppressed_words(words, PIECES))
    text = "".join(PIECES[i] for i in prefix).replace("▁", " ")
    for token, piece in enumerate(PIECES):
        written = piece.replace("▁", " ")
        forbidden = bool(piece) and any(completes(text, written, word) for word in words)
        assert (token_after(constraints, token) != token) == forbidden


@pytest.mark.parametrize(
    ("word", "form"), [("ab", "▁a bc"), ("a", "▁ab"), ("ab c", "▁ab ▁ b c"), ("abc", "▁ab ▁b")]
)
def test_another_form_of_a_word_is_another_word(word: str, form: str) -> None:
    """A form that no token ends in the suppressed word can be written."""
    suppressed, tokens = suppressed_words([word], PIECES), [PIECES.index(p) for p in form.split()]
    for length, token in enumerate(tokens):
        constraints = Constraints(prefix=tuple(tokens[:length]), suppressed=suppressed)
        assert token_after(constraints, token) == token


def token_after(constraints: Constraints, likely: int) -> int | None:
    """The token that greedy search chooses after the prefix if this one is the most probable."""
    end_id = len(PIECES)
    searches = NativeSearches(1, end_id, vocab_size=end_id + 1)
    steps = len(constraints.prefix) + 1
    searches.join([Sentence((1,), steps, SearchOptions(1, 0.0, constraints=constraints))])
    log_probs = np.full((1, end_id + 1), -9.0, np.float32)
    log_probs[0, likely] = -0.1
    ranking = cast(Ranking, SimpleNamespace(log_probs=lambda _logits, _rows: log_probs.copy()))
    for _ in range(steps):
        searches.advance(ranking, None)
    ids = searches.result(0).ids
    return ids[-1] if len(ids) == steps else None
