"""Each command without its requirements: the extra that it names makes it work."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from dragoman.cli import COMMANDS
from dragoman.kernel import installation
from dragoman.kernel.installation import install_command
from tests.conftest import REPOSITORY
from tests.toy import reverse_pairs, write_pairs

BUNDLE = str(REPOSITORY / "model_repository/translate/1/bundle")
SETTINGS = [
    f"--set={word}" for word in ("training.steps=3", "vocabulary.size=320", "model.preset=tiny")
]
CASES = (
    ("train", ["clean", "--config", "recipe.toml", "--data-dir", ".", "--out", "clean"]),
    ("train", ["train", "--text", "my.en", "my.de", "--out", "run", *SETTINGS]),
    ("train", ["import-marian", "no/", "--out", "imported"]),
    ("export", ["distill", "--teacher", BUNDLE, "--config", "recipe.toml", "--out", "distilled"]),
    ("export", ["evaluate", "run/final", "--test", "my", "--first=2", "--beam-width=1"]),
    ("export", ["evaluate", BUNDLE, "--runtime", "engine", "--test", "my"]),
    ("export", ["export", "onnx", "run/final", "--out", "bundle"]),
    ("export", ["verify", "bundle", "--test", "my", "--sentences", "3"]),
    ("export", ["align-heads", BUNDLE, "--text", "my", "--dry-run"]),
    ("export", ["shortlist", "bundle", "--text", "my"]),
    ("export", ["attention", "Hi.", "--target-language=de", "--model=run/final", "--out=a.png"]),
    ("export", ["attention", "Hi.", "--target-language=de", "--model", BUNDLE, "--out=a.svg"]),
    ("tensorrt", ["export", "tensorrt", BUNDLE]),
    ("serve", ["publish", BUNDLE, "--to", "repository"]),
    ("import", ["models", "add", "run/final"]),
    ("serve", ["serve"]),
    ("gateway", ["gateway"]),
    ("gateway", ["keys", "add"]),
    ("gateway", ["memory", "import", "my.sqlite", "my.tmx"]),
    ("serve", ["translate", "Hi."]),
    ("batch", ["batch", "--input", "my.en", "--output=b", "--bundle", BUNDLE]),
    ("serve", ["score", "--source", "my.en", "--target", "my.de"]),
    ("serve", ["demo"]),
    ("serve", ["doctor"]),
    ("load-test", ["load-test", "--windows", "1"]),
)
"""An extra, and a command that needs it; some need the results of earlier ones."""
ON_ITS_OWN = (
    *("clean", "train", "distill", "evaluate", "export", "verify", "align-heads", "shortlist"),
    *("attention", "publish", "models", "doctor", "batch", "memory"),
)
"""Those that can run without a server or the network."""
TMX = (
    '<tmx version="1.4"><header srclang="en"/><body><tu><tuv xml:lang="en"><seg>Tea</seg></tuv>'
    '<tuv xml:lang="de"><seg>Tee</seg></tuv></tu></body></tmx>'
)
PIP = installation._pip()
OURS = defaultdict(lambda: "-e ./client", {"load-test": "-e ./client -e ./load_test"})
"""The projects that an extra needs, as flags of pip."""
TORCH = "; for a machine without a GPU add --extra-index-url https://download.pytorch.org/whl/cpu"


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


def run(
    folder: Path, extras: Sequence[str], commands: Sequence[Sequence[str]]
) -> Iterator[Outcome]:
    """Run commands in one interpreter, each in a fork of it."""
    environment = {"PYTHONPATH": ":".join(path for path in (str(REPOSITORY), *sys.path) if path)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.only_extras", *extras, "--"],
        input=json.dumps(commands),
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), **environment},
        stdout=subprocess.PIPE,
        text=True,
        timeout=120 * len(commands),
        check=True,
    )
    return (Outcome(*outcome) for outcome in json.loads(done.stdout))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("extras")
    write_pairs(folder / "my", reverse_pairs(60, seed=1), ("en", "de"))
    (folder / "my.tmx").write_text(TMX)
    (folder / "recipe.toml").write_text('[data]\ntrain = ["my"]\n')
    return folder


def test_a_command_names_the_extra_that_it_needs(folder: Path) -> None:
    outcomes = run(folder, [], [words for _, words in CASES])
    for (extra, words), done in zip(CASES, outcomes, strict=True):
        assert done.code == 2, (words, done.err)
        with_torch = extra in ("train", "export")
        made = "make train-env creates .venv-train with it; or " if with_torch else ""
        command = f"from the checkout, {made}{PIP} install {OURS[extra]} -e '.[{extra}]'"
        (line,) = done.err.splitlines()
        assert line.startswith(f"dragoman {words[0]}: ")
        assert line.endswith(f" is not installed: {command}{TORCH if with_torch else ''}")


@pytest.mark.parametrize(
    ("installed", "commands", "module", "extra"),
    [
        ("serve", [["serve", "owner/opus-mt-en-de", "--no-gateway"]], "onnx", "serve,import"),
        (
            "load-test",
            [["load-test", "--svg", "a.svg"], ["load-test", "--html", "a.html"]],
            "matplotlib",
            "load-test,figures",
        ),
    ],
)
def test_a_use_that_needs_another_extra_names_it(
    folder: Path, installed: str, commands: list[list[str]], module: str, extra: str
) -> None:
    ours = OURS[extra.partition(",")[0]]
    command = f"from the checkout, {PIP} install {ours} -e '.[{extra}]'"
    line = f"dragoman {commands[0][0]}: {module} is not installed: {command}\n"
    assert list(run(folder, [installed], commands)) == [(2, "", line)] * len(commands)


@pytest.mark.thorough
def test_a_command_works_with_the_extra_that_it_names(folder: Path) -> None:
    endless = ("serve", "gateway")
    for extra in dict.fromkeys(extra for extra, _ in CASES):
        commands = [words for name, words in CASES if name == extra and words[0] not in endless]
        for words, done in zip(commands, run(folder, [extra], commands), strict=True):
            assert " is not installed" not in done.err, words
            if words[0] in ON_ITS_OWN and extra != "tensorrt":
                assert done.code == 0, (words, done.err)


def test_every_command_is_tried() -> None:
    assert {*COMMANDS} == {words[0] for _, words in CASES} | {"corpora", "link-words"}


def test_corpora_and_their_links_need_no_extra(folder: Path) -> None:
    commands = ["corpora"], ["link-words", "--text", "my.en", "my.de", "--eflomal", "./none"]
    corpora, links = run(folder, [], commands)
    assert corpora.code == 0
    assert "link-words: none: cannot be run: No such file" in links.err


def test_the_runtime_for_cpus_is_not_installed_beside_the_one_for_gpus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(installation, "_has_gpu_runtime", lambda: True)
    assert "'.[export-gpu]'" in install_command("export")
    assert "'.[serve-gpu,tensorrt]'" in install_command("serve-cpu,tensorrt")
    assert "'.[train]'" in install_command("train")


@pytest.mark.parametrize(
    ("prefix", "pip"),
    [(REPOSITORY / ".venv-serve", ".venv-serve/bin/pip"), (Path("/usr"), "pip")],
)
def test_the_pip_of_a_checkout_is_named(
    monkeypatch: pytest.MonkeyPatch, prefix: Path, pip: str
) -> None:
    monkeypatch.setattr("sys.prefix", str(prefix))
    assert install_command("import") == (
        f"from the checkout, {pip} install -e ./client -e '.[import]'"
    )
