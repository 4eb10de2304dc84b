from __future__ import annotations

from pathlib import Path

import pytest
from dragoman_training.config import VocabularyConfig
from dragoman_training.text.extension import Former, extend_vocabulary

from dragoman.kernel.errors import UsageError
from dragoman.kernel.text import Tokenizer
from tests.conftest import files_no_larger_than
from tests.toy import reverse_pairs

FRENCH = ["du café noir", "le café est noir", "du thé vert", "le thé est vert", "café café"] * 20
LANGUAGES = ("en", "de", "fr")


@pytest.fixture
def former(tokenizer_path: Path) -> Former:
    return Former(tokenizer_path, ("en", "de"))


def extended(former: Former, path: Path, size: int) -> Tokenizer:
    extend_vocabulary(former, FRENCH, LANGUAGES, VocabularyConfig(size, 1.0), path)
    return Tokenizer(path)


def test_known_text_is_tokenized_as_before(
    former: Former, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    grown = extended(former, tmp_path / "it", 347)
    assert grown.vocab_size == 347
    assert grown.vocabulary[:320] == tokenizer.vocabulary
    for english, _ in reverse_pairs(50, seed=3):
        assert grown.encode(english) == tokenizer.encode(english)
    assert [grown.tag_id(language) for language in LANGUAGES] == [4, 5, 320]
    with pytest.raises(UsageError, match="no tag"):
        tokenizer.tag_id("fr")


def test_frequent_words_become_tokens(former: Former, tokenizer: Tokenizer, tmp_path: Path) -> None:
    grown = extended(former, tmp_path / "it", 347)
    assert [piece.text for piece in grown.pieces("le café vert")] == ["▁le", "▁café", "▁vert"]
    assert grown.decode(grown.encode("du café noir")) == "du café noir"
    # Characters come first: if no entries are left for merges, text is split into these.
    few = extended(former, tmp_path / "few", 320 + 1 + len(set("".join(FRENCH)) - known(tokenizer)))
    assert "é" in few.vocabulary
    assert len(few.encode("le café")) > len(grown.encode("le café"))


def known(tokenizer: Tokenizer) -> set[str]:
    return {*tokenizer.vocabulary, " "}


def test_no_token_mixes_letters_and_other_characters(former: Former, tmp_path: Path) -> None:
    text = ["l'eau, 12 euros.", "l'eau, 13 euros."] * 50
    config, path = VocabularyConfig(337, 1.0), tmp_path / "it"
    extend_vocabulary(former, text, LANGUAGES, config, path)
    for piece in Tokenizer(path).vocabulary[321:]:
        letters = piece.removeprefix("▁")
        assert letters.isalpha() or not any(map(str.isalpha, letters)), piece
        assert len(letters) == 1 or not any(map(str.isdigit, letters)), piece


def test_other_text_of_the_same_languages_adds_tokens(
    former: Former, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    text = ["orange and violet", "violet and orange"] * 50
    config, path = VocabularyConfig(328, 1.0), tmp_path / "it"
    extend_vocabulary(former, text, ("en", "de"), config, path)
    grown = Tokenizer(path)
    assert grown.vocab_size == 328
    assert grown.vocabulary[:320] == tokenizer.vocabulary
    assert len(grown.encode("violet and orange")) < len(tokenizer.encode("violet and orange"))


def test_a_vocabulary_that_covers_the_text_is_copied(former: Former, tmp_path: Path) -> None:
    extend_vocabulary(former, [], ("de", "en"), VocabularyConfig(99), tmp_path / "it")
    assert (tmp_path / "it").read_bytes() == former.path.read_bytes()


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (
            320,
            "is 320: give more than 3[0-9]+, for the 320 existing entries, and further tags",
        ),
        (2000, "is 2000: the text gives 3[0-9]+ entries"),
    ],
)
def test_an_impossible_size_is_refused(
    former: Former, tmp_path: Path, size: int, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        extended(former, tmp_path / "it", size)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_no_files(former: Former, tmp_path: Path) -> None:
    with files_no_larger_than(1000), pytest.raises(UsageError, match="cannot be written"):
        extended(former, tmp_path / "it", 347)
    assert not list(tmp_path.iterdir())
