"""Models by name: found, downloaded, converted, checked and cached."""

from __future__ import annotations

import io
import json
import shutil
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from dragoman_export.bundle import export_bundle
from dragoman_export.models import conversion
from dragoman_export.models.conversion import GRAPHS, PYTORCH, Converter, check
from dragoman_export.models.model_cache import CachedModel, ModelCache
from dragoman_export.models.model_source import find_sources, one_source
from dragoman_export.models.probe_texts import probe_texts
from dragoman_serving.engine.settings import EngineSettings
from dragoman_serving.models.loading import choose_layout
from dragoman_serving.service.bundles import Bundles
from dragoman_serving.service.models_to_serve import ModelsToServe
from dragoman_training.marian.languages import Languages
from dragoman_training.run.checkpoint_folder import read_arrays

from dragoman.cli import main
from dragoman.commands.shared.hub_models import hub_progress
from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Manifest, digests
from tests.conftest import CommandLine
from tests.made_up_text import write_sentences
from tests.marian_hub import COMMIT, MODEL, WEIGHTS, MarianHub
from tests.marian_models import MarianModel, write_marian
from tests.saturation import saturate

KEY = MODEL.replace("/", "--")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("original") / "opus-mt-en-de"
    write_marian(folder, MarianModel())
    return folder


@pytest.fixture(scope="module", autouse=True)
def few_sentences() -> Iterator[None]:
    """Checks compare less."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(conversion, "probe_texts", lambda *of: probe_texts(*of)[:4])
        patched.setattr(conversion, "_WITH_PYTORCH", 2)
        yield


@pytest.fixture
def hub(original: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MarianHub]:
    with MarianHub(original).run() as running:
        monkeypatch.setenv("HF_ENDPOINT", running.address)
        yield running


@pytest.fixture(scope="module")
def whole_cache(original: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's cache folder with the hub's model in it."""
    home = tmp_path_factory.mktemp("whole")
    with MarianHub(original).run() as running, pytest.MonkeyPatch.context() as patched:
        patched.setenv("HF_ENDPOINT", running.address)
        patched.setenv("XDG_CACHE_HOME", str(home))
        assert main(["models", "add", MODEL]) == 0
    return home


