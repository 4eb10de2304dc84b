"""The wheels in an empty environment, outside any checkout, without a C compiler."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.wheels.conftest import Installed, installing

SENTENCE = {"text_input": "Good morning.", "target_language": "de"}


@pytest.fixture(scope="module")
def installed(
    python: str, wheels: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installed]:
    with installing(tmp_path_factory.mktemp("empty"), wheels, "serve", python) as installed:
        yield installed


@pytest.fixture(scope="module")
def urls(installed: Installed) -> Iterator[tuple[str, str]]:
    with installed.serving() as urls:
        yield urls


def test_the_shipped_model_is_served(installed: Installed, urls: tuple[str, str]) -> None:
    http, grpc = urls
    request = urllib.request.Request(
        f"{http}/v2/models/translate/generate", data=json.dumps(SENTENCE).encode()
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert json.load(answer)["text_output"] == "Guten Morgen."
    done = installed.dragoman(
        "translate", "--url", grpc, "--target-language", "de", "Good morning."
    )
    assert (done.returncode, done.stdout) == (0, "Guten Morgen.\n")
    log = installed.log.splitlines()
    kept, first, loaded, *others = log
    assert kept == "dragoman: the model's 8-bit weights are kept for later starts"
    assert first.startswith("dragoman: model en-de-fr: int8 (native, ")
    assert loaded.startswith("dragoman: model en-de-fr: loaded in ")
    assert [line.partition(" ")[0] for line in others] == ["settings:", "ready:"], log


def test_the_compiled_libraries_are_found(installed: Installed) -> None:
    done = installed.dragoman("doctor")
    assert "the relay between Triton and the engine is compiled" in done.stdout + done.stderr


def test_a_bundle_is_published(installed: Installed) -> None:
    (bundle,) = installed.folder.glob("v/lib/*/site-packages/dragoman_model/translate/1/bundle")
    assert installed.dragoman("publish", str(bundle), "--to", "mine").returncode == 0
    assert (installed.folder / "mine" / "translate" / "config.pbtxt").is_file()


@pytest.mark.parametrize(
    ("words", "module", "extra"),
    [
        (("load-test", "--url", "URL", "--windows", "1"), "hdrh", "load-test"),
        (("train", "--text", "a", "b", "--out", "run"), "torch", "train"),
    ],
)
def test_a_missing_extra_is_named(
    installed: Installed, urls: tuple[str, str], words: tuple[str, ...], module: str, extra: str
) -> None:
    done = installed.dragoman(*(urls[1] if word == "URL" else word for word in words))
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"dragoman {words[0]}: {module} is not installed: pip install 'dragoman[{extra}]'"
    )
