"""Firefox's models by name: from a word on the command line to a checked, cached bundle."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from dragoman_export.models import conversion
from dragoman_export.models.conversion import PYTORCH, Converter, check
from dragoman_export.models.model_cache import CachedModel, ModelCache
from dragoman_export.models.model_source import (
    find_sources,
    implied_pivot,
    kept_sources,
    one_source,
)
from dragoman_serving.engine.compiled.cpu import exact_int8_products
from dragoman_training import patience
from dragoman_training.config import RunConfig
from dragoman_training.run.checkpoint_folder import CONFIG

from dragoman.cli import main
from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Manifest
from tests.conftest import CommandLine
from tests.marian_students import Student, write_student
from tests.mozilla_servers import Model, MozillaServers

CALM = Student(encoder_layers=1, decoder_layers=1, entries=300, strength=1.0)
NAME, KEY = "firefox:en-de", "firefox-en-de"
MODELS = [Model("en-de", CALM), Model("de-en", replace(CALM, seed=2))]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("made")


@pytest.fixture
def servers(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[MozillaServers]:
    monkeypatch.setattr(patience, "_FIRST_WAIT_S", 0.001)
    for name in ("HF_HUB_OFFLINE", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with MozillaServers(made, list(MODELS)).run() as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.fixture
def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "find_spec", lambda _name: None)


def the_one(cache: ModelCache) -> CachedModel:
    (model,) = cache.models()
    return model


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("firefox:en-de", ["firefox:en-de"]),
        ("firefox:en-de@base", ["firefox:en-de@base"]),
        ("firefox:en-zh-hans", ["firefox:en-zh-Hans"]),
        ("firefox:de-fr", ["firefox:de-en", "firefox:en-fr"]),
        ("firefox:en,de", ["firefox:en-de", "firefox:de-en"]),
        ("firefox:en,de,fr", [f"firefox:{pair}" for pair in ("en-de", "en-fr", "de-en", "fr-en")]),
        ("firefox:de,fr,de", [f"firefox:{pair}" for pair in ("de-en", "en-fr", "fr-en", "en-de")]),
    ],
)
def test_a_word_names_pairs_or_languages(word: str, names: list[str]) -> None:
    sources = find_sources(word)
    assert [str(source) for source in sources] == names
    assert kept_sources(word) == sources
    assert implied_pivot(sources) == "en"
    assert implied_pivot(find_sources("opus-mt-en-de")) is None
    assert len({source.key for source in sources}) == len(names)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("firefox:de", "firefox:de: write a pair, firefox:en-de, or languages, firefox:en,de,fr"),
        ("firefox:", "write a pair"),
        ("firefox:en,,de", "write a pair"),
        ("firefox:English-German", "write a pair"),
        ("firefox:en-../de", "write a pair"),
        ("firefox:de-de", "firefox:de-de: names one language"),
        ("firefox:de,de", "firefox:de,de: names one language"),
    ],
)
def test_a_malformed_word_is_refused(word: str, message: str) -> None:
    for find in (find_sources, kept_sources):
        with pytest.raises(UsageError, match=message):
            find(word)


def test_several_models_are_not_one() -> None:
    with pytest.raises(UsageError, match="firefox:en,de: contains 2 models; name one"):
        one_source("firefox:en,de")


@pytest.mark.usefixtures("servers")
def test_a_model_is_downloaded_converted_and_checked(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    assert main(["models", "add", NAME]) == 0
    model = the_one(ModelCache())
    assert capsys.readouterr().out == f"{model.bundle}\n"
    assert "firefox:en-de: licence MPL-2.0" in caplog.text
    assert (model.folder.name, model.bundle.name) == (KEY, KEY)
    manifest = Manifest.load(model.bundle)
    assert manifest.all_directions == (("en", "de"),)
    assert (manifest.dimensions.decoder, manifest.shortlist is not None) == ("ssru", True)
    # In 8 bits too, its tokens are those of PyTorch, within the tolerance of all models.
    assert model.record.reference == PYTORCH
    assert manifest.failed_checks("fp32") == manifest.failed_checks("int8") == 0
    assert len(model.record.files) == 3
    assert not list(ModelCache().folder.glob(".downloads/*"))
    assert main(["models", "list", "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["model"], listed["licence"]) == (NAME, "MPL-2.0")
    assert main(["models", "list"]) == 0
    line = capsys.readouterr().out.rstrip().split("\t")
    assert (line[0], line[1], line[-1]) == (NAME, "en-de", "MPL-2.0")
    assert main(["models", "verify", NAME]) == 0
    assert main(["models", "remove", "firefox:en-de"]) == 0
    assert not ModelCache().models()


@pytest.mark.usefixtures("without_torch")
def test_adding_follows_mozillas_lists_and_serving_does_not(
    servers: MozillaServers, tmp_path: Path
) -> None:
    cache = ModelCache()
    converter = Converter(cache, lambda _file, _done, _size: None)
    (source,) = find_sources(NAME)
    bundle = converter.bundle(source)
    first = the_one(cache).record
    made_ns = (bundle / "manifest.json").stat().st_mtime_ns
    assert main(["models", "add", NAME]) == 0
    assert (bundle / "manifest.json").stat().st_mtime_ns == made_ns
    servers.folder = tmp_path / "newer"
    servers.models = [Model("en-de", replace(CALM, seed=3), version="3.1")]
    servers.publish()
    servers.requests.clear()
    assert converter.bundle(source) == bundle
    assert replace(converter, offline=True).bundle(source) == bundle
    assert not servers.requests
    assert main(["models", "add", NAME]) == 0
    second = the_one(cache).record
    assert second.commit != first.commit
    assert second.files.keys() == first.files.keys()
    assert second.fp32_tokens != first.fp32_tokens


@pytest.mark.usefixtures("without_torch")
def test_several_languages_are_several_models(servers: MozillaServers) -> None:
    assert main(["models", "add", "firefox:en,de"]) == 0
    names = [model.record.name for model in ModelCache().models()]
    assert names == ["firefox-de-en", "firefox-en-de"]
    # Each converter reads the lists once.
    assert len(servers.requested("/models.json")) == 1
    assert main(["models", "remove", "firefox:en,de"]) == 0
    assert not ModelCache().models()


@pytest.mark.usefixtures("servers")
def test_an_unknown_pair_leaves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "add", "firefox:en-xx"]) == 2
    printed = capsys.readouterr().err
    assert "dragoman models: firefox:en-xx: there is no such model; languages: de, en" in printed
    assert not ModelCache().models()


@pytest.mark.usefixtures("servers")
def test_a_model_can_be_imported_as_a_checkpoint(tmp_path: Path, cli: CommandLine) -> None:
    out = tmp_path / "checkpoint"
    assert main(["import-marian", NAME, "--out", str(out)]) == 0
    assert RunConfig.from_json(out / CONFIG).directions == (("en", "de"),)
    assert "firefox:en-xx: there is no such model" in cli.refusal(
        "import-marian", "firefox:en-xx", "--out", str(tmp_path / "other")
    )


@pytest.mark.usefixtures("without_torch")
def test_a_folder_is_converted_again_when_it_changes(tmp_path: Path) -> None:
    write_student(tmp_path / "mine", CALM)
    cache = ModelCache(tmp_path / "models")
    converter = Converter(cache, lambda _file, _done, _size: None, offline=True)
    (source,) = find_sources(str(tmp_path / "mine"))
    bundle = converter.bundle(source)
    made_ns = (bundle / "manifest.json").stat().st_mtime_ns
    assert the_one(cache).record.licence is None
    assert check(bundle, exact_int8_products()).failures == []
    assert converter.bundle(source) == bundle
    assert (bundle / "manifest.json").stat().st_mtime_ns == made_ns
    write_student(tmp_path / "mine", replace(CALM, seed=5))
    assert converter.bundle(source) == bundle
    assert (bundle / "manifest.json").stat().st_mtime_ns > made_ns
