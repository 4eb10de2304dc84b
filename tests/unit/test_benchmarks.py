"""The arithmetic and the tables of the benchmarks, and the conversion for the peer."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import translation
from benchmarks.contenders import CTranslate2Process, Output, Run, Threads
from benchmarks.report import (
    Agreement,
    Case,
    Sample,
    agreement_table,
    markdown_table,
    speed_table,
    spread,
)
from dragoman.errors import CheckFailed, UsageError
from dragoman.manifest import Limits, Manifest
from export.bundle import export_bundle
from tests.conftest import MakeBundle
from tests.toy import reverse_pairs, write_pairs
from training import checkpoint
from training.search import greedy_search


def samples(*elapsed_s: float, tokens: int = 60, cut: int = 0) -> tuple[Sample, ...]:
    return tuple(Sample(value, tokens, cut) for value in elapsed_s)


CASE = Case(
    test="a/test",
    beam_width=4,
    batch_size=32,
    sentences=10,
    source_tokens=50,
    dragoman=samples(1.0, 2.0, 4.0),
    ctranslate2={
        "slow": samples(9.0, 9.0, 1.0),
        "fast": samples(3.0, 3.0, 3.0, tokens=75, cut=1),
    },
)


def test_the_peer_is_quoted_with_the_setting_of_the_fastest_median() -> None:
    assert CASE.best_setting == "fast"


def test_ratios_are_taken_round_by_round() -> None:
    assert CASE.ratios == [3.0, 1.5, 0.75]
    assert spread(CASE.ratios) == "1.50 (0.75..3.00)"


def test_speeds_are_those_of_the_median_round() -> None:
    values = CASE.summary()
    assert values["dragoman_speed"] == {
        "sentences_per_s": 5.0,
        "tokens_per_s": 30.0,
        "length_ratio": 1.2,
        "cut_share": 0.0,
    }
    assert values["ctranslate2_speed"]["tokens_per_s"] == 25.0
    assert values["ctranslate2_speed"]["cut_share"] == 0.1
    assert json.loads(json.dumps(values))["ctranslate2"]["slow"][2]["elapsed_s"] == 1.0


def test_a_table_is_aligned_and_valid_markdown() -> None:
    table = markdown_table(("name", "n"), [("a", "1"), ("longer", "100")])
    assert table == (
        "| name   |   n |\n"
        "| ------ | --: |\n"
        "| a      |   1 |\n"
        "| longer | 100 |"
    )  # fmt: skip


def test_tables_name_what_was_measured() -> None:
    row = [cell.strip() for cell in speed_table([CASE]).splitlines()[2].split("|")[1:-1]]
    assert row == [
        *("a/test", "beam 4", "32", "5.0", "30", "3.3", "25", "fast"),
        *("1.50 (0.75..3.00)", "1.20 / 1.50", "0.0 % / 10.0 %"),
    ]
    agreement = Agreement("a/test", 10, 1, 4, 0.9, 0.5, 31.256, 30.0, "signature")
    row = [c.strip() for c in agreement_table([agreement]).splitlines()[2].split("|")[1:-1]]
    assert row == ["a/test", "10", "1", "90.0 %", "50.0 %", "31.26", "30.00"]


def test_equal_means_text_and_number_of_tokens() -> None:
    def run(*outputs: tuple[str, int]) -> Run:
        return Run(1.0, tuple(Output(text, tokens, cut=False) for text, tokens in outputs))

    one = run(("a", 1), ("b", 2), ("c", 3), ("d", 4))
    other = run(("a", 1), ("b", 3), ("x", 3), ("d", 4))
    assert translation.equal_share(one, other) == 0.5


class FakeContender:
    """Takes note of what it is asked."""

    def __init__(self, name: str, log: list[tuple[str, int, int, int]]) -> None:
        self.name = name
        self.log = log

    def translate(self, texts: object, beam_width: int, batch_size: int) -> Run:
        assert isinstance(texts, tuple)
        self.log.append((self.name, len(texts), beam_width, batch_size))
        return Run(2.0, tuple(Output(text, 3, cut=text == "b") for text in texts))


def test_rounds_alternate_and_everyone_warms_up_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translation, "_PAUSE_S", 0.0)
    log: list[tuple[str, int, int, int]] = []
    test = translation.TestSet("t", tuple("abcdef"), tuple("abcdef"), 12, 0)
    peers = {"one": FakeContender("one", log), "two": FakeContender("two", log)}
    contenders = translation.Contenders(FakeContender("ours", log), peers)
    case = translation.race(test, contenders, (4, 1), repeats=2, advance=lambda what: None)
    names = ("ours", "one", "two")
    assert log[:3] == [(name, 4, 4, 1) for name in names]
    assert log[3:] == [(name, 6, 4, 1) for name in names * 2]
    assert case.dragoman == samples(2.0, 2.0, tokens=18, cut=1)
    assert case.ctranslate2 == {"one": case.dragoman, "two": case.dragoman}


def test_sentences_that_are_too_long_are_left_out(tmp_path: Path, random_bundle: Path) -> None:
    limits = Limits()
    pairs = [("red blue", "blue red"), ("red " * limits.max_source_tokens, "x"), ("red", "red")]
    write_pairs(tmp_path / "test", pairs, ("en", "de"))
    manifest = Manifest.load(random_bundle)
    test = translation.read_test_set(tmp_path, "test", None, random_bundle, manifest)
    assert test.texts == ("red blue", "red")
    assert test.references == ("blue red", "red")
    assert test.left_out == 1
    first = translation.read_test_set(tmp_path, "test", 1, random_bundle, manifest)
    assert (first.texts, first.left_out) == (("red blue",), 0)
    assert first.source_tokens < test.source_tokens


def test_another_model_than_the_served_one_is_refused(
    tmp_path: Path, random_bundle: Path, random_checkpoint: MakeBundle
) -> None:
    served = tmp_path / "repository" / "translate" / "1" / "bundle"
    served.parent.mkdir(parents=True)
    export_bundle(random_checkpoint("pre"), served)
    with pytest.raises(UsageError, match="is not the bundle that"):
        translation._check_same_model(random_bundle, tmp_path / "repository")
    assert translation._check_same_model(served, tmp_path / "repository").files


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_converted_model_writes_the_oracles_tokens(
    tmp_path: Path, random_checkpoint: MakeBundle, norm: str
) -> None:
    pytest.importorskip("ctranslate2")
    from benchmarks.ctranslate2_model import convert

    bundle, model = tmp_path / "bundle", tmp_path / "model"
    limits = export_bundle(random_checkpoint(norm), bundle).limits
    convert(bundle, model)
    loaded = checkpoint.load(bundle)
    texts = [src for src, _ in reverse_pairs(20, seed=1)]
    src = [loaded.tokenizer.encode_source(text, "de") for text in texts]
    expected = greedy_search(loaded.model, src, [limits.target_tokens(len(ids)) for ids in src])
    with CTranslate2Process(model, bundle, Threads(intra=1, inter=2)) as process:
        found = process.translate(texts, beam_width=1, batch_size=1)
        # In one call for all, so with one limit for all: none may be below its own.
        together = process.translate(texts, beam_width=1, batch_size=len(texts))
    assert [o.ids for o in found.outputs] == [h.ids for h in expected]
    assert [o.cut for o in found.outputs] == [not h.complete for h in expected]
    assert [o.text for o in found.outputs] == [loaded.tokenizer.decode(h.ids) for h in expected]
    for output, hypothesis in zip(together.outputs, expected, strict=True):
        assert output.ids is not None
        assert output.ids[: len(hypothesis.ids)] == hypothesis.ids
    with pytest.raises(UsageError, match="exists already"):
        convert(bundle, model)


def test_different_translations_are_not_raced() -> None:
    agreement = Agreement("a/test", 100, 0, 4, 0.98, 0.5, 30.0, 30.0, "signature")
    translation._check_agreement([agreement])
    with pytest.raises(CheckFailed, match=r"a/test: only 97\.0%"):
        translation._check_agreement([agreement, replace(agreement, greedy_equal=0.97)])
