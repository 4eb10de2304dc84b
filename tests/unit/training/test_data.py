from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest
import torch

from dragoman.errors import UsageError
from dragoman.text import BEGIN_ID, END_ID, PAD_ID, Tokenizer
from tests.toy import reverse_pairs
from training.data import Batch, Examples, read_lines, read_pairs


def written(folder: Path, **sides: bytes) -> Path:
    for language, text in sides.items():
        (folder / f"text.{language}").write_bytes(text)
    return folder / "text"


def test_plain_and_compressed_files_read_alike(tmp_path: Path) -> None:
    text = "ä\nb b\n".encode()
    written(tmp_path, aa=text)
    (tmp_path / "text.bb.gz").write_bytes(gzip.compress(text))
    (tmp_path / "text.cc.xz").write_bytes(lzma.compress(text))
    for language in ("aa", "bb", "cc"):
        assert read_lines(tmp_path / "text", language) == ["ä", "b b"]


def test_pairs_with_an_empty_side_are_left_out(tmp_path: Path) -> None:
    prefix = written(tmp_path, aa=b"a\n \nc\n", bb=b"A\nB\nC\n")
    assert read_pairs(prefix, ("aa", "bb")) == [("a", "A"), ("c", "C")]


def test_bad_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"text\.aa: no such file"):
        read_lines(tmp_path / "text", "aa")
    prefix = written(tmp_path, aa=b"a\nb\n", bb=b"A\n", cc=b"ok\n\xff\n")
    with pytest.raises(UsageError, match=r"the sides differ.*2 in aa, 1 in bb"):
        read_pairs(prefix, ("aa", "bb"))
    with pytest.raises(UsageError, match=r"text\.cc: line 2 is not UTF-8"):
        read_lines(prefix, "cc")
    (tmp_path / "text.dd.gz").write_bytes(gzip.compress(b"a\n" * 1000)[:30])
    with pytest.raises(UsageError, match=r"text\.dd\.gz: cannot be read"):
        read_lines(prefix, "dd")


@pytest.fixture
def examples(tokenizer: Tokenizer) -> Examples:
    return Examples(reverse_pairs(300, seed=1), ("en", "de"), tokenizer, 200)


def rows(batch: Batch) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Source and target of each row, without padding."""
    return [
        (tuple(s for s in src if s != PAD_ID), tuple(t for t in tgt if t != PAD_ID))
        for src, tgt in zip(batch.src_ids.tolist(), batch.tgt_out_ids.tolist(), strict=True)
    ]


def test_an_epoch_holds_every_example_once_in_both_directions(
    examples: Examples, tokenizer: Tokenizer
) -> None:
    seen = sorted(row for batch in examples.batches(200, seed=1, epoch=0) for row in rows(batch))
    expected = []
    for english, german in reverse_pairs(300, seed=1):
        for src, tgt, language in ((english, german, "de"), (german, english, "en")):
            source = tuple(tokenizer.encode_source(src, language))
            expected.append((source, (*tokenizer.encode(tgt), END_ID)))
    assert seen == sorted(expected)
    assert len(examples) == 600


def test_batches_keep_to_their_size_and_shift_the_target(examples: Examples) -> None:
    for batch in examples.batches(200, seed=1, epoch=0):
        sentences = batch.src_ids.size(0)
        assert sentences * max(batch.src_ids.size(1), batch.tgt_in_ids.size(1)) <= 200
        assert (batch.tgt_in_ids[:, 0] == BEGIN_ID).all()
        later, earlier = batch.tgt_in_ids[:, 1:], batch.tgt_out_ids[:, :-1]
        assert ((later == earlier) | (later == PAD_ID)).all()


def test_order_follows_seed_and_epoch_alone(examples: Examples) -> None:
    def order(seed: int, epoch: int) -> list[torch.Tensor]:
        return [batch.src_ids for batch in examples.batches(200, seed, epoch)]

    first, again = order(1, 0), order(1, 0)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    for other in (order(1, 1), order(2, 0)):
        assert any(a.shape != b.shape or not torch.equal(a, b) for a, b in zip(first, other))  # noqa: B905


def test_joined_examples_hold_two_of_one_direction(
    examples: Examples, tokenizer: Tokenizer
) -> None:
    singles = {row for batch in examples.batches(500, seed=1, epoch=0) for row in rows(batch)}
    by_source = {src[1:-1]: tgt[:-1] for src, tgt in singles}
    joined = [
        row
        for batch in examples.batches(500, seed=1, epoch=0, joined_share=1.0)
        for row in rows(batch)
    ]
    assert len(joined) == len(examples)
    for src, tgt in joined[:50]:
        text = src[1:-1]
        splits = (
            (text[:cut], text[cut:])
            for cut in range(1, len(text))
            if text[:cut] in by_source and text[cut:] in by_source
        )
        assert any(by_source[a] + by_source[b] == tgt[:-1] for a, b in splits)


def test_long_pairs_are_left_out_and_counted(tokenizer: Tokenizer) -> None:
    pairs = [("red", "blue"), ("red " * 50, "blue")]
    examples = Examples(pairs, ("en", "de"), tokenizer, max_length_tokens=20)
    assert (len(examples), examples.left_out) == (2, 1)
