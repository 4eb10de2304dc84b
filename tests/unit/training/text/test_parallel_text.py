from __future__ import annotations

import gzip
import hashlib
import lzma
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import pytest
import torch
from dragoman_training.config import VocabularyConfig
from dragoman_training.text.examples import Batch, Examples, Part
from dragoman_training.text.parallel_text import (
    ParallelText,
    Side,
    TextFiles,
    find_languages,
    iterate_pairs,
    read_directions,
    read_lines,
    read_pairs,
    read_sides,
)
from dragoman_training.text.vocabulary import train_vocabulary, vocabulary_text

from dragoman.kernel.errors import UsageError
from dragoman.kernel.text import BEGIN_ID, END_ID, PAD_ID, Tokenizer
from tests.conftest import files_no_larger_than
from tests.toy import reverse_pairs


def written(folder: Path, **sides: bytes) -> Path:
    for language, text in sides.items():
        (folder / f"text.{language}").write_bytes(text)
    return folder / "text"


def test_plain_and_compressed_files_give_the_same_text(tmp_path: Path) -> None:
    text = "ä\nb b\n".encode()
    written(tmp_path, aa=text)
    (tmp_path / "text.bb.gz").write_bytes(gzip.compress(text))
    (tmp_path / "text.cc.xz").write_bytes(lzma.compress(text))
    for language in ("aa", "bb", "cc"):
        assert read_lines(tmp_path / "text", language) == ["ä", "b b"]


def test_pairs_with_an_empty_side_are_omitted(tmp_path: Path) -> None:
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
    damaged = bytearray(gzip.compress(random.Random(0).randbytes(2000).hex().encode()))
    damaged[200:400] = b"\xff" * 200
    (tmp_path / "text.ee.gz").write_bytes(damaged)
    with pytest.raises(UsageError, match=r"text\.ee\.gz: cannot be read"):
        read_lines(prefix, "ee")
    prefix = written(tmp_path, aa=b"", bb=b"")
    with pytest.raises(UsageError, match=r"text\.aa: is empty"):
        read_pairs(prefix, ("aa", "bb"))


def test_a_text_that_gives_no_pairs_is_refused(tmp_path: Path) -> None:
    prefix = written(tmp_path, aa=b" \nb\n", bb=b"A\n\n", cc=b"C\n\n")
    with pytest.raises(UsageError, match=r"text: every pair has an empty side"):
        read_sides(prefix, ("aa", "bb"))
    with pytest.raises(UsageError, match=r"text: is in aa, bb, which none of aa-dd, dd-bb needs"):
        read_directions(prefix, [("aa", "dd"), ("dd", "bb")])
    with pytest.raises(UsageError, match=r"'\.' names no text"):
        read_directions(Path(), [("aa", "bb")])
    ((src, tgt),) = read_directions(prefix, [("bb", "cc"), ("cc", "dd")])
    assert (src, tgt) == (Side("bb", ("A",)), Side("cc", ("C",)))


def test_a_text_read_unchanged_has_pairs_with_an_empty_side(tmp_path: Path) -> None:
    prefix = written(tmp_path, aa=b"a\n \n", bb=b"A\nB\n")
    assert list(iterate_pairs(prefix, ("aa", "bb"))) == [("a", "A"), (" ", "B")]


@pytest.fixture
def examples(tokenizer: Tokenizer) -> Examples:
    return Examples([ParallelText(reverse_pairs(300, seed=1), ("en", "de"))], tokenizer, 200)