@pytest.fixture
def cache(whole_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelCache:
    """A copy of it, which may be changed."""
    shutil.copytree(whole_cache, tmp_path / "cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return ModelCache()


def the_one(cache: ModelCache) -> CachedModel:
    (model,) = cache.models()
    return model


def converter(cache: ModelCache, offline: bool = False) -> Converter:
    return Converter(cache, lambda _file, _done, _size: None, offline)


def spoil(bundle: Path, graph: str) -> None:
    """Make a graph compute something else; the manifest is updated."""
    manifest = Manifest.load(bundle)
    path = bundle / manifest.graphs[graph].file
    model = onnx.load(path, load_external_data=False)
    norms = [node for node in model.graph.node if node.op_type.endswith("Normalization")]
    (epsilon,) = (a for a in norms[-1].attribute if a.name == "epsilon")
    epsilon.f = 5.0
    path.write_bytes(model.SerializeToString())
    replace(manifest, files=digests(bundle, manifest.files)).write(bundle)


def test_a_models_record_names_its_source(cache: ModelCache, cli: CommandLine) -> None:
    model = the_one(cache)
    assert (model.record.model, model.record.commit) == (MODEL, COMMIT)
    assert model.record.reference == PYTORCH
    assert WEIGHTS in model.record.files
    manifest = Manifest.load(model.bundle)
    assert manifest.failed_checks("fp32") == manifest.failed_checks("int8") == 0
    assert [path.name for path in cache.folder.iterdir() if path.name[0] != "."] == [KEY]
    assert not list(cache.folder.glob(".downloads/*"))
    (listed,) = json.loads(cli.prints("models", "list", "--json"))
    assert listed["model"] == MODEL
    assert listed["directions"] == ["en-de"]
    assert listed["failed_precisions"] == []
    assert cli.prints("models", "list").startswith(f"{MODEL}\ten-de\t")


def test_a_cached_model_needs_no_hub(cache: ModelCache, caplog: pytest.LogCaptureFixture) -> None:
    (source,) = find_sources(MODEL)
    assert converter(cache, offline=True).bundle(source) == cache.folder / KEY / "opus-mt-en-de"
    (other,) = find_sources(f"{MODEL}@v2")
    with pytest.raises(UsageError, match="needs a download, which HF_HUB_OFFLINE or --offline"):
        converter(cache, offline=True).bundle(other)
    assert "fetching" not in caplog.text


def test_adding_follows_the_hubs_commit(cache: ModelCache, hub: MarianHub) -> None:
    before = (the_one(cache).bundle / "manifest.json").stat().st_mtime_ns
    assert main(["models", "add", MODEL]) == 0
    assert (the_one(cache).bundle / "manifest.json").stat().st_mtime_ns == before
    assert not hub.asked(WEIGHTS)
    hub.commit = COMMIT[::-1]
    assert main(["models", "add", MODEL]) == 0
    assert the_one(cache).record.commit == COMMIT[::-1]
    assert (the_one(cache).bundle / "manifest.json").stat().st_mtime_ns > before


def test_a_server_switches_to_a_model_that_is_added_again(
    cache: ModelCache, hub: MarianHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman_serving.models.changes.LOOK_S", 0.02)
    write_marian(tmp_path / "newer", MarianModel(pieces="bpe"))
    served = Bundles([the_one(cache).bundle], EngineSettings(), ModelsToServe(), lambda _: None)
    (former,) = served.routes.bundles
    hub.folder, hub.commit = tmp_path / "newer", COMMIT[::-1]
    assert main(["models", "add", MODEL]) == 0
    expected = Manifest.read(the_one(cache).bundle).identity
    assert expected != former.manifest.identity
    deadline_s = time.monotonic() + 60
    while (current := served.routes.bundles[0].manifest.identity) != expected:
        assert current == former.manifest.identity
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
    lease = served.keeper.take(former.name)
    assert lease is not None
    assert lease.loaded.manifest.identity == expected
    lease.release()
    served.close()


@pytest.mark.parametrize(("quiet", "terminal"), [(False, True), (True, True), (False, False)])
def test_a_download_has_a_progress_bar_on_a_terminal(
    quiet: bool, terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    stderr = io.StringIO()
    monkeypatch.setattr(stderr, "isatty", lambda: terminal)
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with hub_progress(quiet) as progress:
        progress(WEIGHTS, 500_000, 2_000_000)
        progress(WEIGHTS, 1_000_000, 2_000_000)
    printed = stderr.getvalue()
    if terminal and not quiet:
        assert WEIGHTS in printed
        assert "50%" in printed
        assert "1.0/2.0 MB" in printed
    else:
        assert printed == ""


def test_a_folder_is_converted_again_when_it_changes(
    original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion, "find_spec", lambda _name: None)
    folder = Path(shutil.copytree(original, tmp_path / original.name))
    cache = ModelCache(tmp_path / "models")
    (source,) = find_sources(str(folder))
    bundle = converter(cache).bundle(source)
    made = (bundle / "manifest.json").stat().st_mtime_ns
    assert cache.models()[0].record.reference == GRAPHS
    assert converter(cache).bundle(source) == bundle
    assert (bundle / "manifest.json").stat().st_mtime_ns == made
    words = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**words, "target_lang": "fra"}))
    assert Manifest.load(converter(cache).bundle(source)).languages == ("en", "fr")


def test_a_bundle_is_used_without_conversion(random_bundle: Path, tmp_path: Path) -> None:
    cache = ModelCache(tmp_path / "models")
    (tmp_path / "bundles").mkdir()
    (tmp_path / "bundles" / "one").symlink_to(random_bundle)
    (source,) = find_sources(str(tmp_path / "bundles"))
    assert source == find_sources(str(tmp_path / "bundles" / "one"))[0]
    assert converter(cache).bundle(source) == tmp_path / "bundles" / "one"
    assert not cache.folder.exists()


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("nowhere", "nowhere: no such folder, and a hub's names have the form owner/model,"),
        ("a/b/c", "no such folder"),
        ("empty", "empty: is not a bundle, a checkpoint, a Marian model or a folder of bundles"),
        ("marian", "marian: is in Marian's own format: convert it to that of transformers first"),
        ("marian/model.npz", "model.npz: is in Marian's own format"),
        ("pointer", "pointer/config.json: is a Git LFS pointer: run git lfs pull in its folder"),
    ],
)
def test_an_unknown_model_is_reported(
    word: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "marian").mkdir()
    (tmp_path / "marian" / "model.npz").write_bytes(b"PK")
    (tmp_path / "pointer").mkdir()
    (tmp_path / "pointer" / "config.json").write_text("version https://git-lfs.github.com/spec/v1")
    with pytest.raises(UsageError, match=message):
        find_sources(word)


