from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from dragoman_training.config import CorpusConfig, RunConfig, resolve

from dragoman.kernel.errors import UsageError
from tests.conftest import REPOSITORY

BOTH = ("en", "de")
EN_DE = {"prefix": "a", "languages": ["en", "de"]}


def test_a_prefix_alone_is_a_corpus_in_all_languages(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        '[data]\nlanguages = ["en", "de", "fr"]\ntrain = ["a"]\n'
        '[[data.valid]]\nprefix = "b"\nlanguages = ["en", "fr"]\n'
        '[cleaning]\nheld_out = ["c"]\n'
    )
    config = resolve(recipe, [])
    assert config.data.train == (CorpusConfig("a", ("en", "de", "fr")),)
    assert config.data.valid == (CorpusConfig("b", ("en", "fr")),)
    assert config.cleaning.held_out == (CorpusConfig("c", ("en", "de", "fr")),)


def test_words_reach_into_a_corpus_that_is_a_prefix_alone() -> None:
    words = ["data.languages=['en','fr']", "data.train.1.weight=2"]
    corpora = resolve(None, words, {"train": ["a", "b"]}).data.train
    assert corpora == (CorpusConfig("a", ("en", "fr")), CorpusConfig("b", ("en", "fr"), weight=2.0))


def test_an_older_configuration_with_one_corpus_is_read(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"data": {"languages": BOTH, "train": ["a"], "valid": ["b"]}}))
    data = RunConfig.from_json(path).data
    assert (data.train, data.valid) == ((CorpusConfig("a", BOTH),), (CorpusConfig("b", BOTH),))
    shipped = REPOSITORY / "model_repository/translate/1/bundle/config.json"
    assert RunConfig.from_json(shipped).data.train


def test_a_written_configuration_is_read_unchanged(tmp_path: Path) -> None:
    recipes = sorted((REPOSITORY / "training/dragoman_training/recipes").glob("*.toml"))
    assert recipes
    for recipe in recipes:
        # The validation text is given with a user's text.
        words = ["data.valid=['my']"] if recipe.stem == "fine-tuning" else []
        config = resolve(recipe, words)
        path = tmp_path / "config.json"
        path.write_text(config.to_json())
        assert RunConfig.from_json(path) == config


def test_the_papers_recipes_have_its_settings() -> None:
    # Vaswani et al. 2017, section 5 and table 3.
    for name, sizes, steps, averaged in (
        ("base", (512, 2048, 8, 0.1), 100_000, 5),
        ("big", (1024, 4096, 16, 0.3), 300_000, 20),
    ):
        config = resolve(
            REPOSITORY / f"training/dragoman_training/recipes/wmt14-en-de-{name}.toml", []
        )
        model, training = config.model, config.training
        assert (model.model_size, model.feed_forward_size, model.heads, model.dropout) == sizes
        assert (model.encoder_layers, model.decoder_layers, model.vocab_size) == (6, 6, 37_000)
        assert (training.steps, training.average_last, training.warmup_steps) == (
            *(steps, averaged, 4000),
        )
        assert config.data.directions == (("en", "de"),)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"languages": ["en"]}, r"data.languages is \['en'\]"),
        ({"languages": ["en", "en"]}, "give two or more, each once"),
        ({"temperature": 0.0}, "data.temperature is 0.0"),
        ({"subword_dropout": 1.0}, "data.subword_dropout is 1.0: give a probability below 1"),
        ({"subword_drawings": 0}, "data.subword_drawings is 0: give 1 or more"),
        ({"train": [{"prefix": "a", "languages": ["en", "fr"]}]}, "the corpus 'a': languages is"),
        ({"train": [{"prefix": "a", "languages": ["en"]}]}, "the corpus 'a': languages is"),
        ({"train": [{"prefix": "a", "weight": 0.0}]}, "the corpus 'a': weight is 0.0"),
        ({"train": [{"prefix": "a", "weight": float("inf")}]}, "the corpus 'a': weight is inf"),
        ({"train": [{"prefix": "a", "max_pairs": 0}]}, "the corpus 'a': max_pairs is 0"),
        ({"train": [{"prefix": "a", "drop_matching": "("}]}, "not a regular expression"),
        ({"train": [{"prefix": "a", "altered_share": 1.5}]}, "altered_share is 1.5: give a share"),
        ({"train": [{"prefix": "a", "altered_share": 0.1}]}, "needs one_way: set one_way = true"),
        (
            {"languages": ["en", "de", "fr"], "train": [{"prefix": "a", "one_way": True}]},
            "the corpus 'a': one_way needs exactly two languages",
        ),
        ({"train": [{"prefix": "a", "wieght": 1.0}]}, "unknown key 'wieght'"),
        ({"train": [7]}, "expected a table, got 7"),
        ({"languages": ["en", "de", "fr"], "train": [EN_DE]}, "no corpus in data.train has 'fr'"),
    ],
)
def test_invalid_corpora_are_refused_by_name(data: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        resolve(None, [], data)


def test_invalid_limits_of_cleaning_are_refused() -> None:
    for word, message in (
        ("cleaning.max_characters=0", "cleaning.max_characters is 0"),
        ("cleaning.max_length_ratio=0.5", "cleaning.max_length_ratio is 0.5"),
    ):
        with pytest.raises(UsageError, match=message):
            resolve(None, [word])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["model=5"], "model is 5: expected a table"),
        (["data=5"], "data.*expected a table"),
        (['model.preset=["a"]'], r"unknown preset \['a'\]"),
        (["training.clip_norm=0.0"], "training.clip_norm is 0.0"),
        (["training.clip_norm=nan"], "training.clip_norm is nan"),
        (["training.peak_learning_rate=-1.0"], "training.peak_learning_rate is -1.0"),
        (["training.steps=10", "training.cooldown_steps=11"], "more than training.steps, 10"),
        (["training.stop_after_validations=2"], "give a corpus in data.valid, which is empty"),
        (["training.average_last=9"], "average_last is 9: more than training.keep_checkpoints, 8"),
        (["model.own_output=true"], "model.own_output: only imported models have this"),
        (["model.output_bias=true"], "model.output_bias: only imported models have this"),
        (["model.src_vocab_size=9000"], "model.src_vocab_size: only imported models have this"),
    ],
)
def test_invalid_settings_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        resolve(None, words)
    assert "\n" not in str(raised.value)


def test_a_file_whose_table_is_a_value_is_refused(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text("data = 5\n")
    with pytest.raises(UsageError, match=r"recipe\.toml: data is 5: expected a table"):
        resolve(recipe, [], {"train": ["mine"]})
