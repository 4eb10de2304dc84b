from __future__ import annotations

import logging
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dragoman_training.config import CorpusConfig, RunConfig, complete, resolve
from dragoman_training.run import checkpoint, small_text
from dragoman_training.run.small_text import TextSize, choose, measure, settings_for

from dragoman.cli import main
from dragoman.kernel.text import Tokenizer
from tests.conftest import REPOSITORY, CommandLine, MakeBundle
from tests.toy import reverse_pairs, write_pairs
from tests.unit.training.run.small_runs import assert_same_weights

RECIPES = REPOSITORY / "training/dragoman_training/recipes"
SMALL = TextSize(pairs=1300, tgt_tokens=26_000, characters=80)
QUICK = (
    *("model.preset=tiny", "training.steps=4", "training.precision=fp32"),
    "training.valid_bleu_sentences=1",
)


def own(folder: Path, pairs: int) -> dict[str, Any]:
    """Text with this many pairs, as the settings of `--text`."""
    write_pairs(folder / "my", reverse_pairs(pairs, seed=1), ("en", "de"))
    return {"languages": ["en", "de"], "train": [str(folder / "my")], "valid": []}


def train(folder: Path, run: str, *words: str) -> int:
    """A command line's exit code."""
    options = [f"--set={word}" if "=" in word else word for word in words]
    text = ("--text", str(folder / "my.en"), str(folder / "my.de"))
    return main(["train", *text, "--out", str(folder / run), *options])


def test_more_text_gets_more_steps_in_fewer_epochs() -> None:
    sizes = [TextSize(n, 20 * n, 80) for n in (1, 10, 100, 1300, 10_000, 100_000)]
    choices = [choose({"training": {"batch_tokens": 2000}}, size) for size in sizes]
    steps = [settings["training"]["steps"] for settings in choices]
    assert steps == sorted(steps)
    shown = [n / size.tgt_tokens for n, size in zip(steps, sizes, strict=True)]
    assert shown == sorted(shown, reverse=True)
    entries = [settings["vocabulary"]["size"] for settings in choices]
    assert entries == sorted(entries)
    for settings in choices:
        training = settings["training"]
        assert training["warmup_steps"] + training["cooldown_steps"] < training["steps"]
        complete({"training": training, "vocabulary": settings["vocabulary"]})


def test_many_characters_need_a_larger_vocabulary() -> None:
    chinese = replace(SMALL, characters=2500)
    assert choose({}, chinese)["vocabulary"]["size"] > 256 + 2500


def test_given_settings_are_not_changed() -> None:
    given = {"vocabulary": {"size": 500}, "training": {"steps": 300, "cooldown_steps": 7}}
    assert choose(given, SMALL) == {
        "vocabulary": {},
        "training": {
            "warmup_steps": 30,
            "log_every_steps": 30,
            "validate_every_steps": 30,
            "checkpoint_every_steps": 30,
        },
    }
    long = {"training": {"batch_tokens": 2000, "warmup_steps": 5000, "cooldown_steps": 6000}}
    assert choose(long, SMALL)["training"]["steps"] == 11_000