def test_a_run_starts_from_a_cached_model_and_is_served_like_it(
    cache: ModelCache, tmp_path: Path
) -> None:
    # Only letters: other tokens are not all in the model's list.
    lines = [(letter, letter) for letter in "abcdefgh"]
    text = list(map(str, write_sentences(tmp_path / "my", lines)))
    words = ["--set=training.steps=1", "--set=training.peak_learning_rate=1e-12", "--offline"]
    run = tmp_path / "run"
    assert main(["train", "--start-from", MODEL, "--text", *text, "--out", str(run), *words]) == 0
    bundle = the_one(cache).bundle
    kept, trained = (read_arrays(folder / WEIGHTS) for folder in (bundle, run / "final"))
    assert all(np.allclose(trained[name], kept[name], atol=1e-6) for name in kept)
    served = Manifest.load(converter(cache).bundle(one_source(str(run / "final"))))
    assert served.all_directions == Manifest.load(bundle).all_directions
    assert served.failed_checks("fp32") == 0


def test_a_model_of_opus_needs_no_owner() -> None:
    assert find_sources("opus-mt-en-de@v2") == find_sources("Helsinki-NLP/opus-mt-en-de@v2")
    assert one_source("opus-mt-en-de") == one_source("Helsinki-NLP/opus-mt-en-de")


def test_concurrent_requests_convert_a_model_once(
    original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion, "find_spec", lambda _name: None)
    made: list[Path] = []

    def counted(source: Path, bundle: Path, _storage: object) -> Manifest:
        made.append(bundle)
        return export_bundle(source, bundle, "fp16")

    monkeypatch.setattr("dragoman_export.bundle.export_bundle", counted)
    (source,) = find_sources(str(original))
    cache = ModelCache(tmp_path / "models")
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: converter(cache).bundle(source), range(2))
    assert first == second
    assert len(made) == 1


