from __future__ import annotations

import itertools
import logging
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from threading import Event

import numpy as np
import pytest
from dragoman_training.text import encoding
from dragoman_training.text.encoding import Drawing, EncodedText, Numbered, TokenFiles, encode
from dragoman_training.text.examples import Examples
from dragoman_training.text.parallel_text import ParallelText, TextFiles, drawn_pairs, some_pairs

from dragoman.cli import main
from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import sha256
from dragoman.kernel.text import END_ID, Tokenizer
from tests.conftest import files_no_larger_than
from tests.toy import reverse_pairs, write_links, write_pairs

LIMIT = 4


class Counting(Tokenizer):
    """Counts the texts that it has encoded."""

    encoded = 0

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        self.encoded += len(texts)
        return super().encode_all(texts)


@pytest.fixture
def counting(tokenizer_path: Path) -> Counting:
    return Counting(tokenizer_path)


def text(folder: Path, max_pairs: int | None = None, seed: int = 1) -> ParallelText:
    write_pairs(folder / "text", reverse_pairs(400, seed), ("en", "de"))
    return ParallelText(TextFiles(folder / "text", ("en", "de")), ("en", "de"), max_pairs=max_pairs)


def side_ids(encoded: EncodedText, pair: int, side: int) -> list[int]:
    ids: list[int] = encoded.sides_ids(np.array([pair]), side)[0].tolist()
    return ids


def pairs_of(encoded: EncodedText) -> list[tuple[list[int], list[int]]]:
    return [(side_ids(encoded, n, 0), side_ids(encoded, n, 1)) for n in range(len(encoded))]


@pytest.mark.parametrize("max_pairs", [None, 1, 30, 100, 200, 399, 1000])
def test_the_pairs_are_the_first_of_a_shuffle(
    tmp_path: Path, tokenizer: Tokenizer, max_pairs: int | None
) -> None:
    # The same as in one or two readings, but one pair at a time.
    source = text(tmp_path, max_pairs)
    pairs, left_out = list(iter(source.pairs)), 0
    right: list[tuple[list[int], list[int]]] = []
    for index in some_pairs(len(pairs), max_pairs):
        if len(right) == max_pairs:
            break
        sides = [tokenizer.encode(side) for side in pairs[index]]
        if all(len(side) <= LIMIT for side in sides):
            right.append((sides[0], sides[1]))
        else:
            left_out += 1
    encoded_text = encode(source, tokenizer, LIMIT)
    assert pairs_of(encoded_text) == right
    assert encoded_text.left_out == left_out
    assert 0 < len(right) < 400
    numbers = np.arange(len(right))
    assert encoded_text.lengths(numbers, 1).tolist() == [len(side) for _, side in right]


@pytest.mark.parametrize("max_pairs", [None, 100])
def test_files_have_the_same_content_as_memory_and_are_read_again(
    tmp_path: Path, counting: Counting, tokenizer_path: Path, max_pairs: int | None
) -> None:
    files = TokenFiles(tmp_path / "encoded", tokenizer_path)
    source = text(tmp_path, max_pairs)
    first = files.encode(Numbered(0, source), counting, LIMIT)
    memory = encode(source, counting, LIMIT)
    assert pairs_of(first) == pairs_of(memory)
    assert first.left_out == memory.left_out
    before = counting.encoded
    again = files.encode(Numbered(0, source), counting, LIMIT)
    assert counting.encoded == before
    assert (pairs_of(again), again.left_out) == (pairs_of(first), first.left_out)
    assert isinstance(again.ids, np.memmap)


