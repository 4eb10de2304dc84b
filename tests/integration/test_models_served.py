"""`dragoman serve` with the name of a hub's model: one command, and it translates."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from dragoman_client import Translator

from tests.conftest import CommandLine
from tests.marian_hub import MODEL, MarianHub
from tests.marian_models import MarianModel, sentences, write_marian
from tests.marian_students import Student
from tests.mozilla_servers import Model, MozillaServers
from tests.servers import WAIT_S, running
from tests.web_server import Fault

SERVE = (MODEL, "--no-gateway", "--precision=fp32")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def translated(
    cache: Path,
    folder: Path,
    extras: tuple[str, ...],
    words: list[str],
    also: str | None = None,
    **environment: str,
) -> list[str]:
    """Start a server, translate a sentence, stop it.

    Args:
        cache: folder of the user's cache.
        folder: for the log.
        extras: what can be imported.
        words: its command-line arguments.
        also: another model of the same direction, to translate it too.
        environment: of the command.
    """
    program = (sys.executable, "-m", "tests.only_extras", *extras, "--", "serve")
    environment = {"XDG_CACHE_HOME": str(cache), **environment}
    with (
        running(folder, *words, program=program, environment=environment) as server,
        Translator(server.grpc, timeout_s=WAIT_S) as client,
    ):
        text = sentences(2000)[0][-1]
        return [
            client.translate(text, max_tokens=20, repair=False, model=model).text
            for model in ((None, also) if also else (None,))
        ]


def test_from_a_hub_to_a_translation_in_one_command_without_torch(
    cache: Path, random_bundle: Path, tmp_path: Path
) -> None:
    write_marian(tmp_path / "model", MarianModel())
    faults = {"model.safetensors": [Fault(503, retry_after="0"), Fault(most_bytes=10_000)]}
    with MarianHub(tmp_path / "model", faults=faults).run() as hub:
        extras = "serve", "import"
        translations = translated(cache, tmp_path, extras, list(SERVE), HF_ENDPOINT=hub.address)
        assert not hub.faults["model.safetensors"]
    assert translations[0]
    # Cached: without a hub or onnx, and from a setting in Compose's form; another model beside it.
    words = [word for word in SERVE if word != MODEL]
    offline = {"HF_ENDPOINT": "http://127.0.0.1:1", "HF_HUB_OFFLINE": "1"}
    models = f"{MODEL} {random_bundle}"
    both = translated(
        cache, tmp_path, ("serve",), words, random_bundle.name, DRAGOMAN_MODELS=models, **offline
    )
    assert both[:1] == translations
    assert both[1] not in translations


def test_firefoxs_models_translate_between_all_languages_in_one_command(tmp_path: Path) -> None:
    student = Student(encoder_layers=1, decoder_layers=1, entries=300, strength=1.0)
    models = [
        Model(pair, replace(student, seed=seed))
        for seed, pair in enumerate(("en-de", "de-en", "en-fr", "fr-en"))
    ]
    with MozillaServers(tmp_path / "made", models).run() as servers:
        program = (sys.executable, "-m", "tests.only_extras", "serve", "import", "--", "serve")
        environment = {"XDG_CACHE_HOME": str(tmp_path / "cache"), **servers.environment}
        words = ("firefox:en,de,fr", "--no-gateway")
        with (
            running(tmp_path, *words, program=program, environment=environment) as server,
            Translator(server.grpc, timeout_s=WAIT_S) as client,
        ):
            direct, pivoted = (
                client.translate(
                    "w0100 w0200", source_language="de", target_language=target, repair=False
                )
                for target in ("en", "fr")
            )
    assert direct.text
    assert (direct.via, pivoted.via) == (None, "en")
    assert not servers.requested(".zst")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["no/such/model"], "no/such/model: no such folder, and a hub's names have the form"),
        (["{0}", "{0}"], "two models are named "),
        (["{0}", "--pivot", "xx"], "--pivot xx: no model has this language; known: "),
        (
            ["{0}", "--preload", "xx-yy"],
            "--preload xx-yy: neither a model nor a direction; known: ",
        ),
        (["{0}", "--memory", "1MB"], "--memory 1MB: the engine takes "),
        (["{0}", "--load", "any"], "--load: is for models of a repository; give --repository"),
        (["{0}", "--repository", "any"], "--repository any: give it or models, not both"),
        (["any/model", "--offline"], "any/model: needs a download, which HF_HUB_OFFLINE or"),
        (["firefox:en-de", "--offline"], "firefox:en-de: needs a download, which HF_HUB_OFFLINE"),
        (["firefox:german"], "firefox:german: write a pair, firefox:en-de, or languages, "),
    ],
)
def test_an_unusable_model_is_reported_in_one_line(
    words: list[str],
    message: str,
    random_bundle: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cli: CommandLine,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("dragoman_serving.launch.stop_signals.stop_on_signals", lambda: None)
    assert cli.refusal(
        "serve", *(word.format(random_bundle) for word in words), "--no-gateway"
    ).startswith(f"dragoman serve: {message}")
