"""A model's own length penalty: exported with it, and used if a request gives none."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
from dragoman_export.bundle import export_bundle
from dragoman_options.arguments import OptionArguments
from dragoman_serving.engine.settings import EngineSettings
from dragoman_serving.fidelity.reading import Reading
from dragoman_serving.request.plan import plan_request
from dragoman_serving.translation.translator import Translator
from dragoman_training.oracle.constraints import Options
from dragoman_training.oracle.search import search
from dragoman_training.run import checkpoint

from dragoman.cli import main
from dragoman.kernel.manifest import Limits, Manifest
from dragoman.kernel.text import Tokenizer
from tests.conftest import REPOSITORY, CommandLine
from tests.toy import write_pairs

SHIPPED = REPOSITORY / "model_repository" / "translate" / "1" / "bundle"
ALPHA, OTHER = 9.0, 0.0
"""So different that some of these translations change."""
PAIRS = [
    ("I have lost my keys, and it is raining.", "Ich habe meine Schlüssel verloren."),
    ("Good morning!", "Guten Morgen!"),
    ("The children play in the garden because it is warm.", "Die Kinder spielen im Garten."),
]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped model with another length penalty than its own."""
    made = tmp_path_factory.mktemp("own") / "bundle"
    words = ["export", "onnx", str(SHIPPED), "--out", str(made)]
    assert main([*words, "--length-penalty", str(ALPHA)]) == 0
    return made


def test_an_export_names_it_and_another_one_keeps_it(bundle: Path, tmp_path: Path) -> None:
    own = Manifest.load(bundle).limits
    assert own == dataclasses.replace(Manifest.load(SHIPPED).limits, length_penalty=ALPHA)
    assert export_bundle(bundle, tmp_path / "again").limits == own
    assert checkpoint.load(bundle).limits == own


@pytest.mark.parametrize("value", ["-1", "11", "nan"])
def test_one_out_of_range_is_refused_before_anything_is_made(
    value: str, tmp_path: Path, cli: CommandLine
) -> None:
    words = ["export", "onnx", str(SHIPPED), "--out", str(tmp_path / "bundle")]
    assert "limits.length_penalty is" in cli.refuses(*words, f"--length-penalty={value}")
    assert list(tmp_path.iterdir()) == []


def test_an_older_bundle_has_the_papers_length_penalty(bundle: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(bundle, tmp_path / "copy")
    values = json.loads((copy / "manifest.json").read_text())
    del values["limits"]["length_penalty"]
    (copy / "manifest.json").write_text(json.dumps(values))
    assert Manifest.load(copy).limits.length_penalty == 0.6


def test_a_request_may_name_another() -> None:
    limits, tokenizer = Limits(length_penalty=ALPHA), Tokenizer(SHIPPED / "tokenizer.model")
    for options, right in ((OptionArguments(), ALPHA), (OptionArguments(length_penalty=0.0), 0.0)):
        plan = plan_request(options, limits, tokenizer)
        assert plan.alpha == right
        assert plan.of_sentence(0, Reading("a"), (1, 2))[1].length_penalty == right


def test_the_engine_uses_it_like_pytorch(bundle: Path) -> None:
    loaded = checkpoint.load(bundle)
    texts = [source for source, _ in PAIRS]
    src = [loaded.tokenizer.encode_source(text, "de") for text in texts]
    most = [loaded.limits.target_tokens(len(ids)) for ids in src]
    right, other = (
        [
            loaded.tokenizer.decode(best.ids)
            for best, *_ in search(loaded.model, src, most, Options(4, alpha))
        ]
        for alpha in (ALPHA, OTHER)
    )
    assert right != other
    translator = Translator(bundle, EngineSettings(precision="fp32"))
    translations = translator.translate(texts, {"target_language": "de", "beam_width": 4})
    translator.close()
    assert [translation.text for translation in translations] == right


@pytest.mark.parametrize("runtime", ["torch", "engine"])
def test_evaluation_uses_the_served_length_penalty(
    runtime: str, bundle: Path, tmp_path: Path, cli: CommandLine
) -> None:
    write_pairs(tmp_path / "held", PAIRS, ("en", "de"))
    words = ["evaluate", str(bundle), "--data-dir", str(tmp_path), "--test", "held"]
    words += ["--runtime", runtime, "--direction", "en-de", "--out"]

    def translations(name: str, *more: str) -> str:
        assert main([*words, str(tmp_path / name), *more]) == 0
        return (tmp_path / name / "held.en-de.txt").read_text()

    own = translations("own")
    assert own == translations("named", "--length-penalty", str(ALPHA))
    assert own != translations("other", "--length-penalty", str(OTHER))
    before = (bundle / "manifest.json").read_text()
    assert f"the model's own length penalty, {ALPHA}" in cli.refuses(
        *words, tmp_path / "x", "--record", "--length-penalty", OTHER
    )
    assert (bundle / "manifest.json").read_text() == before


def test_scores_are_divided_by_it(bundle: Path, tmp_path: Path, cli: CommandLine) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("\t".join(PAIRS[0]) + "\n", "utf-8")
    words = [
        "score",
        str(bundle),
        "--tsv",
        str(pairs),
        "--source-language",
        "en",
        "--target-language",
        "de",
    ]

    def score(*more: str) -> str:
        return cli.prints(*words, *more).split("\t")[0]

    own, named = score(), score("--length-penalty", str(ALPHA))
    assert own == named != score("--length-penalty", str(OTHER))


def test_a_teacher_uses_it(bundle: Path, tmp_path: Path) -> None:
    write_pairs(tmp_path / "train", PAIRS, ("en", "de"))
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('[data]\ntrain = ["train"]\n')
    words = ["distill", "--teacher", str(bundle), "--config", str(recipe)]
    words += ["--data-dir", str(tmp_path), "--out"]
    for name, alpha in (("own", ()), ("named", (str(ALPHA),)), ("other", (str(OTHER),))):
        more = [word for value in alpha for word in ("--length-penalty", value)]
        assert main([*words, str(tmp_path / name), *more]) == 0
    own, named, other = (
        (tmp_path / name / "train.en-de.de").read_text() for name in ("own", "named", "other")
    )
    assert own == named != other
    report = json.loads((tmp_path / "own" / "train.en-de.json").read_text())
    assert report["length_penalty"] == ALPHA