def rows(batch: Batch) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Source and target of each row, without padding."""
    return [
        (tuple(s for s in src if s != PAD_ID), tuple(t for t in tgt if t != PAD_ID))
        for src, tgt in zip(batch.src_ids.tolist(), batch.tgt_out_ids.tolist(), strict=True)
    ]


def batches(
    examples: Examples, batch_tokens: int, seed: int, epoch: int, joined_share: float = 0.0
) -> Iterator[Batch]:
    """One epoch, one part per step."""
    for parts in examples.steps(batch_tokens, batch_tokens, seed, epoch, joined_share):
        yield from map(examples.batch, parts)


def test_an_epoch_has_every_example_once_in_both_directions(
    examples: Examples, tokenizer: Tokenizer
) -> None:
    seen = sorted(row for batch in batches(examples, 200, seed=1, epoch=0) for row in rows(batch))
    expected = []
    for english, german in reverse_pairs(300, seed=1):
        for src, tgt, language in ((english, german, "de"), (german, english, "en")):
            source = tuple(tokenizer.encode_source(src, language))
            expected.append((source, (*tokenizer.encode(tgt), END_ID)))
    assert seen == sorted(expected)
    assert len(examples) == 600


def test_batches_stay_within_their_size_and_shift_the_target(examples: Examples) -> None:
    for batch in batches(examples, 200, seed=1, epoch=0):
        sentences = batch.src_ids.size(0)
        assert sentences * max(batch.src_ids.size(1), batch.tgt_in_ids.size(1)) <= 200
        assert (batch.tgt_in_ids[:, 0] == BEGIN_ID).all()
        later, earlier = batch.tgt_in_ids[:, 1:], batch.tgt_out_ids[:, :-1]
        assert ((later == earlier) | (later == PAD_ID)).all()


def test_a_step_has_parts_of_similar_lengths_within_its_size(examples: Examples) -> None:
    def padded(part: Part) -> int:
        batch = examples.batch(part)
        return batch.src_ids.size(0) * max(batch.src_ids.size(1), batch.tgt_in_ids.size(1))

    steps = examples.steps(batch_tokens=300, part_tokens=70, seed=1, epoch=0)
    parts = [part for step in steps for part in step]
    assert all(padded(part) <= 70 for part in parts)
    sizes = [sum(map(padded, step)) for step in steps]
    assert max(sizes) <= 300
    assert min(sizes[:-1]) > 300 - 70, "a step has room for another part"
    for part in parts:
        assert part.tgt_tokens == int((examples.batch(part).tgt_out_ids != PAD_ID).sum())
    assert sum(len(part.first) for part in parts) == len(examples)
    assert len({int(index) for part in parts for index in part.first}) == len(examples)


def test_order_depends_only_on_seed_and_epoch(examples: Examples) -> None:
    def order(seed: int, epoch: int) -> list[torch.Tensor]:
        return [batch.src_ids for batch in batches(examples, 200, seed, epoch)]

    first, again = order(1, 0), order(1, 0)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    for other in (order(1, 1), order(2, 0)):
        assert any(a.shape != b.shape or not torch.equal(a, b) for a, b in zip(first, other))  # noqa: B905


def test_joined_examples_have_two_of_one_direction(examples: Examples) -> None:
    singles = {row for batch in batches(examples, 500, seed=1, epoch=0) for row in rows(batch)}
    by_source = {src[1:-1]: tgt[:-1] for src, tgt in singles}
    joined = [
        row
        for batch in batches(examples, 500, seed=1, epoch=0, joined_share=1.0)
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


def test_long_pairs_are_omitted_and_counted(tokenizer: Tokenizer) -> None:
    pairs = [("red", "blue"), ("red " * 50, "blue")]
    examples = Examples([ParallelText(pairs, ("en", "de"))], tokenizer, max_length_tokens=20)
    assert (len(examples), examples.left_out) == (2, 1)


def numbered(prefix: str, number: int) -> list[tuple[str, str]]:
    """Distinct pairs of the same length."""
    return [(f"{prefix}{index:03}", f"{prefix}{index:03}") for index in range(number)]


def sources(examples: Examples, epoch: int) -> Counter[tuple[int, ...]]:
    """How often an epoch shows each source, without tag and end."""
    shown = batches(examples, 500, seed=1, epoch=epoch)
    return Counter(src[1:-1] for batch in shown for src, _ in rows(batch))


def test_corpora_have_their_own_languages(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.model"
    config = VocabularyConfig(size=321)
    words = [text for pair in reverse_pairs(500, seed=0) for text in pair]
    train_vocabulary(words, ("en", "de", "fr"), config, path)
    tokenizer = Tokenizer(path)
    texts = [
        ParallelText([("red", "blue")], ("en", "de")),
        ParallelText([("red", "green")], ("en", "fr")),
    ]
    examples = Examples(texts, tokenizer, 200)
    assert examples.directions == (("en", "de"), ("de", "en"), ("en", "fr"), ("fr", "en"))
    seen = sorted(row for batch in batches(examples, 200, seed=1, epoch=0) for row in rows(batch))
    triples = [("red", "blue", "de"), ("blue", "red", "en")]
    triples += [("red", "green", "fr"), ("green", "red", "en")]
    expected = [
        (tuple(tokenizer.encode_source(src, tag)), (*tokenizer.encode(tgt), END_ID))
        for src, tgt, tag in triples
    ]
    assert seen == sorted(expected)
    joined = batches(Examples(texts, tokenizer, 200), 200, 1, 0, joined_share=1.0)
    green, blue = tokenizer.encode("green")[-1], tokenizer.encode("blue")[-1]
    for batch in joined:
        for src, _ in rows(batch):
            assert not (green in src and blue in src), "two directions in one example"


def test_an_epoch_repeats_a_corpus_by_its_weight(tokenizer: Tokenizer) -> None:
    texts = [
        ParallelText(numbered("red", 40), ("en", "de"), weight=0.25),
        ParallelText(numbered("blue", 10), ("en", "de"), weight=2.0),
    ]
    examples = Examples(texts, tokenizer, 200)
    whole: Counter[tuple[int, ...]] = Counter()
    for epoch in range(4):
        shown = sources(examples, epoch)
        assert shown.total() == 2 * (10 + 20)
        whole += shown
    # Four epochs: each pair of the first once in both directions, of the second eight times.
    for prefix, number, times in (("red", 40, 1), ("blue", 10, 8)):
        for text, _ in numbered(prefix, number):
            assert whole[tuple(tokenizer.encode(text))] == 2 * times, text


def test_other_weights_sample_the_remaining_pairs(tokenizer: Tokenizer) -> None:
    def of_weight(*weights: float) -> Examples:
        colours = zip(("red", "blue"), weights, strict=False)
        texts = [ParallelText(numbered(name, 40), ("en", "de"), weight=w) for name, w in colours]
        return Examples(texts, tokenizer, 200)

    def shown(examples: Examples, epoch: int, drawn: tuple[int, ...]) -> list[int]:
        steps = examples.steps(200, 200, seed=1, epoch=epoch, drawn=drawn)
        return [number for step in steps for part in step for number in part.first.tolist()]

    former, later = of_weight(0.5), of_weight(0.3, 1.0)
    drawn = later.drawn_by(1, former.drawn_by(1))
    assert drawn == (40 + 24, 80)
    before, after = shown(former, 0, former.drawn_by(1)), shown(later, 1, drawn)
    assert (len(before), len(after)) == (40, 24 + 80)
    assert len({*before, *after}) == 40 + 24 + 80


def test_a_temperature_raises_the_share_of_small_corpora(tokenizer: Tokenizer) -> None:
    texts = [
        ParallelText(numbered("red", 90), ("en", "de")),
        ParallelText(numbered("blue", 10), ("en", "de")),
    ]
    blue = tokenizer.encode("blue")[0]

    def share(temperature: float) -> tuple[int, int]:
        shown = sources(Examples(texts, tokenizer, 200, temperature), epoch=0)
        return shown.total(), sum(n for src, n in shown.items() if src[0] == blue)

    assert share(1.0) == (200, 20)
    assert share(0.001) == (201, 1)  # the largest, and one of any other
    assert share(2.0) == (200, 50)  # 90 and 10 to the power of a half are as 3 to 1


def test_no_more_pairs_are_used_than_a_corpus_may_give(tokenizer: Tokenizer) -> None:
    pairs = [*numbered("red", 100), ("red " * 50, "blue")]
    text = ParallelText(pairs, ("en", "de"), max_pairs=30)
    assert len(Examples([text], tokenizer, max_length_tokens=20)) == 60
    again = [sources(Examples([text], tokenizer, 20), epoch=0) for _ in range(2)]
    assert again[0] == again[1]
    first = {tuple(tokenizer.encode(src)) for src, _ in pairs[:30]}
    assert set(again[0]) != first, "drawn from the beginning alone"


def test_a_vocabulary_is_trained_on_corpora_by_their_weights() -> None:
    texts = [
        ParallelText(numbered("a", 8), ("en", "de"), weight=0.25),
        ParallelText(numbered("b", 3), ("en", "de"), weight=5.0),
        ParallelText(numbered("c", 9), ("en", "de"), max_pairs=4),
    ]
    taken = Counter(sentence[0] for sentence in vocabulary_text(texts, ("en", "de")))
    assert taken == {"a": 4, "b": 6, "c": 8}
    few = vocabulary_text(texts, ("en", "de"), max_sentences=12)
    assert Counter(sentence[0] for sentence in few) == {"a": 2, "b": 4, "c": 4}


def test_a_vocabulary_is_trained_on_its_own_languages() -> None:
    french = ParallelText([("one", "un"), ("two", "deux")], ("en", "fr"))
    german = ParallelText([("eins", "one")], ("de", "en"))
    assert list(vocabulary_text([french, german], ("fr",))) == ["un", "deux"]
    assert list(vocabulary_text([french, german], ("de", "en"))) == ["one", "two", "eins", "one"]


class Letters:
    """A vocabulary of single letters, which no release of SentencePiece can change."""

    vocab_size = 103
    tags = 1

    @property
    def target(self) -> Letters:
        return self

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        return [[4 + ord(letter) % 90 for letter in text.replace(" ", "")] for text in texts]

    def tag_ids(self, target_language: str) -> list[int]:
        return [{"en": 100, "de": 101, "fr": 102}[target_language]]


def lettered(pairs: int, sides: int, salt: int) -> list[tuple[str, ...]]:
    """Pairs of many lengths."""
    return [
        tuple(
            "ab c"[: 1 + (i * (salt + side)) % 4] + "xyz" * ((i * i + 7 * side + salt) % 9) + str(i)
            for side in range(sides)
        )
        for i in range(pairs)
    ]


@pytest.mark.parametrize(
    ("temperature", "shown", "golden"),
    [
        (None, 738, "1b87046f22cd50c7e1688cb05b6956fdfd6292fdaec3c1ef90c701a3fbe24cfb"),
        (2.0, 696, "52d6660c3aa631fd1a3b7c9066a7ed3080d66f4a9abdd60bfd37f6e28f44bc49"),
    ],
)
def test_a_plan_equals_that_of_former_versions(
    temperature: float | None, shown: int, golden: str
) -> None:
    # Runs in progress resume in the middle of an epoch: the rest of it must not change.
    texts = [
        ParallelText(lettered(90, 2, 3), ("en", "de"), weight=0.4),
        ParallelText(lettered(70, 2, 5), ("en", "fr"), weight=2.0, max_pairs=41),
        ParallelText(lettered(25, 3, 1), ("en", "de", "fr"), max_pairs=25),
    ]
    examples = Examples(texts, cast("Tokenizer", Letters()), 24, temperature)
    assert (len(examples), examples.left_out) == (232, 58)
    digest, number = hashlib.sha256(), 0
    for epoch in range(3):
        for step in examples.steps(300, 90, 7, epoch, 0.2):
            digest.update(b"step")
            for part in step:
                batch = examples.batch(part)
                numbers = (part.first.tolist(), part.second.tolist(), part.tgt_tokens)
                ids = (batch.src_ids.tolist(), batch.tgt_out_ids.tolist())
                digest.update(repr((*numbers, *ids)).encode())
                number += len(part.first)
    assert (number, digest.hexdigest()) == (shown, golden)


def test_one_way_text_is_trained_only_in_its_direction(tokenizer: Tokenizer) -> None:
    texts = [
        ParallelText([("red", "blue")], ("en", "de"), one_way=True),
        ParallelText([("green", "pink")], ("de", "en"), one_way=True),
    ]
    examples = Examples(texts, tokenizer, 200)
    assert examples.directions == (("en", "de"), ("de", "en"))
    seen = sorted(row for batch in batches(examples, 200, seed=1, epoch=0) for row in rows(batch))
    triples = (("red", "blue", "de"), ("green", "pink", "en"))
    assert seen == sorted(
        (tuple(tokenizer.encode_source(src, tag)), (*tokenizer.encode(tgt), END_ID))
        for src, tgt, tag in triples
    )


def test_a_full_disk_for_the_vocabulary_is_reported_in_one_line(tmp_path: Path) -> None:
    words = [text for pair in reverse_pairs(500, seed=0) for text in pair]
    path = tmp_path / "tokenizer.model"
    with files_no_larger_than(1000), pytest.raises(UsageError, match=r"model: cannot be written"):
        train_vocabulary(words, ("en", "de"), VocabularyConfig(size=320), path)
    assert list(tmp_path.iterdir()) == []


def test_a_text_without_two_languages_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"^found no .*held\.aa, .*held\.bb, \.\.\.: give the name"
    ):
        find_languages(tmp_path / "held", ("aa", "bb", "cc"))
    prefix = written(tmp_path, bb=b"b\n")
    with pytest.raises(
        UsageError, match=r"needs files in two of aa, bb; there is only one in 'bb'"
    ):
        find_languages(prefix, ("aa", "bb"))


def test_pairs_with_an_empty_side_are_counted_and_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "my.aa").write_text("one\n\nthree\n \nfive\n", encoding="utf-8")
    (tmp_path / "my.bb").write_text("1\n2\n\n4\n5\n", encoding="utf-8")
    for _ in range(2):
        assert len(TextFiles(tmp_path / "my", ("aa", "bb"))) == 2
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path / 'my'}: 3 of 5 pairs have an empty side and are left out"
    ]
    caplog.clear()
    assert len(TextFiles(tmp_path / "my", ("aa", "bb"), with_empty=True)) == 5
    assert not caplog.records