def test_other_text_limits_and_vocabularies_are_encoded_again(
    tmp_path: Path, counting: Counting, tokenizer_path: Path
) -> None:
    folder = tmp_path / "encoded"
    files = TokenFiles(folder, tokenizer_path)
    source = text(tmp_path)
    other = tmp_path / "other.model"
    other.write_bytes(tokenizer_path.read_bytes() + b"\n")

    def is_anew(files: TokenFiles, source: ParallelText, limit: int) -> bool:
        before = counting.encoded
        files.encode(Numbered(0, source), counting, limit)
        return counting.encoded > before

    assert is_anew(files, source, LIMIT)
    assert not is_anew(files, source, LIMIT)
    assert is_anew(files, source, LIMIT + 1)
    assert is_anew(files, text(tmp_path, max_pairs=20), LIMIT + 1)
    assert is_anew(files, text(tmp_path, max_pairs=20, seed=2), LIMIT + 1)
    assert is_anew(TokenFiles(folder, other), text(tmp_path, max_pairs=20, seed=2), LIMIT + 1)
    source = text(tmp_path)
    assert is_anew(files, source, LIMIT)
    assert is_anew(files, source := text(tmp_path, max_pairs=50), LIMIT)
    made = sorted((folder / "0").iterdir())
    assert [path.name for path in made] == ["about.json", "ends.bin", "ids.bin", "order.bin"]
    for path in made:
        path.write_bytes(path.read_bytes()[:-8])
        assert is_anew(files, source, LIMIT), f"half of {path.name}"
        path.unlink()
        assert is_anew(files, source, LIMIT), f"no {path.name}"
    assert not is_anew(files, source, LIMIT)


def test_a_text_without_a_fitting_pair_is_refused(
    tmp_path: Path, tokenizer: Tokenizer, tokenizer_path: Path
) -> None:
    source = text(tmp_path)
    encoded_text = TokenFiles(tmp_path / "encoded", tokenizer_path).encode(
        Numbered(0, source), tokenizer, 1
    )
    assert (len(encoded_text), encoded_text.left_out) == (0, 400)
    examples = Examples([source], tokenizer, 1)
    assert (len(examples), examples.left_out, examples.directions) == (0, 400, ())


def test_a_full_disk_leaves_no_incomplete_file(
    tmp_path: Path, tokenizer: Tokenizer, tokenizer_path: Path
) -> None:
    files, source = TokenFiles(tmp_path / "encoded", tokenizer_path), text(tmp_path)
    with files_no_larger_than(500), pytest.raises(UsageError, match="encoded/0: cannot be written"):
        files.encode(Numbered(0, source), tokenizer, LIMIT)
    assert [path.name for path in (tmp_path / "encoded").iterdir()] == [".0.lock"]


