from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from dragoman_serving.scoring.alignment import (
    Linked,
    WordLinks,
    Words,
    composed,
    piece_weights,
    word_links,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.kernel.text import Piece, Tokenizer
from dragoman.kernel.texts.sentences import split_sentences
from tests.conftest import REPOSITORY

BUNDLE = REPOSITORY / "model_repository" / "translate" / "1" / "bundle"
WORD = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=8).filter(
    lambda word: len(word.split()) == 1 and word.isprintable()
)


@pytest.fixture(scope="module")
def shipped() -> Tokenizer:
    return Tokenizer(Path(BUNDLE) / "tokenizer.model")


def linked(
    tokenizer: Tokenizer, source: str, target: str, weights: npt.NDArray[Any] | None = None
) -> Linked:
    """A sentence whose target tokens have random attention, or the given one."""
    src, tgt = tokenizer.pieces(source), tokenizer.decoded_pieces(tokenizer.encode(target))
    if weights is None:
        weights = np.random.default_rng(0).random((len(tgt), len(src)))
    return Linked(src, tgt, weights.astype(np.float32))


def links(pairs: str) -> list[tuple[int, int]]:
    split = [pair.split("-") for pair in pairs.split()]
    return [(int(source), int(target)) for source, target in split]


@settings(max_examples=200)
@given(st.text())
def test_words_equal_those_of_split(text: str) -> None:
    words = Words(text)
    assert len(words) == len(text.split())
    seen = ["" for _ in text.split()]
    for place, character in enumerate(text):
        word = words.at(place)
        if not character.isspace():
            assert word is not None
            seen[word] += character
    assert seen == text.split()


@settings(max_examples=200)
@given(st.text(max_size=60), st.text(max_size=60))
def test_every_index_is_in_range(shipped: Tokenizer, source: str, given: str) -> None:
    target = shipped.decode(shipped.encode(given))
    pairs = links(str(word_links(source, target, [linked(shipped, source, given)])))
    assert pairs == sorted(set(pairs))
    for src, tgt in pairs:
        assert 0 <= src < len(source.split())
        assert 0 <= tgt < len(target.split())


@settings(max_examples=200)
@given(st.text(max_size=60))
def test_positions_in_a_text_are_ordered_and_within_it(shipped: Tokenizer, text: str) -> None:
    pieces = shipped.pieces(text)
    assert [piece.id for piece in pieces] == shipped.encode(text)
    decoded = shipped.decode(shipped.encode(text))
    for tokens, whole in (
        (pieces, text),
        (shipped.decoded_pieces(shipped.encode(text)), decoded),
    ):
        assert len(tokens) == len(pieces)
        places = [place for piece in tokens for place in (piece.begin, piece.end)]
        assert places == sorted(places)
        assert not places or 0 <= places[0] <= places[-1] <= len(whole)


@settings(max_examples=200)
@given(st.lists(WORD, min_size=1, max_size=8), st.sampled_from([" ", "  ", "\n", "\u3000"]))
def test_identical_tokens_link_identical_words(
    shipped: Tokenizer, words: list[str], space: str
) -> None:
    text = space.join(words)
    pieces = shipped.pieces(text)
    same = Linked(pieces, pieces, np.eye(len(pieces), dtype=np.float32))
    pairs = links(str(word_links(text, text, [same])))
    # Characters that NFKC drops have no token, and so no link.
    assert all(source == target for source, target in pairs)
    plain = [index for index, word in enumerate(words) if word.isascii()]
    assert {(index, index) for index in plain} <= set(pairs)


def test_sentences_are_counted_in_their_texts(shipped: Tokenizer) -> None:
    text = " Red blue.\n\nGreen white black. "
    sentences, at = [], 0
    for part, space in split_sentences(text, "en"):
        pieces = shipped.pieces(part)
        weights = np.eye(len(pieces), dtype=np.float32)
        sentences.append(Linked(pieces, pieces, weights, at, at))
        at += len(part) + len(space)
    assert str(word_links(text, text, sentences)) == "0-0 1-1 2-2 3-3 4-4"


