from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest
import torch
from dragoman_training.steps.loss import summed_loss
from dragoman_training.text.encoding import TokenFiles
from dragoman_training.text.examples import Batch, Examples, Part
from dragoman_training.text.parallel_text import ParallelText, TextFiles, with_links
from dragoman_training.text.word_links import (
    BadLink,
    Link,
    find_words,
    format_links,
    link_tokens,
    read_links,
)

from dragoman.kernel.errors import UsageError
from dragoman.kernel.text import END_ID, Tokenizer
from tests.tiny_models import tiny_model
from tests.toy import WORDS, write_pairs

BOTH = ("en", "de")


def sentence(random: random.Random) -> str:
    """Known and unknown words, with punctuation at their ends."""
    words = random.choices([*WORDS, "redblue", "x1é", "😀", "ÿÿ"], k=random.randint(1, 5))
    return " ".join(word + random.choice(["", ",", "!?"]) for word in words)


def linked_pairs(number: int, seed: int) -> list[tuple[str, str, str]]:
    """Random texts with random links, some of them with none."""
    generator, pairs = random.Random(seed), []
    for _ in range(number):
        texts = sentence(generator), sentence(generator)
        sizes = [len(find_words(text)) for text in texts]
        every = list(itertools.product(range(sizes[0]), range(sizes[1])))
        links = generator.sample(every, generator.randint(0, min(4, len(every))))
        pairs.append((*texts, format_links(links)))
    return pairs


def naive_links(tokenizer: Tokenizer, source: str, target: str, line: str) -> set[Link]:
    """Tokens are linked if they share a character with linked words, one character at a time."""
    tokens = []
    for text in (source, target):
        words = find_words(text)
        of_token = []
        for piece in tokenizer.pieces(text):
            own = set(range(piece.begin, piece.end)) or {piece.begin}
            own_words = {
                at for at, word in enumerate(words) if own & set(range(word.start(), word.end()))
            }
            of_token.append(own_words)
        tokens.append(of_token)
    links = {tuple(map(int, link.split("-"))) for link in line.split()}
    return {
        (src, tgt)
        for (src, of_src), (tgt, of_tgt) in itertools.product(*map(enumerate, tokens))
        if links & set(itertools.product(of_src, of_tgt))
    }


def test_words_are_runs_of_letters_and_digits_and_single_other_characters() -> None:
    words = [word[0] for word in find_words("Don't pay 3,50 €...")]
    assert words == ["Don", "'", "t", "pay", "3", ",", "50", "€", ".", ".", "."]
    assert find_words("  ") == []


def test_links_are_read_as_they_are_written() -> None:
    assert read_links("0-0 12-3\n") == [(0, 0), (12, 3)]
    assert read_links("") == []
    assert format_links({(12, 3), (0, 0)}) == "0-0 12-3"
    for line, named in (("0-0 1:2", "'1:2'"), ("0-0-0", "'0-0-0'"), ("-1-0", "'-1-0'")):
        with pytest.raises(BadLink, match=f"{named} is not a link: write links as 0-0 1-2"):
            read_links(line)


def test_tokens_have_the_links_of_their_words(tokenizer: Tokenizer) -> None:
    seen = 0
    for source, target, line in linked_pairs(200, seed=1):
        pieces = [tokenizer.pieces(text) for text in (source, target)]
        pairs = link_tokens(line, (source, target), pieces)
        assert pairs == sorted(naive_links(tokenizer, source, target, line))
        seen += len(pairs)
    assert seen > 500


def test_a_link_of_a_missing_word_is_named(tokenizer: Tokenizer) -> None:
    pieces = [tokenizer.pieces("red"), tokenizer.pieces("blue!")]
    assert link_tokens("0-1", ("red", "blue!"), pieces)
    with pytest.raises(BadLink, match="0-2 links word 2, counted from 0, of 'blue!', which has 2"):
        link_tokens("0-2", ("red", "blue!"), pieces)


def write_linked(folder: Path, pairs: list[tuple[str, str, str]], name: str = "train") -> Path:
    write_pairs(folder / name, [(source, target) for source, target, _ in pairs], BOTH)
    links = "".join(f"{line}\n" for *_, line in pairs)
    (folder / f"{name}.en-de.links").write_text(links)
    return folder / name


