"""Each command without its requirements: the extra that it names makes it work."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from dragoman.cli import COMMANDS
from dragoman.kernel import installation
from dragoman.kernel.installation import install_command
from tests.conftest import REPOSITORY
from tests.toy import reverse_pairs, write_pairs

BUNDLE = str(REPOSITORY / "model_repository/translate/1/bundle")
SETTINGS = [f"--set={word}" for word in ("training.steps=3", "vocabulary.size=320")]
CASES = (
    ("train", ["clean", "--config", "recipe.toml", "--data-dir", ".", "--out", "clean"]),
    ("train", ["train", "--text", "my.en", "my.de", "--out", "run", *SETTINGS]),
    ("train", ["import-marian", "no/", "--out", "imported"]),
    ("export", ["distill", "--teacher", BUNDLE, "--config", "recipe.toml", "--out", "distilled"]),
    ("export", ["evaluate", "run/final", "--test", "my"]),
    ("export", ["evaluate", BUNDLE, "--runtime", "engine", "--test", "my"]),
    ("export", ["export", "onnx", "run/final", "--out", "bundle"]),
    ("export", ["verify", "bundle", "--test", "my"]),
    ("export", ["align-heads", BUNDLE, "--text", "my", "--dry-run"]),
    ("export", ["shortlist", "bundle", "--text", "my"]),
    ("export", ["attention", "Hi.", "--target-language=de", "--model=run/final", "--out=a.png"]),
    ("export", ["attention", "Hi.", "--target-language=de", "--model", BUNDLE, "--out=a.svg"]),
    ("tensorrt", ["export", "tensorrt", BUNDLE]),
    ("serve", ["publish", BUNDLE, "--to", "repository"]),
    ("serve", ["models", "add", BUNDLE]),
    ("serve", ["serve"]),
    ("gateway", ["gateway"]),
    ("gateway", ["keys", "add"]),
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
    *("attention", "publish", "models", "doctor", "batch"),
)
"""Those that can run without a server or the network."""
TORCH = "; for a machine without a GPU add --extra-index-url https://download.pytorch.org/whl/cpu"


def run(
    folder: Path, extras: Sequence[str], words: Sequence[str]
) -> subprocess.CompletedProcess[str]:
    command = ["-m", "tests.only_extras", *extras, "--", *words]
    environment = {"PYTHONPATH": ":".join(path for path in (str(REPOSITORY), *sys.path) if path)}
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("extras")
    write_pairs(folder / "my", reverse_pairs(60, seed=1), ("en", "de"))
    (folder / "recipe.toml").write_text('[data]\ntrain = ["my"]\n')
    return folder


@pytest.mark.parametrize(("extra", "words"), CASES, ids=lambda case: " ".join(case[:2]))
def test_a_command_names_the_extra_that_it_needs(
    folder: Path, extra: str, words: list[str]
) -> None:
    done = run(folder, [], words)
    assert done.returncode == 2, done.stderr
    made = "make train-env creates .venv-train with it; or " if extra in ("train", "export") else ""
    command = f"from the checkout, {made}pip install -e ./client -e '.[{extra}]'"
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"dragoman {words[0]}: ")
    index = TORCH if extra in ("train", "export") else ""
    assert line.endswith(f" is not installed: {command}{index}")


@pytest.mark.thorough
def test_a_command_works_with_the_extra_that_it_names(folder: Path) -> None:
    for extra, words in CASES:
        if words[0] in ON_ITS_OWN and extra != "tensorrt":
            done = run(folder, [extra], words)
            assert done.returncode == 0, (words, done.stderr)
        elif words[0] not in ("serve", "gateway"):  # they would not end
            assert " is not installed" not in run(folder, [extra], words).stderr, words


def test_every_command_is_tried() -> None:
    assert {*COMMANDS} == {words[0] for _, words in CASES} | {"corpora", "link-words"}


def test_corpora_and_their_links_need_no_extra(folder: Path) -> None:
    assert run(folder, [], ["corpora"]).returncode == 0
    done = run(folder, [], ["link-words", "--text", "my.en", "my.de", "--eflomal", "./none"])
    assert "link-words: none: cannot be run: No such file" in done.stderr


def test_the_runtime_for_cpus_is_not_installed_beside_the_one_for_gpus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(installation, "_has_gpu_runtime", lambda: True)
    assert "'.[export-gpu]'" in install_command("export")
    assert "'.[serve-gpu,tensorrt]'" in install_command("serve-cpu,tensorrt")
    assert "'.[train]'" in install_command("train")
