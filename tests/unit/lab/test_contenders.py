"""The arithmetic and the tables of the benchmarks, and the conversion for the peer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from dragoman_export.bundle import export_bundle
from dragoman_training.oracle.search import greedy_search
from dragoman_training.run import checkpoint

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Limits, Manifest
from lab.peers import test_set
from lab.peers.processes import CTranslate2Process, Threads
from lab.report import Case, Sample, markdown_table, spread
from tests.conftest import MakeBundle
from tests.toy import reverse_pairs, write_pairs


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


def test_the_peer_is_reported_with_its_fastest_setting_by_median() -> None:
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


def test_too_long_sentences_are_omitted(tmp_path: Path, random_bundle: Path) -> None:
    limits = Limits()
    pairs = [("red blue", "blue red"), ("red " * limits.max_source_tokens, "x"), ("red", "red")]
    write_pairs(tmp_path / "test", pairs, ("en", "de"))
    manifest = Manifest.load(random_bundle)
    test = test_set.read_test_set(tmp_path, "test", None, random_bundle, manifest)
    assert test.texts == ("red blue", "red")
    assert test.references == ("blue red", "red")
    assert test.left_out == 1
    first = test_set.read_test_set(tmp_path, "test", 1, random_bundle, manifest)
    assert (first.texts, first.left_out) == (("red blue",), 0)
    assert first.source_tokens < test.source_tokens


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_converted_model_generates_the_oracles_tokens(
    tmp_path: Path, random_checkpoint: MakeBundle, norm: str
) -> None:
    pytest.importorskip("ctranslate2")
    from lab.peers.ctranslate2_model import convert

    bundle, model = tmp_path / "bundle", tmp_path / "model"
    limits = export_bundle(random_checkpoint(norm), bundle).limits
    convert(bundle, model)
    loaded = checkpoint.load(bundle)
    texts = [src for src, _ in reverse_pairs(20, seed=1)]
    src = [loaded.tokenizer.encode_source(text, "de") for text in texts]
    expected = greedy_search(loaded.model, src, [limits.target_tokens(len(ids)) for ids in src])
    with CTranslate2Process(model, bundle, Threads(intra=1, inter=2)) as process:
        found = process.translate(texts, beam_width=1, batch_size=1)
        # All in one call with one limit, which must not be below any sentence's own.
        together = process.translate(texts, beam_width=1, batch_size=len(texts))
    assert [o.ids for o in found.outputs] == [h.ids for h in expected]
    assert [o.cut for o in found.outputs] == [not h.complete for h in expected]
    assert [o.text for o in found.outputs] == [loaded.tokenizer.decode(h.ids) for h in expected]
    for output, hypothesis in zip(together.outputs, expected, strict=True):
        assert output.ids is not None
        assert output.ids[: len(hypothesis.ids)] == hypothesis.ids
    with pytest.raises(UsageError, match="exists"):
        convert(bundle, model)