def examples_of(
    prefix: Path,
    tokenizer: Tokenizer,
    vocabulary: Path,
    max_pairs: int | None = None,
    multiple: int = 1,
) -> Examples:
    text = ParallelText(TextFiles(prefix, BOTH), BOTH, max_pairs=max_pairs)
    files = TokenFiles(prefix.parent / "encoded", vocabulary)
    return Examples([with_links(text)], tokenizer, 200, files=files, multiple=multiple)


def batches(examples: Examples, joined_share: float = 0.0) -> list[tuple[Part, Batch]]:
    steps = examples.steps(100, 100, seed=1, epoch=0, joined_share=joined_share)
    return [(part, examples.batch(part)) for parts in steps for part in parts]


@pytest.mark.parametrize("max_pairs", [None, 30])
def test_batches_have_the_linked_source_tokens_of_each_target_token(
    tmp_path: Path, tokenizer: Tokenizer, tokenizer_path: Path, max_pairs: int | None
) -> None:
    pairs = linked_pairs(80, seed=2)
    prefix = write_linked(tmp_path, [*pairs[:40], ("", "leer", ""), *pairs[40:]])
    right: dict[tuple[tuple[int, ...], tuple[int, ...]], list[set[Link]]] = {}
    for source, target, line in pairs:
        links = naive_links(tokenizer, source, target, line)
        turned = {(tgt, src) for src, tgt in links}
        for text, translation, language, own in (
            (source, target, "de", links),
            (target, source, "en", turned),
        ):
            key = (
                tuple(tokenizer.encode_source(text, language)),
                tuple(tokenizer.encode(translation)),
            )
            right.setdefault(key, []).append(own)
    rows = 0
    for _, batch in batches(examples_of(prefix, tokenizer, tokenizer_path, max_pairs)):
        assert batch.linked is not None
        assert batch.linked.shape == (*batch.tgt_in_ids.shape, batch.src_ids.size(1))
        for src, tgt, linked in zip(batch.src_ids, batch.tgt_out_ids, batch.linked, strict=True):
            key = tuple(src[src > 0].tolist()), tuple(tgt[tgt > END_ID].tolist())
            # The start symbol precedes the target's tokens, the tag the source's.
            own_links = {(at_src - 1, at_tgt - 1) for at_tgt, at_src in linked.nonzero().tolist()}
            assert own_links in right[key]
            rows += 1
    assert rows == 2 * (max_pairs or len(pairs))


def test_joined_examples_have_the_links_of_both(
    tmp_path: Path, tokenizer: Tokenizer, tokenizer_path: Path
) -> None:
    prefix = write_linked(tmp_path, linked_pairs(30, seed=3))
    examples = examples_of(prefix, tokenizer, tokenizer_path)
    joined = 0
    for part, batch in batches(examples, joined_share=0.5):
        for row, (first, second) in enumerate(zip(part.first, part.second, strict=True)):
            if second < 0:
                continue
            alone = [
                examples.batch(Part(index[None], part.second[:1] * 0 - 1, 0))
                for index in (first, second)
            ]
            blocks = []
            for single in alone:
                # Without start symbol, tag and end symbol.
                empty = torch.zeros(
                    single.tgt_in_ids.size(1), single.src_ids.size(1), dtype=torch.bool
                )
                blocks.append((empty if single.linked is None else single.linked[0])[1:, 1:-1])
            (above, left), (below, right_of) = (block.shape for block in blocks)
            right = torch.zeros(above + below, left + right_of, dtype=torch.bool)
            right[:above, :left], right[above:, left:] = blocks
            height, width = right.shape
            linked = torch.zeros_like(right) if batch.linked is None else batch.linked[row]
            if batch.linked is not None:
                assert linked.sum() == right.sum()
                linked = linked[1 : height + 1, 1 : width + 1]
            assert torch.equal(linked, right)
            joined += 1
    assert joined > 5


