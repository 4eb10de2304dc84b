from __future__ import annotations

import pytest
from dragoman_serving.translation.segments import pieces_of_text
from hypothesis import given
from hypothesis import strategies as st

from dragoman.kernel.text import Tokenizer
from tests.conftest import REPOSITORY

BUNDLE = REPOSITORY / "model_repository/translate/1/bundle"
MOST_TOKENS = 20


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(BUNDLE / "tokenizer.model")


def sentences(text: str, tokenizer: Tokenizer, most_tokens: int = 100) -> list[str]:
    pieces = list(pieces_of_text(text, "en", most_tokens, tokenizer, keeps_placeholders=True))
    assert "".join(breaks.line + kept for breaks, kept in pieces) == text
    return [breaks.line for breaks, _ in pieces]


def test_no_sentence_ends_within_a_placeholder(tokenizer: Tokenizer) -> None:
    text = "Look. Give me <a title='One. Two.' id='x'> tea. {Not. Here.} It is good."
    assert sentences(text, tokenizer) == [
        "Look.",
        "Give me <a title='One. Two.' id='x'> tea.",
        "{Not. Here.} It is good.",
    ]
    assert sentences("Go. {a. b} {c. d} on. Stop.", tokenizer) == [
        "Go.",
        "{a. b} {c. d} on.",
        "Stop.",
    ]


@given(st.lists(st.sampled_from(["Red. ", "blue ", "<b a='X. Y'> ", "{A. B}", "3.5 "]), max_size=9))
def test_placeholders_are_in_one_piece(tokenizer: Tokenizer, parts: list[str]) -> None:
    text = "".join(parts)
    found = sentences(text, tokenizer, MOST_TOKENS)
    for placeholder in ("<b a='X. Y'>", "{A. B}"):
        assert sum(one.count(placeholder) for one in found) == text.count(placeholder)
