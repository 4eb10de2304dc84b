from __future__ import annotations

import pytest
from dragoman_serving.fidelity.literals import Literal, Literals, tag_spans
from dragoman_serving.translation.segments import pieces_of_text
from hypothesis import given
from hypothesis import strategies as st

from dragoman.kernel.text import Tokenizer
from dragoman.kernel.texts.sentences import LineBreaks
from tests.conftest import REPOSITORY

BUNDLE = REPOSITORY / "model_repository/translate/1/bundle"
MOST_TOKENS = 20


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(BUNDLE / "tokenizer.model")


def sentences(text: str, tokenizer: Tokenizer, most_tokens: int = 100) -> list[str]:
    literals = Literals(tokenizer).of(text, "en", keep=[Literal(*span) for span in tag_spans(text)])
    pieces = list(pieces_of_text(text, "en", most_tokens, tokenizer, literals))
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
    literals = Literals(tokenizer).of(text, "en", keep=[Literal(*span) for span in tag_spans(text)])
    pieces = pieces_of_text(text, "en", 100, tokenizer, literals)
    both = [(breaks.line, kept) for breaks, kept in pieces]
    sides = ["\n".join(line for line, _ in both), "".join(kept for _, kept in both)]
    for placeholder in ("<b a='X. Y'>", "{A. B}"):
        assert sum(side.count(placeholder) for side in sides) == text.count(placeholder)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("♪ We sing ♪ now ♪", [("", "♪ "), ("We sing ♪ now", " ♪")]),
        ("Good. ☀️ Yes ☀️", [("Good.", " ☀️ "), ("Yes", " ☀️")]),
        ("{a} {b}. Yes.", [("", "{a} {b}. "), ("Yes.", "")]),
        ("10 000 (5). Yes.", [("", "10 000 (5). "), ("Yes.", "")]),
        (
            r"Open it\nClose C:\new.txt now\r\n\tor \textbf{x}",
            [("Open it", r"\n"), (r"Close C:\new.txt now", r"\r\n\t"), (r"or \textbf{x}", "")],
        ),
        ("3 km", [("3 km", "")]),
    ],
)
def test_signs_at_the_ends_and_sentences_without_words_are_kept(
    tokenizer: Tokenizer, text: str, pieces: list[tuple[str, str]]
) -> None:
    parts = pieces_of_text(text, "en", 100, tokenizer, Literals(tokenizer).of(text, "en"))
    joined: list[tuple[str, str]] = []
    for breaks, kept in parts:
        if not breaks.line and joined:
            joined[-1] = (joined[-1][0], joined[-1][1] + kept)
        else:
            joined.append((breaks.line, kept))
    assert joined == pieces


@given(st.lists(st.sampled_from(["Red. ", "😀 ", "{A. B}", "3.5 ", "blue\r\n"]), max_size=9))
def test_no_character_is_lost(tokenizer: Tokenizer, parts: list[str]) -> None:
    text = "".join(parts)
    pieces = pieces_of_text(text, "en", 100, tokenizer, Literals(tokenizer).of(text, "en"))
    assert "".join(breaks.put_into(breaks.line) + kept for breaks, kept in pieces) == text


def test_a_literal_is_never_cut(tokenizer: Tokenizer) -> None:
    long = "one two three " * MOST_TOKENS
    text = f"It is {long}now."
    keep = [Literal(6, 6 + len(long))]
    joined = "".join(breaks.line for breaks, _ in pieces_of_text(text, "en", 9, tokenizer, keep))
    assert long.strip() in joined


def test_a_line_break_tag_ends_a_line(tokenizer: Tokenizer) -> None:
    text = "- Hello <b>Anna<br />\n- Hi</b> <BR class='x'>my friend"
    pieces = list(pieces_of_text(text, "en", MOST_TOKENS, tokenizer, has_tags=True))
    assert [breaks.line for breaks, _ in pieces if breaks.line] == [
        *("Hello <b>Anna", "Hi</b>", "my friend")
    ]
    assert "".join(breaks.line + kept for breaks, kept in pieces) == text
    (whole,) = pieces_of_text("a <br> b", "en", MOST_TOKENS, tokenizer)
    assert whole[0].line == "a <br> b"


def test_several_spaces_are_kept_on_request(tokenizer: Tokenizer) -> None:
    for keeps_spaces, expected in ((True, LineBreaks.of("a  b")), (False, LineBreaks("a  b"))):
        pieces = pieces_of_text("a  b", "en", MOST_TOKENS, tokenizer, keeps_spaces=keeps_spaces)
        assert list(pieces) == [(expected, "")]
    assert LineBreaks.of("a  b").put_into("c d") == "c  d"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no files|one file|{n} files", ["no files", "one file", "{n} files"]),
        ("No | One | {n} files", ["No", "One", "{n} files"]),
        ("{% if n %}{{ n }} cats{% endif %} here", ["{{ n }} cats", "here"]),
        ("a) {x} is open", ["{x} is open"]),
    ],
)
def test_a_placeholder_beside_kept_signs_stays_in_its_sentence(
    tokenizer: Tokenizer, text: str, expected: list[str]
) -> None:
    assert [sentence for sentence in sentences(text, tokenizer) if sentence] == expected
