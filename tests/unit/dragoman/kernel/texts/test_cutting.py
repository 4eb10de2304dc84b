# ruff: noqa: RUF001  the punctuation of several languages
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.kernel.text import Tokenizer
from dragoman.kernel.texts.cutting import Uncuttable, cut_sentence


class Letters:
    """A token is a letter with the white space before it."""

    def encode(self, text: str) -> list[int]:
        return [0 for letter in text if not letter.isspace()]

    def token_starts(self, text: str) -> list[int]:
        return [at for at, letter in enumerate(text) if not letter.isspace()]


def pieces(text: str, most: int, language: str = "en") -> list[str]:
    return [piece for piece, _ in cut_sentence(text, most, language, Letters())]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("short", ["short"]),
        ("aaaa, bbbb; cccc dddd", ["aaaa, bbbb;", "cccc dddd"]),
        ("aaaa bbbb, cccc dddd", ["aaaa bbbb,", "cccc dddd"]),
        ("aaaa bb and bb cccc", ["aaaa bb", "and bb cccc"]),
        ("aaaa bbbb cccc dddd", ["aaaa bbbb", "cccc dddd"]),
        ("aaaabbbbccccdddd", ["aaaabbbb", "ccccdddd"]),
        ("aaa 1,000 12:30 bb", ["aaa 1,000", "12:30 bb"]),
        ("見出し、見出しの、見出しです。はい", ["見出し、見出しの、", "見出しです。はい"]),
        ("aaaa – bbbbbb cc dd", ["aaaa –", "bbbbbb cc dd"]),
    ],
)
def test_the_best_position_is_chosen(text: str, expected: list[str]) -> None:
    assert pieces(text, 14) == expected


def test_conjunctions_are_those_of_the_language() -> None:
    assert pieces("aaaa b und bbbb cccc", 14, "de") == ["aaaa b", "und bbbb cccc"]
    assert pieces("aaaa b und bbbb cccc", 14, "fr") == ["aaaa b und", "bbbb cccc"]


def test_parts_have_similar_lengths() -> None:
    for words in range(21, 200, 7):
        lengths = [piece.count("x") for piece in pieces("x " * words + "x", 20)]
        assert len(lengths) == -(-(words + 1) // 20)
        assert max(lengths) - min(lengths) <= 2


def test_letters_keep_their_accents() -> None:
    parts = pieces("e\u0301" * 50, 11)
    assert all(piece.startswith("e") for piece in parts)


@given(st.text(max_size=80).map(str.strip), st.integers(min_value=16, max_value=60))
def test_every_part_is_short_enough_and_no_text_is_lost(
    tokenizer: Tokenizer, text: str, most: int
) -> None:
    parts = cut_sentence(text * 3, most, "en", tokenizer)
    assert "".join(piece + space for piece, space in parts) == text * 3
    assert all(len(tokenizer.encode(piece)) <= most for piece, _ in parts)
    assert all(space.isspace() or not space for _, space in parts)
    if text:
        assert all(piece for piece, _ in parts)


def test_a_character_that_is_too_long_is_reported(tokenizer: Tokenizer) -> None:
    with pytest.raises(Uncuttable, match="'漢' alone has more tokens than a piece may have, 3"):
        cut_sentence("red 漢", 3, "en", tokenizer)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("aaaa <a, bbbb> cccc", ["aaaa", "<a, bbbb> cccc"]),
        ("aaa <bb; bb> cc dd", ["aaa <bb; bb>", "cc dd"]),
        ("aaaaaaaaaa<bbbb>ccccc", ["aaaaaaaaaa", "<bbbb>ccccc"]),
        ("<aaaaaaaaaaaaaaaaaaaa>", ["<aaaaaaaaaaaa", "aaaaaaaa>"]),  # too long
    ],
)
def test_spans_are_kept_whole(text: str, expected: list[str]) -> None:
    spans = [(text.index("<"), text.index(">") + 1)]
    parts = [piece for piece, _ in cut_sentence(text, 13, "en", Letters(), spans)]
    assert parts == expected