def test_large_text_is_encoded_in_processes(
    tmp_path: Path, tokenizer: Tokenizer, tokenizer_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result is that of one process, and so is the error for a text that cannot be written."""
    monkeypatch.setattr(encoding, "_PARALLEL_BYTES", 0)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    source, some = text(tmp_path), text(tmp_path, max_pairs=100)
    texts = [Numbered(0, source), Numbered(1, some), Numbered(1, source, Drawing(0.1, 3))]
    files = TokenFiles(tmp_path / "encoded", tokenizer_path)
    with monkeypatch.context() as patched:
        patched.setattr(Tokenizer, "encode_all", refuse)
        encoded_texts = files.encode_all(texts, tokenizer, LIMIT)
    assert sorted(path.name for path in (tmp_path / "encoded").iterdir() if path.is_dir()) == [
        *("0", "1", "1-3"),
    ]
    assert [pairs_of(encoded_text) for encoded_text in encoded_texts[:2]] == [
        pairs_of(encode(plain, tokenizer, LIMIT)) for plain in (source, some)
    ]
    for drawn, usual in zip(pairs_of(encoded_texts[2]), pairs_of(encoded_texts[0]), strict=True):
        assert [*map(tokenizer.decode, drawn)] == [*map(tokenizer.decode, usual)]
    (tmp_path / "encoded" / "2").write_text("in the way")
    with pytest.raises(UsageError, match="encoded/2: cannot be written"):
        files.encode_all([*texts, Numbered(2, source)], tokenizer, LIMIT)


def refuse(_self: Tokenizer, _texts: Sequence[str]) -> list[list[int]]:
    raise AssertionError("encoded in this process")


class Waiting(Counting):
    """Signals that it has started, and waits for a signal to continue."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.has_begun, self.may_go_on = Event(), Event()

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        self.has_begun.set()
        assert self.may_go_on.wait(60)
        return super().encode_all(texts)


def test_two_concurrent_runs_read_the_same_complete_text(
    tmp_path: Path, counting: Counting, tokenizer_path: Path
) -> None:
    source, waiting = text(tmp_path), Waiting(tokenizer_path)

    def encoded(by: Tokenizer) -> EncodedText:
        return TokenFiles(tmp_path / "encoded", tokenizer_path).encode(
            Numbered(0, source), by, LIMIT
        )

    with ThreadPoolExecutor() as pool:
        first = pool.submit(encoded, waiting)
        assert waiting.has_begun.wait(60)
        second = pool.submit(encoded, counting)
        wait([second], timeout=0.5)  # enough time to finish first, if nothing stopped it
        waiting.may_go_on.set()
        assert pairs_of(first.result()) == pairs_of(second.result())
    assert counting.encoded == 0
    assert pairs_of(second.result()) == pairs_of(encode(source, counting, LIMIT))


def test_pairs_are_sampled_in_the_order_of_the_text(tmp_path: Path) -> None:
    pairs = reverse_pairs(400, seed=1)
    assert list(drawn_pairs(text(tmp_path))) == pairs
    drawn = list(drawn_pairs(text(tmp_path, max_pairs=50)))
    chosen = sorted([*some_pairs(400, 50)][:50])
    assert drawn == [pairs[index] for index in chosen]


def test_words_are_split_differently_in_each_sample_of_the_same_text(
    tmp_path: Path, tokenizer_path: Path, tokenizer: Tokenizer
) -> None:
    source = text(tmp_path)
    usual = encode(source, tokenizer, 40)
    drawings = [Drawing(0.3, 0), Drawing(0.3, 1)]
    drawn = [encode(source, tokenizer, 40, drawing) for drawing in drawings]
    in_files = [
        TokenFiles(tmp_path / "files", tokenizer_path).encode(
            Numbered(0, source, drawing), tokenizer, 40
        )
        for drawing in drawings
    ]
    assert list(map(pairs_of, in_files)) == list(map(pairs_of, drawn))
    assert len({sample.digest for sample in in_files}) == 2
    for sample in drawn:
        assert (len(sample), sample.left_out) == (len(usual), usual.left_out)
        for pair, usual_pair in zip(pairs_of(sample), pairs_of(usual), strict=True):
            assert [*map(tokenizer.decode, pair)] == [*map(tokenizer.decode, usual_pair)]
        assert (
            sample.lengths(np.arange(len(sample)), 0).mean()
            > usual.lengths(np.arange(len(sample)), 0).mean()
        )
    assert pairs_of(drawn[0]) != pairs_of(drawn[1])
    assert pairs_of(encode(source, tokenizer, 40, drawings[0])) == pairs_of(drawn[0])


def test_no_pair_becomes_too_long_by_sampling(tmp_path: Path, tokenizer: Tokenizer) -> None:
    source = text(tmp_path, max_pairs=100)
    usual, drawn = (
        encode(source, tokenizer, LIMIT, drawing) for drawing in (None, Drawing(0.9, 0))
    )
    assert (len(drawn), drawn.left_out) == (len(usual), usual.left_out)
    for pair, usual_pair in zip(pairs_of(drawn), pairs_of(usual), strict=True):
        assert [*map(tokenizer.decode, pair)] == [*map(tokenizer.decode, usual_pair)]
        assert all(len(side) <= LIMIT for side in pair)


@pytest.mark.parametrize("targets_too", [True, False])
def test_each_pass_through_a_corpus_uses_the_next_sample(
    tmp_path: Path, tokenizer: Tokenizer, targets_too: bool
) -> None:
    source = text(tmp_path)
    drawings = (Drawing(0.5, 0), Drawing(0.5, 1))
    examples = Examples([source], tokenizer, 200, drawings=drawings, targets_too=targets_too)
    shown = []
    for epoch in range(3):
        steps = examples.steps(500, 500, seed=0, epoch=epoch, joined_share=0.2)
        rows = [row for step in steps for part in step for row in examples.batch(part).src_ids]
        assert len(rows) == len(examples) == 800
        shown.append({tuple(row[row != 0].tolist()) for row in rows})
        tokens = sum(part.tgt_tokens for step in steps for part in step)
        outs = (examples.batch(part).tgt_out_ids for step in steps for part in step)
        assert tokens == sum(int((out != 0).sum()) for out in outs)
    usual = {tuple(ids) for pair in pairs_of(encode(source, tokenizer, 200)) for ids in pair}
    said = [
        tuple(ids)
        for part in itertools.chain(*examples.steps(500, 500, seed=0, epoch=0))
        for row in examples.batch(part).tgt_out_ids.tolist()
        if (ids := [token for token in row if token > END_ID])
    ]
    assert all(ids in usual for ids in said) == (not targets_too)
    assert len(shown[0] & shown[2]) > 400 > 200 > len(shown[0] & shown[1])


def test_tokens_of_an_imported_vocabulary_are_not_sampled(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizer, "_is_part", True)
    with pytest.raises(UsageError, match="an imported vocabulary has no other pieces"):
        tokenizer.encode_drawn(["a"], 0.1, 0)


def test_encoded_text_is_enough_without_its_source(
    tmp_path: Path, tokenizer_path: Path, counting: Counting, caplog: pytest.LogCaptureFixture
) -> None:
    """With word alignments and random segmentations too, moved to another folder, by digests."""
    caplog.set_level(logging.INFO)
    pairs = reverse_pairs(100, seed=1)
    write_pairs(tmp_path / "text", pairs, ("en", "de"))
    write_links(tmp_path / "text", pairs, ("en", "de"))

    def named(folder: Path, name: str = "text", max_pairs: int | None = 50) -> ParallelText:
        files = TextFiles(folder / name, ("en", "de"))
        return ParallelText(files, ("en", "de"), max_pairs=max_pairs, name=name)

    def encoded(folder: Path, text: ParallelText, limit: int = LIMIT) -> list[EncodedText]:
        files = TokenFiles(folder / "encoded", tokenizer_path)
        linked = files.with_links(Numbered(0, text))
        texts = [Numbered(0, linked), Numbered(1, text), Numbered(1, text, Drawing(0.3, 2))]
        return files.encode_all(texts, counting, limit)

    right, before = encoded(tmp_path, named(tmp_path)), counting.encoded
    assert "not there" not in caplog.text
    moved = tmp_path / "moved"
    shutil.copytree(tmp_path / "encoded", moved / "encoded")
    encoded_texts = encoded(moved, named(moved))
    assert counting.encoded == before
    for actual, original in zip(encoded_texts, right, strict=True):
        assert (actual.ids.tolist(), actual.ends.tolist()) == (
            original.ids.tolist(),
            original.ends.tolist(),
        )
        assert (actual.sides, actual.digest, actual.left_out) == (
            original.sides,
            original.digest,
            original.left_out,
        )
    assert [encoded_text.sides for encoded_text in encoded_texts] == [3, 2, 2]
    digest = sha256(tmp_path / "text.en")
    assert "3 texts are not there" in caplog.text
    assert f"text {digest[:12]}, text {digest[:12]}" in caplog.text
    for text, limit, message in (
        (named(moved), LIMIT + 1, "has another max_length_tokens: give the text or the settings"),
        (named(moved, max_pairs=20), LIMIT, "has another max_pairs: give the text or the settings"),
        (named(moved, "other"), LIMIT, r"other\.en: no such file"),
    ):
        with pytest.raises(UsageError, match=message) as raised:
            encoded(moved, text, limit)
        assert "\n" not in str(raised.value)
    ids = moved / "encoded" / "1" / "ids.bin"
    ids.write_bytes(ids.read_bytes()[:-2])
    with pytest.raises(UsageError, match="has another size: give the text"):
        encoded(moved, named(moved))
    (moved / "text.en").write_text("one side alone")
    with pytest.raises(UsageError, match=r"text\.de: no such file"):
        encoded(moved, named(moved))


def test_a_run_needs_its_encoded_text_only(tmp_path: Path) -> None:
    text(tmp_path)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        "[model]\npreset = 'tiny'\n[vocabulary]\nsize = 320\n[data]\ntrain = ['text']\n"
        "[training]\nsteps = 3\nbatch_tokens = 200\nwarmup_steps = 5\n"
    )
    train = ["train", "--config", str(recipe), "--data-dir", str(tmp_path), "--out"]
    assert main([*train, str(tmp_path / "whole")]) == 0
    for name in ("encoded-text", "tokenizer.model"):
        source = tmp_path / "whole" / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        (tmp_path / "packed").mkdir(exist_ok=True)
        copy(source, tmp_path / "packed" / name)
    for path in tmp_path.glob("text.*"):
        path.unlink()
    assert main([*train, str(tmp_path / "packed")]) == 0
    whole, packed = (tmp_path / run / "final/model.safetensors" for run in ("whole", "packed"))
    assert packed.read_bytes() == whole.read_bytes()


