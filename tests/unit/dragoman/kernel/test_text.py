from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.kernel.errors import UsageError
from dragoman.kernel.text import END_ID, UNKNOWN_ID, Tokenizer


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


def test_tokens_begin_where_their_characters_do(tokenizer: Tokenizer) -> None:
    assert tokenizer.token_starts("red  blue") == [0, 3]
    starts = tokenizer.token_starts("漢 red")
    assert len(starts) == len(tokenizer.encode("漢 red"))
    assert (starts[0], starts[-1]) == (0, 1)