def test_small_text_without_a_recipe_gets_a_default_recipe(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = settings_for(None, ["training.seed=3"], own(tmp_path, 300), tmp_path)
    recipe = resolve(RECIPES / "small.toml", [])
    assert replace(config.model, vocab_size=8000) == recipe.model
    assert config.training.optimizer == recipe.training.optimizer
    assert (config.training.seed, config.model.vocab_size) == (3, config.vocabulary.size)
    (line,) = [record.message for record in caplog.records if record.levelname == "WARNING"]
    for setting in ("only 300 pairs", "the recipe small.toml", "--set NAME=VALUE changes one"):
        assert setting in line
    for name in (f"vocabulary.size={config.vocabulary.size}", f"steps={config.training.steps}"):
        assert name in line


def test_a_recipe_keeps_its_schedule(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    data = own(tmp_path, 300)
    config = settings_for(RECIPES / "tatoeba.toml", [], data, tmp_path)
    assert (config.training.steps, config.training.warmup_steps) == (7200, 800)
    assert config.vocabulary.size == 8000
    assert not caplog.records
    own_recipe = tmp_path / "recipe.toml"
    own_recipe.write_text('[training]\nbatch_tokens = 1000\n[model]\npreset = "tiny"\n')
    config = settings_for(own_recipe, [], data, tmp_path)
    assert config.training.steps < 5000
    assert config.model.model_size == 64
    assert config.training.optimizer == "adam", "what a recipe leaves out but steps has defaults"
    (record,) = caplog.records
    assert "small.toml" not in record.message


def test_large_text_keeps_the_defaults(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_text, "_MOST_PAIRS", 299)
    data = own(tmp_path, 300)
    assert settings_for(None, [], data, tmp_path) == complete({"data": data})
    (record,) = caplog.records
    assert "no --config" in record.message


def test_text_in_one_direction_has_half_the_tokens(tmp_path: Path) -> None:
    own(tmp_path, 50)
    for language, lines in (("en", "\nred\n"), ("de", "red\n\n")):
        with (tmp_path / f"my.{language}").open("a") as file:
            file.write(lines)
    both = CorpusConfig("my", ("en", "de"))
    measured = measure([both], tmp_path)
    assert measured is not None
    assert measured.pairs == 50, "pairs with an empty side are left out"
    half_more = measure([both, replace(both, weight=0.5)], tmp_path)
    assert half_more is not None
    assert half_more.pairs == 75
    assert half_more.tgt_tokens == pytest.approx(1.5 * measured.tgt_tokens, abs=1)
    one_way = measure([replace(both, one_way=True)], tmp_path)
    assert one_way is not None
    assert one_way.tgt_tokens == pytest.approx(measured.tgt_tokens / 2, abs=1)


@pytest.mark.parametrize(
    ("english", "german", "message"),
    [
        ("\n \n", "a\nb\n", "my: every pair has an empty side; give text in both files"),
        ("", "", "my.en: is empty"),
        ("a\nb\n", "a\n", "2 in en, 1 in de; line N of one must be the translation of line N"),
        (None, "a\n", "my.en: no such file"),
    ],
)
def test_unusable_text_is_refused_in_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    english: str | None,
    german: str,
    message: str,
) -> None:
    for language, text in (("en", english), ("de", german)):
        if text is not None:
            (tmp_path / f"my.{language}").write_text(text)
    assert train(tmp_path, "run") == 2
    printed = capsys.readouterr().err.splitlines()
    assert message in printed[-1]
    assert not (tmp_path / "run").exists(), "nothing was written"


@pytest.mark.parametrize("pairs", [1, 10, 100])
def test_a_few_pairs_train(tmp_path: Path, pairs: int) -> None:
    own(tmp_path, pairs)
    assert train(tmp_path, "run", *QUICK) == 0
    config = checkpoint.load(tmp_path / "run" / "final").config
    assert config.training.steps == 4
    assert config.data.valid == ()


def test_the_vocabulary_is_as_large_as_the_text_allows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own(tmp_path, 50)
    words = (*QUICK, "vocabulary.size=8000")
    assert train(tmp_path, "run", *words) == 0
    loaded = checkpoint.load(tmp_path / "run" / "final")
    entries = loaded.tokenizer.vocab_size
    assert 256 < entries < 8000
    assert (loaded.config.vocabulary.size, loaded.config.model.vocab_size) == (entries, entries)
    right = f"vocabulary.size is 8000, but the text gives only {entries} entries"
    assert [right in record.message for record in caplog.records].count(True) == 1
    resumed = (*words, "training.steps=6", "--resume")
    assert train(tmp_path, "run", *resumed) == 0

    # A run that was stopped before its first checkpoint left its vocabulary.
    for name in ("checkpoints", "final"):
        shutil.rmtree(tmp_path / "run" / name)
    assert train(tmp_path, "run", *words) == 0
    # One of other text is not mistaken for it.
    for name in ("checkpoints", "final"):
        shutil.rmtree(tmp_path / "run" / name)
    (tmp_path / "my.en").write_text("eins zwei drei vier\n")
    (tmp_path / "my.de").write_text("one two three four\n")
    assert train(tmp_path, "run", *words) == 2


def test_chosen_settings_are_kept_when_the_run_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_text, "_FEWEST_STEPS", 20)
    monkeypatch.setattr(small_text, "_SHOWN_TOKENS", 1)
    own(tmp_path, 60)
    quick = ("model.preset=tiny", "training.precision=fp32", "training.batch_tokens=8000")
    assert train(tmp_path, "whole", *quick, "training.keep_checkpoints=20") == 0
    whole = checkpoint.load(tmp_path / "whole" / "final").config
    steps = whole.training.steps
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    shutil.rmtree(tmp_path / "cut" / "final")
    folders = checkpoint.step_folders(tmp_path / "cut")
    for folder in folders[-2:]:
        shutil.rmtree(folder)
    # Neither the text nor the settings are given again.
    assert main(["train", "--out", str(tmp_path / "cut"), "--resume"]) == 0
    cut = checkpoint.load(tmp_path / "cut" / "final").config
    assert cut == whole
    assert steps > 4 * whole.training.checkpoint_every_steps
    assert_same_weights(tmp_path / "cut" / "final", tmp_path / "whole" / "final")