def test_only_text_with_links_is_linked(tokenizer: Tokenizer) -> None:
    text = ParallelText([("red", "blue", "0-0")], BOTH, links=[(0, 1)])
    plain = ParallelText([("grey", "pink")], BOTH)
    (part,) = Examples([text, plain], tokenizer, 200).steps(1000, 1000, seed=1, epoch=0)[0]
    batch = Examples([text, plain], tokenizer, 200).batch(part)
    assert batch.linked is not None
    colours = {tokenizer.decode(src.tolist()) for src in batch.src_ids[batch.linked.any((1, 2))]}
    assert colours == {"red", "blue"}
    assert all(batch.linked is None for _, batch in batches(Examples([plain], tokenizer, 200)))


def test_other_links_make_the_text_encoded_again(
    tmp_path: Path, tokenizer: Tokenizer, tokenizer_path: Path
) -> None:
    pairs = linked_pairs(20, seed=4)
    prefix = write_linked(tmp_path, pairs)
    first = examples_of(prefix, tokenizer, tokenizer_path).digest
    assert examples_of(prefix, tokenizer, tokenizer_path).digest == first
    write_linked(tmp_path, [(source, target, "0-0") for source, target, _ in pairs])
    again = examples_of(prefix, tokenizer, tokenizer_path)
    assert again.digest != first
    (tmp_path / "train.en-de.links").rename(tmp_path / "train.de-en.links")
    assert examples_of(prefix, tokenizer, tokenizer_path).digest != again.digest


def test_bad_links_are_reported_in_one_line_that_names_their_file(
    tmp_path: Path, tokenizer: Tokenizer, tokenizer_path: Path
) -> None:
    prefix = write_linked(tmp_path, [("red", "blue", "0-0"), ("pink", "grey", "0-7")])
    with pytest.raises(UsageError, match=r"train\.en-de\.links: 0-7 links word 7") as raised:
        examples_of(prefix, tokenizer, tokenizer_path)
    assert "link-words" in str(raised.value)
    assert "\n" not in str(raised.value)
    (tmp_path / "train.en-de.links").write_text("0-0\n")
    with pytest.raises(UsageError, match=r"differ in their number of lines: .*1 in en-de\.links"):
        examples_of(prefix, tokenizer, tokenizer_path)


def test_lengths_padded_to_a_multiple_change_no_loss(
    tmp_path: Path, tokenizer: Tokenizer, tokenizer_path: Path
) -> None:
    prefix = write_linked(tmp_path, linked_pairs(40, seed=5))
    usual, padded = (
        batches(examples_of(prefix, tokenizer, tokenizer_path, multiple=multiple))
        for multiple in (1, 8)
    )
    model, widened = tiny_model(), 0
    for (part, batch), (same, wide) in zip(usual, padded, strict=True):
        assert part.tgt_tokens == same.tgt_tokens
        assert batch.linked is not None
        assert wide.linked is not None
        (rows, src), tgt = batch.src_ids.shape, batch.tgt_in_ids.size(1)
        for name, cut, kept in (
            ("src_ids", (slice(rows), slice(src)), (src,)),
            ("tgt_in_ids", (slice(rows), slice(tgt)), (tgt,)),
            ("tgt_out_ids", (slice(rows), slice(tgt)), (tgt,)),
            ("linked", (slice(rows), slice(tgt), slice(src)), (tgt, src)),
        ):
            right, wider = getattr(batch, name), getattr(wide, name)
            widths = tuple(-(-width // 8) * 8 for width in kept)
            assert wider.shape == (rows, *widths)
            assert torch.equal(wider[cut], right)
            assert wider.count_nonzero() == right.count_nonzero(), "the rest is padding"
        widened += wide.src_ids.size(1) > src or wide.tgt_in_ids.size(1) > tgt
        losses = [summed_loss(model, variant, 0.1, "fp32") for variant in (batch, wide)]
        torch.testing.assert_close(losses[1], losses[0], rtol=1e-5, atol=1e-4)
        grads = [torch.autograd.grad(loss, model.embedding.weight)[0] for loss in losses]
        torch.testing.assert_close(grads[1], grads[0], rtol=1e-3, atol=1e-3)
    assert widened
