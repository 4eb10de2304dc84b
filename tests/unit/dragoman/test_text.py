from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import UsageError
from dragoman.text import END_ID, UNKNOWN_ID, Tokenizer, split_sentences


def test_texts_survive_the_way_to_ids_and_back(tokenizer: Tokenizer) -> None:
    for text in ("red blue", "Straße", "naïve 漢字 🙂"):
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_no_text_is_unknown_or_becomes_a_tag(tokenizer: Tokenizer) -> None:
    specials = {0, 1, 2, 3, tokenizer.tag_id("de"), tokenizer.tag_id("en")}
    for text in ("<2de> hello", "</s>", "<s> <pad> <unk>", "\u0000\uffff"):
        assert not specials & set(tokenizer.encode(text)) - {UNKNOWN_ID}
        assert UNKNOWN_ID not in tokenizer.encode(text)


def test_sources_carry_tag_and_end(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode_source("red", "de")
    assert ids == [tokenizer.tag_id("de"), *tokenizer.encode("red"), END_ID]
    assert tokenizer.tag_id("de") != tokenizer.tag_id("en")


def test_unknown_languages_are_named(tokenizer: Tokenizer) -> None:
    with pytest.raises(UsageError, match="unknown language 'fr'"):
        tokenizer.encode_source("red", "fr")


def test_broken_vocabularies_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t.model"
    with pytest.raises(UsageError, match=r"t\.model: cannot be read"):
        Tokenizer(path)
    path.write_bytes(b"no vocabulary")
    with pytest.raises(UsageError, match=r"t\.model: not a SentencePiece model"):
        Tokenizer(path)


def test_sentences_are_split_and_white_space_kept() -> None:
    text = "  Dr. Smith came. Who?\n\n\tNobody knows!  "
    parts = split_sentences(text, "en")
    assert [sentence for sentence, _ in parts if sentence] == [
        "Dr. Smith came.",
        "Who?",
        "Nobody knows!",
    ]
    assert "".join(sentence + space for sentence, space in parts) == text


@given(st.text(alphabet="ab.!? \n\t\u00a0\u2028é'\"", max_size=60))
def test_splitting_loses_no_character(text: str) -> None:
    parts = split_sentences(text, "en")
    assert "".join(sentence + space for sentence, space in parts) == text
    assert all(sentence == sentence.strip() for sentence, _ in parts)