def test_a_run_with_a_recipe_keeps_the_chosen_settings(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('[training]\nbatch_tokens = 1000\n[model]\npreset = "tiny"\n')
    saved = settings_for(recipe, [], own(tmp_path, 300), tmp_path)
    more = own(tmp_path, 3000)
    assert settings_for(recipe, [], more, tmp_path) != saved
    assert settings_for(recipe, [], more, tmp_path, saved=saved) == saved
    config = settings_for(recipe, ["training.steps=5000"], more, tmp_path, saved=saved)
    assert config.training == replace(saved.training, steps=5000)


def test_part_of_the_text_is_held_out_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own(tmp_path, 400)
    caplog.set_level(logging.INFO)
    assert train(tmp_path, "run", *QUICK) == 0
    data = checkpoint.load(tmp_path / "run" / "final").config.data
    assert [corpus.prefix for corpus in data.valid] == [str(tmp_path / "run/text/valid")]
    assert [corpus.prefix for corpus in data.train] == [str(tmp_path / "run/text/train")]
    assert f"of 400 pairs are held out for validation, as {tmp_path / 'run/text/valid'}" in (
        caplog.text
    )
    assert '"valid"' in (tmp_path / "run" / "log.jsonl").read_text()
    assert train(tmp_path, "none", *QUICK, "data.valid=[]") == 0
    assert checkpoint.load(tmp_path / "none" / "final").config.data.valid == ()
    assert not (tmp_path / "none" / "text").exists()
    # The validation text of a run stays when it is resumed.
    assert train(tmp_path, "none", "training.steps=6", "--resume") == 0
    assert checkpoint.load(tmp_path / "none" / "final").config.data.valid == ()
    assert train(tmp_path, "run", "training.steps=6", "--resume") == 0
    assert checkpoint.load(tmp_path / "run" / "final").config.data == data


def test_a_folder_in_use_gets_no_text(tmp_path: Path) -> None:
    own(tmp_path, 300)
    assert train(tmp_path, "run", *QUICK) == 0
    before = (tmp_path / "run/text/train.en").read_text()
    own(tmp_path, 400)
    assert train(tmp_path, "run", *QUICK) == 2
    assert (tmp_path / "run/text/train.en").read_text() == before


def test_a_run_that_starts_from_a_model_has_its_sizes(
    tmp_path: Path, random_checkpoint: MakeBundle
) -> None:
    own(tmp_path, 300)
    start = random_checkpoint("post")
    words = ("--start-from", str(start), "training.steps=3")
    assert train(tmp_path, "run", *words) == 0
    config, right = (
        checkpoint.load(tmp_path / "run" / "final").config,
        RunConfig.from_json(start / "config.json"),
    )
    assert replace(config.model, dropout=right.model.dropout) == right.model
    assert config.vocabulary.size == Tokenizer(start / "tokenizer.model").vocab_size
    from_nothing = settings_for(None, [], own(tmp_path, 3000), tmp_path).training
    further = settings_for(None, [], own(tmp_path, 3000), tmp_path, start=right).training
    assert further.steps < from_nothing.steps
    assert further.peak_learning_rate is not None
    assert from_nothing.peak_learning_rate is not None
    assert further.peak_learning_rate < from_nothing.peak_learning_rate


def test_general_text_is_used_as_often_as_the_users_text(
    tmp_path: Path, random_checkpoint: MakeBundle
) -> None:
    own(tmp_path, 300)
    write_pairs(tmp_path / "general", reverse_pairs(1200, seed=2), ("en", "de"))
    general = ("--general-text", *(str(tmp_path / name) for name in ("general.de", "general.en")))
    start = ("--start-from", str(random_checkpoint("post")))
    words = ("training.steps=2", "training.valid_bleu_sentences=2")
    assert train(tmp_path, "run", *start, *general, *words) == 0
    config = checkpoint.load(tmp_path / "run" / "final").config
    folders = ["text", "general-text"]
    assert [corpus.weight for corpus in config.data.train] == [1.0, 0.25]
    for corpora, name in ((config.data.train, "train"), (config.data.valid, "valid")):
        prefixes = [str(tmp_path / "run" / folder / name) for folder in folders]
        assert [corpus.prefix for corpus in corpora] == prefixes
    assert config.training.stop_on == "bleu"
    # The split and the measurement stay, whether the text is named again or not.
    resumed = ["train", "--out", str(tmp_path / "run"), "--resume", "--set=training.steps=3"]
    assert main(resumed) == 0
    assert train(tmp_path, "run", "--resume", *general, "training.steps=4") == 0
    assert checkpoint.load(tmp_path / "run" / "checkpoints/step-0000004").config.data == config.data


def test_validation_on_general_text_only_does_not_choose_the_model(
    tmp_path: Path, random_checkpoint: MakeBundle
) -> None:
    own(tmp_path, 20)
    write_pairs(tmp_path / "general", reverse_pairs(300, seed=2), ("en", "de"))
    general = ("--general-text", *(str(tmp_path / name) for name in ("general.en", "general.de")))
    start = ("--start-from", str(random_checkpoint("post")))
    assert train(tmp_path, "run", *start, *general, "training.steps=1") == 0
    config = checkpoint.load(tmp_path / "run" / "final").config
    assert config.data.valid == ()
    assert config.training.stop_after_validations is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--general-text", "my.en", "my.de"], "--text and --general-text are the same"),
        (["--general-text", "my.en", "my.fr"], "--general-text in en and fr: give both in"),
        (["--general-text", "my.en", "other.de"], "name them alike but for the language"),
    ],
)
def test_general_text_that_does_not_fit_is_refused_in_one_line(
    words: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    cli: CommandLine,
) -> None:
    own(tmp_path, 20)
    paths = [str(tmp_path / word) if "." in word else word for word in words]
    assert train(tmp_path, "run", *paths) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]
    assert "--general-text: give --text too" in cli.refusal(
        "train", *paths, "--out", str(tmp_path / "run")
    )
    assert not (tmp_path / "run").exists()


def test_a_recipe_without_sizes_has_those_of_the_model(
    tmp_path: Path, random_checkpoint: MakeBundle
) -> None:
    start = RunConfig.from_json(random_checkpoint("pre") / "config.json")
    data = own(tmp_path, 300)
    recipe, words = RECIPES / "fine-tuning.toml", ["data.valid=['my']"]
    config = settings_for(recipe, words, data, tmp_path, start=start)
    assert replace(config.model, dropout=start.model.dropout) == start.model
    assert config.vocabulary.size == start.vocabulary.size
    with_preset = settings_for(RECIPES / "small.toml", [], data, tmp_path, start=start)
    assert with_preset.model.model_size == 128