def test_a_joined_corpus_is_its_texts_one_after_the_other(
    tmp_path: Path, tokenizer_path: Path, tokenizer: Tokenizer
) -> None:
    pairs = {name: reverse_pairs(20, seed) for seed, name in enumerate(("one", "other"))}
    for name, of_name in pairs.items():
        write_pairs(tmp_path / name, of_name, ("en", "de"))
        write_links(tmp_path / name, of_name, ("en", "de"))
    write_pairs(tmp_path / "whole", [*pairs["one"], *pairs["other"], *pairs["one"]], ("en", "de"))
    joined = [tmp_path / name for name in ("one", "other", "one")]
    files = TokenFiles(tmp_path / "encoded", tokenizer_path)
    text, whole = (
        ParallelText(pairs, ("en", "de"))
        for pairs in (
            TextFiles(tmp_path / "name", ("en", "de"), joined=joined),
            TextFiles(tmp_path / "whole", ("en", "de")),
        )
    )
    numbers = (Numbered(0, text), Numbered(1, whole))
    of_joined, of_whole = files.encode_all(numbers, tokenizer, 40)
    assert pairs_of(of_joined) == pairs_of(of_whole)
    linked = files.with_links(Numbered(0, text))
    assert linked.links == [(0, 1)]
    encoded = files.encode(Numbered(2, linked), tokenizer, 40)
    assert [side_ids(encoded, n, 0) for n in range(60)] == [
        source for source, _ in pairs_of(of_whole)
    ]
    assert [side_ids(encoded, n, 2) for n in range(20)] == [
        side_ids(encoded, n, 2) for n in range(40, 60)
    ]
    (tmp_path / "other.en-de.links").unlink()
    with pytest.raises(UsageError, match=r"other\.en-de\.links: no such file"):
        files.encode(Numbered(3, files.with_links(Numbered(3, text))), tokenizer, 40)
    (tmp_path / "other.de").unlink()
    with pytest.raises(UsageError, match=r"other\.de: no such file"):
        files.encode(Numbered(0, text), tokenizer, 40)


@pytest.mark.parametrize("command", ["clean", "link-words"])
def test_a_joined_corpus_is_for_training_only(
    tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text("[data]\ntrain = [{ prefix = 'all', joined = ['a/train', 'b/train'] }]\n")
    words = {"clean": ["--out", str(tmp_path / "out")], "link-words": ["--eflomal", "/bin/true"]}
    assert main([command, "--config", str(recipe), *words[command]]) == 2
    printed = capsys.readouterr().err.strip()
    assert printed == (
        f"dragoman {command}: the corpus 'all': joined is for training only; use a recipe that "
        "lists its texts one by one"
    )
