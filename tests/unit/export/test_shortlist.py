"""Lexical shortlists from parallel text, and the command that writes them."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dragoman_export.word_translation import ROUNDS, count_links
from dragoman_serving.engine.settings import EngineSettings
from dragoman_serving.translation.translator import Translator
from safetensors.numpy import load_file

from dragoman.cli import main
from dragoman.kernel.errors import InvalidRequest
from dragoman.kernel.manifest import Manifest
from tests.conftest import CommandLine
from tests.toy import reverse_pairs, write_pairs

EMPTY, SIZE = 3, 40


def test_links_equal_those_of_a_dictionary() -> None:
    """Word order does not matter; unaligned tokens link to the token that all sources have."""
    generator = np.random.default_rng(0)
    sources = [generator.choice(np.arange(10, 20), 4, replace=False) for _ in range(300)]
    pairs = [
        ((*ids.tolist(), EMPTY), (*generator.permutation(ids + 10).tolist(), 9)) for ids in sources
    ]
    rounds: list[int] = []
    links = count_links(pairs, SIZE, rounds.append)
    assert rounds == list(range(1, ROUNDS + 1))
    assert links.counts.sum() == pytest.approx(5 * len(pairs))
    best = {
        int(src): int(links.tgt_ids[rows][links.counts[rows].argmax()])
        for src in np.unique(links.src_ids)
        for rows in [links.src_ids == src]
    }
    assert best == {EMPTY: 9, **{word: word + 10 for word in range(10, 20)}}


def test_chunks_do_not_change_the_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(1)
    pairs = [
        (generator.integers(0, SIZE, src).tolist(), generator.integers(0, SIZE, tgt).tolist())
        for src, tgt in generator.integers(1, 6, (50, 2)).tolist()
    ]
    whole = count_links(pairs, SIZE)
    monkeypatch.setattr("dragoman_export.word_translation._TOGETHER", 7)
    parts = count_links(pairs, SIZE)
    assert np.array_equal(whole.src_ids, parts.src_ids)
    assert np.array_equal(whole.tgt_ids, parts.tgt_ids)
    assert parts.counts == pytest.approx(whole.counts)


@pytest.fixture
def bundle(random_bundle: Path, tmp_path: Path) -> Path:
    write_pairs(tmp_path / "text", reverse_pairs(300, seed=2), ("en", "de"))
    return Path(shutil.copytree(random_bundle, tmp_path / "bundle"))


def words(bundle: Path, *more: str) -> list[str]:
    return ["shortlist", str(bundle), "--data-dir", str(bundle.parent), *more]


def test_the_command_writes_lists_of_every_source_token(bundle: Path, cli: CommandLine) -> None:
    before = Manifest.load(bundle)
    assert before.shortlist is None
    printed = cli.prints(*words(bundle, "--text", "text", "--frequent", "4")).splitlines()
    assert printed[0].endswith("shortlist.safetensors: 0.0 MB")
    assert [line.partition(" pairs")[0] for line in printed[1:]] == ["en-de: 300", "de-en: 300"]
    assert "100.0% of the translations' tokens are listed" in printed[1]
    after = Manifest.load(bundle)
    name = after.shortlist
    assert name is not None
    assert replace(after, shortlist=None, files=before.files) == before
    assert set(after.files) == {*before.files, name}
    assert name in after.own_files
    assert after.identity != before.identity
    arrays = load_file(bundle / name)
    tokenizer = after.open_tokenizer(bundle)
    assert arrays["tags"].tolist() == [tokenizer.tag_id(language) for language in ("en", "de")]
    size, end = after.dimensions.vocab_size, after.special_ids.end
    lists = np.split(arrays["ids"], arrays["begins"][1:-1])
    assert len(lists) == 2 * size
    for token in tokenizer.encode("red"):  # the toy language copies words
        assert token in lists[token]
        assert token in lists[size + token]
    texts = (bundle.parent / "text.de").read_text(encoding="utf-8").splitlines()
    counts = Counter(token for text in texts for token in tokenizer.encode(text))
    assert set(lists[size + end].tolist()) == {
        end,
        *(token_id for token_id, _ in counts.most_common(4)),
    }


def test_impossible_lists_are_refused_in_one_line(
    bundle: Path, three_languages: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*given: str) -> str:
        assert main(list(given)) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        return error

    assert "--tokens 0: give 1 or more" in refused(
        *words(bundle, "--text", "text", "--tokens", "0")
    )
    assert "none.en, " in refused(*words(bundle, "--text", "none"))
    assert main(words(bundle, "--text", "text")) == 0
    capsys.readouterr()
    again = refused(*words(bundle, "--text", "text"))
    assert f"{bundle} has shortlists: give --force to replace them" in again
    assert main(words(bundle, "--text", "text", "text", "--pairs", "200", "--force")) == 0
    assert "en-de: 400 pairs" in capsys.readouterr().out
    third = Path(shutil.copytree(three_languages, tmp_path / "third"))
    assert "no text covers the model's direction de-fr" in refused(*words(third, "--text", "text"))
    write_pairs(tmp_path / "odd", reverse_pairs(9, seed=1), ("en", "fr"))
    assert "--text odd: the model translates nothing between ['en', 'fr']" in refused(
        *words(third, "--text", "odd")
    )


def test_requests_accept_the_option_if_the_bundle_has_shortlists(
    bundle: Path, random_bundle: Path
) -> None:
    texts = ["red blue", "green", "white white black", "pink grey brown red"]
    without = Translator(random_bundle, EngineSettings(workers=1))
    with pytest.raises(InvalidRequest, match="with: dragoman shortlist BUNDLE --text PREFIX"):
        without.translate(texts, {"shortlist": True})
    with pytest.raises(InvalidRequest, match="shortlist: the bundle has none"):
        without.stream("red", {"shortlist": True}, lambda: None)
    assert main(words(bundle, "--text", "text")) == 0
    listed = Translator(bundle, EngineSettings(workers=1))
    options = {"target_language": "de", "return_scores": True}
    plain = listed.translate(texts, options)
    assert [translation.text for translation in plain] == [
        translation.text for translation in without.translate(texts, options)
    ]
    translations = listed.translate(texts, {**options, "shortlist": True})
    assert [
        listed.translate([text], {**options, "shortlist": True})[0] for text in texts
    ] == translations
    assert [translation.score for translation in translations] != [
        translation.score for translation in plain
    ]
    without.close()
    listed.close()
    other = Translator(bundle, EngineSettings(workers=1, runtime="onnxruntime"))
    with pytest.raises(InvalidRequest, match="shortlist: not with the runtime onnxruntime"):
        other.translate(texts, {"shortlist": True})
    other.close()
