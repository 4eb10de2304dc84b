from __future__ import annotations

import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
import sentencepiece

from dragoman.kernel.errors import UsageError
from dragoman.kernel.text import END_ID, UNKNOWN_ID, Tokenizer


def test_texts_survive_encoding_and_decoding(tokenizer: Tokenizer) -> None:
    for text in ("red blue", "Straße", "naïve 漢字 🙂"):
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_ids_are_decoded_as_by_sentencepiece(tokenizer: Tokenizer) -> None:
    pieces = sentencepiece.SentencePieceProcessor()
    pieces.LoadFromSerializedProto(tokenizer._pieces.serialized_model_proto())
    chosen = random.Random(0)
    size = tokenizer.vocab_size
    assert tokenizer.decode([]) == ""
    for most in (8, size):  # special ids often, and rarely
        for _ in range(5000):
            ids = [chosen.randrange(most) for _ in range(chosen.randrange(1, 6))]
            decoded = pieces.DecodeIds(ids)
            assert tokenizer.decode(ids) == decoded.replace("\ufffd", ""), ids
    for outside in ([size], [5, size], [5, -1]):
        with pytest.raises(IndexError):
            tokenizer.decode(outside)


def test_threads_that_decode_at_once_get_the_same_texts(tokenizer_path: Path) -> None:
    interval_s = sys.getswitchinterval()
    ids = range(4, Tokenizer(tokenizer_path).vocab_size)

    def decoded(tokenizer: Tokenizer, begin: Barrier) -> list[str]:
        begin.wait()
        return [tokenizer.decode([token]) for token in ids]

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            for _ in range(20):
                fresh, begin = Tokenizer(tokenizer_path), Barrier(4)
                results = [pool.submit(decoded, fresh, begin) for _ in range(4)]
                expected = decoded(fresh, Barrier(1))
                assert all(future.result() == expected for future in results)
    finally:
        sys.setswitchinterval(interval_s)


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


def test_sides_with_the_same_vocabulary_share_it(tokenizer_path: Path, tmp_path: Path) -> None:
    copy, other = tmp_path / "copy.model", tmp_path / "other.model"
    copy.write_bytes(tokenizer_path.read_bytes())
    shared = Tokenizer(tokenizer_path, copy)
    assert shared.target is shared
    other.write_bytes(tokenizer_path.read_bytes() + b"\x22\x00")  # an empty field
    separate = Tokenizer(tokenizer_path, other)
    assert separate.target is not separate


def test_tokens_begin_at_their_characters(tokenizer: Tokenizer) -> None:
    assert tokenizer.token_starts("red  blue") == [0, 3]
    starts = tokenizer.token_starts("漢 red")
    assert len(starts) == len(tokenizer.encode("漢 red"))
    assert (starts[0], starts[-1]) == (0, 1)