def test_a_link_is_the_position_with_the_most_attention(shipped: Tokenizer) -> None:
    source, target = "coffee please", "bitte Kaffee"
    src, tgt = shipped.pieces(source), shipped.pieces(target)
    weights = np.zeros((len(tgt), len(src)), np.float32)
    for row, piece in enumerate(tgt):
        from_word = 0 if piece.begin >= len("bitte") else 1
        weights[row, [p.begin >= len("coffee") for p in src].index(bool(from_word))] = 1
    assert str(word_links(source, target, [Linked(src, tgt, weights)])) == "0-1 1-0"


def test_soft_weights_of_other_sentences_are_zero(shipped: Tokenizer) -> None:
    first, second = linked(shipped, "red", "blue"), linked(shipped, "green white", "black")
    soft = json.loads(str(piece_weights("red green white", "blue black", [first, second])))
    weights = np.array(soft["weights"])
    assert weights.shape == (len(soft["target"]), len(soft["source"]))
    rows, columns = first.weights.shape
    np.testing.assert_allclose(weights[:rows, :columns], first.weights, atol=1e-4)
    np.testing.assert_allclose(weights[rows:, columns:], second.weights, atol=1e-4)
    assert not weights[:rows, columns:].any()
    assert not weights[rows:, :columns].any()


def test_an_empty_translation_has_no_links(shipped: Tokenizer) -> None:
    nothing = Linked(shipped.pieces("red"), [], np.zeros((0, 1), np.float32))
    assert str(word_links("red", "", [nothing])) == ""
    assert json.loads(str(piece_weights("red", "", [nothing])))["weights"] == []


def test_punctuation_is_ignored_in_words_with_letters(shipped: Tokenizer) -> None:
    source, target = "red car , now", "Auto, jetzt !"
    src, tgt = shipped.pieces(source), shipped.decoded_pieces(shipped.encode(target))
    weights = np.zeros((len(tgt), len(src)), np.float32)
    words = {"Auto": "car", "jetzt": "now"}
    for row, piece in enumerate(tgt):
        word = words.get(piece.text.strip("▁"), "red")  # punctuation attends to the first word
        weights[row, [piece.text.strip("▁") for piece in src].index(word)] = 1
    pairs = links(str(word_links(source, target, [Linked(src, tgt, weights)])))
    assert pairs == [(0, 2), (1, 0), (3, 1)]


def test_links_are_composed_through_the_pivot_words() -> None:
    first = WordLinks(frozenset({(0, 0), (1, 0), (2, 3)}))
    second = WordLinks(frozenset({(0, 1), (3, 0), (4, 2)}))
    assert str(second.after(first)) == "0-1 1-1 2-0"


def test_weights_are_composed_for_any_pivot_tokens_and_line_breaks(
    shipped: Tokenizer,
) -> None:
    """One vocabulary has words, the other one letters."""
    between = "good morning all"
    words = [
        Piece(word, 0, begin, begin + len(word))
        for word, begin in zip(between.split(), (0, 5, 13), strict=True)
    ]
    letters = [
        Piece(letter, 0, at, at + 1)
        for at, letter in enumerate(between.replace(" ", "\r\n", 1))
        if letter.strip()
    ]
    source, target = shipped.pieces("a b c"), shipped.pieces("a b c")
    assert len(source) == len(target) == 3
    into = piece_weights("a b c", between, [Linked(source, words, np.eye(3, dtype=np.float32))])
    of_letters = np.repeat(np.eye(3, dtype=np.float32) / [[4], [7], [3]], (4, 7, 3), axis=1)
    onward = piece_weights(
        source=between.replace(" ", "\r\n", 1),
        target="a b c",
        sentences=[Linked(letters, target, of_letters)],
    )
    np.testing.assert_allclose(onward.after(into).weights, np.eye(3), atol=1e-6)
    assert composed(into, onward) is not None
    assert composed(None, onward) is None