def test_a_failed_conversion_keeps_the_download(
    hub: MarianHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.folder = Path(shutil.copytree(hub.folder, tmp_path / "odd"))
    config = json.loads((hub.folder / "config.json").read_text())
    (hub.folder / "config.json").write_text(json.dumps({**config, "encoder_layers": 3}))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    cache = ModelCache()
    (source,) = find_sources(MODEL)
    with pytest.raises(UsageError, match=rf"^{MODEL}/{WEIGHTS}: the tensor .* is missing$"):
        converter(cache).bundle(source)
    assert not cache.models()
    downloads = cache.folder / ".downloads" / KEY
    assert (downloads / WEIGHTS).exists()
    shutil.copyfile(hub.folder / WEIGHTS, tmp_path / WEIGHTS)
    (hub.folder / "config.json").write_text(json.dumps(config))
    assert converter(cache).bundle(source) == the_one(cache).bundle
    size = (tmp_path / WEIGHTS).stat().st_size
    assert hub.asked(WEIGHTS)[-1]["Range"] == f"bytes={size}-"
    assert not downloads.exists()


def test_languages_may_be_given(original: Path, tmp_path: Path) -> None:
    (source,) = find_sources(str(original))
    languages = Languages(("en",), (("nds", None),))
    cache = ModelCache(tmp_path / "models")
    made = replace(converter(cache), languages=languages).add(source)
    assert Manifest.load(made).languages == ("en", "nds")


WRONG_GRAPHS: list[tuple[str, bool, set[str]]] = [
    ("encoder_int8", True, {"int8"}),
    ("decoder_int8", True, {"int8"}),
    ("decoder_int8", False, set()),
    ("score", False, {"fp32"}),
]


@pytest.mark.parametrize(
    ("reference", "graph", "exact", "precisions"),
    [
        # Each graph once, with either reference.
        (PYTORCH, *WRONG_GRAPHS[0]),
        (GRAPHS, *WRONG_GRAPHS[1]),
        (GRAPHS, *WRONG_GRAPHS[2]),
        (PYTORCH, *WRONG_GRAPHS[3]),
        pytest.param(GRAPHS, *WRONG_GRAPHS[0], marks=pytest.mark.thorough),
        pytest.param(PYTORCH, *WRONG_GRAPHS[1], marks=pytest.mark.thorough),
        pytest.param(PYTORCH, *WRONG_GRAPHS[2], marks=pytest.mark.thorough),
        pytest.param(GRAPHS, *WRONG_GRAPHS[3], marks=pytest.mark.thorough),
    ],
)
def test_a_wrong_graph_fails_the_check_of_its_precision(
    graph: str,
    exact: bool,
    precisions: set[str],
    reference: str,
    cache: ModelCache,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if reference == GRAPHS:
        monkeypatch.setattr(conversion, "find_spec", lambda _name: None)
    spoil(the_one(cache).bundle, graph)
    report = check(the_one(cache).bundle, exact)
    assert report.reference == reference
    assert {outcome.precision for outcome in report.failures} == precisions


@pytest.mark.parametrize("reference", [PYTORCH, GRAPHS])
def test_a_cached_models_checks_are_repeated_on_another_kind_of_cpu(
    reference: str,
    cache: ModelCache,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Where ONNX Runtime's products saturate, the compiled library still serves int8."""
    if reference == GRAPHS:
        monkeypatch.setattr(conversion, "find_spec", lambda _: None)
    caplog.set_level("INFO")
    (source,) = find_sources(MODEL)
    saturate(the_one(cache).bundle)
    checked_exact = Manifest.load(the_one(cache).bundle).checked_with_exact_int8
    assert checked_exact is not None
    for exact in (not checked_exact, checked_exact, False):
        on_cpu = replace(converter(cache, offline=True), exact=exact)
        caplog.clear()
        bundle = on_cpu.bundle(source)
        repeated = "was checked on another kind of CPU; checking it again" in caplog.text
        manifest = Manifest.load(bundle)
        assert repeated == (exact != checked_exact)
        assert manifest.checked_with_exact_int8 == exact
        if repeated:
            assert (manifest.failed_checks("int8") > 0) == exact
            assert manifest.failed_checks("fp32") == 0
        checked_exact = exact
    assert choose_layout(EngineSettings(), bundle, manifest).precision == "int8"


def test_verification_detects_graphs_with_other_translations(
    cache: ModelCache, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(conversion, "find_spec", lambda _name: None)
    assert main(["models", "verify"]) == 0
    assert "ok    owner/opus-mt-en-de: tokens: greedy, as when the model was converted" in (
        capsys.readouterr().out
    )
    bundle = the_one(cache).bundle
    for graph in ("encoder", "decoder", "score"):
        spoil(bundle, graph)
    assert main(["models", "verify", MODEL]) == 1
    printed = capsys.readouterr()
    assert "FAIL  owner/opus-mt-en-de: tokens: greedy, as when the model was" in printed.out
    assert printed.err.endswith("dragoman models: 1 of 1 models failed a check\n")
    assert Manifest.load(bundle).failed_checks("fp32") > 0
    assert main(["models", "list"]) == 0
    assert "fp32 failed" in capsys.readouterr().out


@pytest.mark.usefixtures("hub")
def test_a_damaged_model_is_not_used(cache: ModelCache, caplog: pytest.LogCaptureFixture) -> None:
    (source,) = find_sources(MODEL)
    (the_one(cache).bundle / WEIGHTS).write_bytes(b"")
    assert cache.find(source) is None
    assert "SHA-256 differs); it is not used" in caplog.text
    assert Manifest.load(converter(cache).bundle(source))


def test_removing_a_model_deletes_all_its_files(cache: ModelCache, cli: CommandLine) -> None:
    assert main(["models", "remove", MODEL]) == 0
    assert not cache.models()
    assert not list(cache.folder.glob(f"{KEY}*"))
    assert f"{MODEL}: is not in {cache.folder}; see: dragoman models list" in (
        cli.refuses("models", "remove", MODEL)
    )
