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
def test_placeholders_are_not_split(tokenizer: Tokenizer, parts: list[str]) -> None:
    text = "".join(parts)
    found = sentences(text, tokenizer, MOST_TOKENS)
    for placeholder in ("<b a='X. Y'>", "{A. B}"):
        assert sum(one.count(placeholder) for one in found) == text.count(placeholder)


def test_tags_that_become_codes_do_not_count(tokenizer: Tokenizer) -> None:
    text = f"Press <a href='{'x1/' * MOST_TOKENS}'>the <b>green</b> button</a> now."

    def found(tags_are_codes: bool) -> list[tuple[str, str]]:
        pieces = pieces_of_text(
            *(text, "en", MOST_TOKENS, tokenizer),
            keeps_placeholders=True,
            tags_are_codes=tags_are_codes,
        )
        return [(breaks.line, kept) for breaks, kept in pieces]

    assert found(True) == [(text, "")]
    tag = text[6 : text.index(">") + 1]
    assert found(False)[:2] == [("Press", f" {tag}"), ("the <b>green</b> button</a> now.", "")]


@pytest.mark.parametrize("part", ["Open {} now, please.", "{} is\r\n here.", "It is {}. It {}."])
def test_kept_text_longer_than_a_sentence_stays_between_two(
    tokenizer: Tokenizer, part: str
) -> None:
    long = f"https://a.org/{'x1/' * MOST_TOKENS}a"
    text = part.replace("{}", long)
    keep = [(at, at + len(long)) for at in range(len(text)) if text.startswith(long, at)]
    by_form = pieces_of_text(text, "en", MOST_TOKENS, tokenizer, keeps_placeholders=True)
    pieces = list(by_form)
    assert pieces == list(pieces_of_text(text, "en", MOST_TOKENS, tokenizer, keep=keep))
    assert sum(kept.count(long) for _, kept in pieces) == len(keep)
    whole = "".join(breaks.put_into(breaks.line) + kept for breaks, kept in pieces)
    assert whole == text
    words = [breaks.line for breaks, _ in pieces if breaks.line]
    assert all(any(map(str.isalpha, one)) for one in words)  # a full stop is not translated
